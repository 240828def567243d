import { type FileHandle } from 'node:fs/promises'
import { setImmediate as pause } from 'node:timers/promises'
import { type DiskFiles } from './disk-files.js'
import { type RecordPlace } from './disk-index.js'
import {
  decodeHeader,
  decodeRecord,
  type DiskRecord,
  encodeHeader,
  encodePurgeRecord,
  type EntryIdentity,
  frameBytes,
  isOfOtherForm,
  type PurgeRecord,
  SegmentList,
  trailerBytes
} from './disk-segment.js'
import { type StoreSpace } from './tier.js'

/** File of the log. */
export interface Segment {
  readonly number: number
  readonly space: StoreSpace
  /** Its purges and lowest sequence; its entries too while it is the newest. */
  readonly list: SegmentList
  /** End of the records, behind which a sealed segment has its footer. */
  end: number
  bytes: number
}

/** Record to append: of an entry or of a purge. */
export interface Append {
  readonly space: StoreSpace
  readonly record: Buffer
  readonly what: EntryIdentity | PurgeRecord
}

/** Record to append again before its segment is evicted. */
export interface Copy extends Append {
  readonly copied: (place: RecordPlace) => void
}

/** Settings and callbacks of a log. */
export interface DiskLogOptions {
  readonly files: DiskFiles
  readonly maxBytes: number
  readonly foundCorrupt: () => void
  readonly onUnreadable: () => void
  /** Returns true while there are more entries than the index may have. */
  readonly isFull: () => boolean
  /** Takes the entries of a segment out of the index, and returns what is to be appended again. */
  readonly evict: (segment: Segment, list: SegmentList, room: number) => Promise<readonly Copy[]>
}

const mostSegmentBytes = 64 * 1024 ** 2
const segmentsPerLog = 16
// A footer is shorter than its segment.
const mostFileBytes = 3 * mostSegmentBytes
const maxBatchBytes = 8 * 1024 ** 2
const headerBytes = 256
const windowBytes = 1024 ** 2
const blockBytes = 4096
/** Steps of loading and evicting that may run without a pause for requests. */
export const stepsPerPause = 500

/** Log of segments: one writer appends batches, reads go to any place, and the oldest segment is evicted whole. */
export class DiskLog {
  readonly segmentBytes: number
  readonly #options: DiskLogOptions
  // Each change of space begins a segment, however short.
  readonly #mostSegments: number
  // Oldest first.
  readonly #segments = new Map<number, Segment>()
  readonly #waiting: Array<
    { append: Append, resolve: (place: RecordPlace) => void, reject: (error: unknown) => void }
  > = []

  #file: FileHandle | undefined
  #lastNumber = 0
  #lastTurn: Promise<void> = Promise.resolve()

  constructor (options: DiskLogOptions) {
    this.#options = options
    this.segmentBytes = Math.min(mostSegmentBytes, Math.floor(options.maxBytes / segmentsPerLog))
    this.#mostSegments = segmentsPerLog * Math.ceil(options.maxBytes / this.segmentBytes)
  }

  /** Bytes of all segments on the disk, in whole blocks. */
  get bytes (): number {
    return [...this.#segments.values()].reduce((sum, { bytes }) => sum + Math.ceil(bytes / blockBytes) * blockBytes, 0)
  }

  get segments (): ReadonlyMap<number, Segment> {
    return this.#segments
  }

  /** Space of the newest segment. */
  get space (): StoreSpace | undefined {
    return this.#newest?.space
  }

  /** Lowest sequence of any entry. */
  get minSequence (): number {
    return minSequenceOf([...this.#segments.values()])
  }

  /** Reads the lists of all segments, oldest first; each is forgotten before the next, but for the newest. */
  async load (onSegment: (segment: Segment) => Promise<void>): Promise<void> {
    for (const number of await this.#listTrusted()) {
      const previous = this.#newest
      this.#lastNumber = number
      try {
        const segment = await this.#open(number)
        if (segment === undefined) continue
        previous?.list.dropItems()
        this.#segments.set(number, segment)
        await onSegment(segment)
      } catch {
        this.#options.onUnreadable()
        // A later start that reads it would not know which purges came after it.
        await this.#options.files.remove(number)
      }
    }
  }

  /** Lists the segments; removes all if the newest is damaged, because its purges may have named any entry. */
  async #listTrusted (): Promise<number[]> {
    const { files, foundCorrupt } = this.#options
    const numbers = await files.list()
    const newest = numbers.at(-1)
    if (newest === undefined) return []
    const header = await files.read(newest, 0, headerBytes).catch(() => Buffer.from('unreadable'))
    // Spares what a power cut left empty, which had no purge that was acknowledged.
    const isBlank = header.every(byte => byte === 0)
    if (isBlank || isOfOtherForm(header) || decodeHeader(header) !== undefined) return numbers
    this.#lastNumber = newest
    foundCorrupt()
    // Removes the damaged one last, so that a start that is killed leaves it to the next.
    for (const number of numbers) await files.remove(number)
    return []
  }

  /** Opens a segment of an earlier process; removes what is none, or has another form. */
  async #open (number: number): Promise<Segment | undefined> {
    const { files, foundCorrupt } = this.#options
    const header = await files.read(number, 0, headerBytes)
    const segment = await this.#read(number, header)
    if (segment === undefined) {
      // A process that was killed, or found the disk full, may leave an empty file.
      if (header.length > 0 && !isOfOtherForm(header)) foundCorrupt()
      await files.remove(number)
    }
    return segment
  }

  /** Appends a record, and resolves once it is in the file; a purge once a power cut cannot take it back. */
  async append (append: Append): Promise<RecordPlace> {
    return await new Promise((resolve, reject) => {
      this.#waiting.push({ append, resolve, reject })
      this.#inTurn(async () => {
        await this.#writeNext()
      }).catch(reject)
    })
  }

  /** Reads a segment from front to back. */
  reader ({ number }: Pick<Segment, 'number'>): SegmentReader {
    return new SegmentReader(this.#options.files, number)
  }

  /** Returns true if the newest segment, or the folder, was removed. */
  async isRemoved (): Promise<boolean> {
    return this.#newest !== undefined && !await this.#options.files.has(this.#newest.number)
  }

  /** Forgets all segments, after their folder was removed. */
  async reset (): Promise<void> {
    await this.#inTurn(async () => {
      this.#segments.clear()
      await this.#closeFile()
      this.#options.files.close()
    })
  }

  /** Writes the footer of the newest segment, so that the next start need not scan it. */
  async close (): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#newest !== undefined && this.#file !== undefined) await this.#seal(this.#newest).catch(() => {})
      await this.#closeFile()
      this.#options.files.close()
    })
  }

  get #newest (): Segment | undefined {
    return this.#segments.get(this.#lastNumber)
  }

  // A footer and a record that are written at once would take the same place.
  async #inTurn (change: () => Promise<void>): Promise<void> {
    const changed = this.#lastTurn.then(change)
    this.#lastTurn = changed.catch(() => {})
    await changed
  }

  /** Writes what waits, unless an earlier turn has. */
  async #writeNext (): Promise<void> {
    const batch = this.#waiting.splice(0, this.#batchLength())
    if (batch.length === 0) return
    try {
      const places = await this.#write(batch.map(({ append }) => append))
      for (const [at, { resolve }] of batch.entries()) resolve(places[at] as RecordPlace)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  /** Counts the waiting records that one write takes; a batch has the bytes of a segment at most, or one record. */
  #batchLength (): number {
    const most = Math.min(maxBatchBytes, this.segmentBytes)
    let bytes = 0
    const [first] = this.#waiting
    const end = this.#waiting.findIndex(({ append: { space, record } }) => {
      bytes += record.length
      return space.name !== first?.append.space.name || (bytes > most && bytes > record.length)
    })
    return end === -1 ? this.#waiting.length : end
  }

  async #write (batch: readonly Append[]): Promise<RecordPlace[]> {
    const { maxBytes, isFull } = this.#options
    const { space } = batch[0] as Append
    const bytes = sizeOf(batch)
    // Leaves room for what is copied forward.
    const isOver = (): boolean =>
      isFull() || this.bytes + bytes > maxBytes - this.segmentBytes || this.#segments.size > this.#mostSegments
    while (this.#segments.size > 1 && isOver()) {
      await this.#evictOldest(space)
    }
    return await this.#writeTo(await this.#segmentFor(space, bytes), batch)
  }

  async #evictOldest (space: StoreSpace): Promise<void> {
    const { files, evict } = this.#options
    const [oldest, ...others] = [...this.#segments.values()] as [Segment, ...Segment[]]
    const list = (await this.#read(oldest.number).catch(() => undefined))?.list ?? new SegmentList()
    const copies = await evict(oldest, list, oldest.space.name === space.name ? this.segmentBytes / 2 : 0)
    // A purge outlives its segment until no older entry is left anywhere.
    const minSequence = copies.reduce((min, { what }) => Math.min(min, what.sequence), minSequenceOf(others))
    const purges = oldest.list.purges.filter(({ sequence }) => sequence > minSequence).map(purge => ({
      space,
      record: encodePurgeRecord(purge),
      what: purge
    }))
    if (copies.length + purges.length > 0) {
      const segment = await this.#segmentFor(space, sizeOf(copies))
      const places = await this.#writeTo(segment, [...copies, ...purges])
      for (const [at, { copied }] of copies.entries()) copied(places[at] as RecordPlace)
    }
    this.#segments.delete(oldest.number)
    await files.remove(oldest.number)
  }

  async #writeTo (segment: Segment, batch: readonly Append[]): Promise<RecordPlace[]> {
    const file = this.#file as FileHandle
    // A segment that has nothing yet gets its header with its first records, so none has a header alone.
    const header = segment.end === 0 ? encodeHeader(segment.space) : Buffer.alloc(0)
    const { bytesWritten } = await file.writev([header, ...batch.map(({ record }) => record)], segment.end)
    if (bytesWritten < header.length + sizeOf(batch)) throw new Error('ENOSPC: no space left on the device')
    segment.end += header.length
    const places = batch.map(({ record: { length }, what }) => {
      const place = { segment: segment.number, offset: segment.end, length }
      if ('digest' in what) segment.list.add({ ...what, ...place })
      else segment.list.purges.push(what)
      segment.bytes = segment.end += length
      return place
    })
    if (batch.some(({ what }) => !('digest' in what))) {
      await file.sync()
      await this.#options.files.syncFolder()
    }
    return places
  }

  /** Returns the newest segment if it is of the space and has room, else a new one; its file is open. */
  async #segmentFor (space: StoreSpace, bytes: number): Promise<Segment> {
    const { files } = this.#options
    const newest = this.#newest
    if (newest?.space.name === space.name && newest.end + bytes <= this.segmentBytes) {
      if (this.#file === undefined) {
        this.#file = await files.openToWrite(newest.number)
        // Takes away the footer.
        await this.#file.truncate(newest.end)
        newest.bytes = newest.end
      }
      return newest
    }
    if (newest !== undefined) {
      if (this.#file !== undefined) await this.#seal(newest)
      newest.list.dropItems()
      await this.#closeFile()
    }
    // A number that is taken by anything is never tried again.
    const number = ++this.#lastNumber
    this.#file = await files.create(number)
    const segment = { number, space, list: new SegmentList(), end: 0, bytes: 0 }
    this.#segments.set(number, segment)
    return segment
  }

  async #seal (segment: Segment): Promise<void> {
    if (segment.end === 0) return
    const footer = segment.list.encode()
    await this.#file?.writev([footer], segment.end)
    segment.bytes = segment.end + footer.length
  }

  async #closeFile (): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }

  /** Reads the list of a segment from its footer, or from its records; undefined if it has no header of this form. */
  async #read (number: number, beginning?: Buffer): Promise<Segment | undefined> {
    const { files } = this.#options
    const bytes = await files.sizeOf(number)
    const header = decodeHeader(beginning ?? await files.read(number, 0, headerBytes))
    if (header === undefined || bytes > mostFileBytes) return undefined
    const { space, length: start } = header
    const trailer = await files.read(number, Math.max(0, bytes - trailerBytes), trailerBytes)
    const footerLength = SegmentList.footerLengthOf(trailer)
    const footerAt = footerLength === undefined ? 0 : bytes - trailerBytes - footerLength
    if (footerLength !== undefined && footerAt >= start) {
      const list = SegmentList.decode(await files.read(number, footerAt, footerLength), trailer)
      if (list !== undefined) return { number, space, list, end: footerAt, bytes }
    }
    const list = new SegmentList()
    return { number, space, list, end: await this.#scan(number, start, bytes, list), bytes }
  }

  /** Lists the records of a segment, without those that are damaged; returns where they end. */
  async #scan (number: number, start: number, end: number, list: SegmentList): Promise<number> {
    const reader = this.reader({ number })
    let [offset, endOfLast, steps] = [start, start, 0]
    for (let found = await recordAt(reader, offset, end); found; found = await recordAt(reader, offset, end)) {
      const { record, length } = found
      if (record !== undefined && 'entry' in record) list.add({ ...record.entry, offset, length })
      else if (record !== undefined) list.purges.push(record.purge)
      offset += length
      if (record !== undefined) endOfLast = offset
      if (++steps % stepsPerPause === 0) await pause()
    }
    return endOfLast
  }
}

/** Reads the record at a place before the end of a file, and how long it says it is; undefined if there is none. */
async function recordAt (
  reader: SegmentReader,
  offset: number,
  end: number
): Promise<{ readonly record: DiskRecord | undefined, readonly length: number } | undefined> {
  const frame = await reader.bytes(offset, frameBytes)
  const contentLength = frame.length < frameBytes ? 0 : frame.readUInt32BE()
  const length = frameBytes + contentLength
  if (contentLength === 0 || length > end - offset) return undefined
  return { record: decodeRecord(await reader.bytes(offset, length)), length }
}

/** Reads a segment from front to back, 1 MB at a time. */
export class SegmentReader {
  readonly #files: DiskFiles
  readonly #number: number
  #window: Buffer = Buffer.alloc(0)
  #start = 0

  constructor (files: DiskFiles, number: number) {
    this.#files = files
    this.#number = number
  }

  /** Reads some bytes, fewer at the end of the file. */
  async bytes (offset: number, length: number): Promise<Buffer> {
    if (offset < this.#start || offset + length > this.#start + this.#window.length) {
      this.#window = await this.#files.read(this.#number, offset, Math.max(length, windowBytes))
      this.#start = offset
    }
    return this.#window.subarray(offset - this.#start, offset - this.#start + length)
  }
}

function minSequenceOf (segments: readonly Segment[]): number {
  return segments.reduce((min, { list }) => Math.min(min, list.minSequence), Infinity)
}

function sizeOf (batch: readonly Append[]): number {
  return batch.reduce((sum, { record }) => sum + record.length, 0)
}
