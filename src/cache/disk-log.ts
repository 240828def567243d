import { type FileHandle } from 'node:fs/promises'
import { setImmediate as pause } from 'node:timers/promises'
import { type DiskFiles } from './disk-files.js'
import { type RecordPlace } from './disk-index.js'
import { type Hits, type LogKeeper, type Segment } from './disk-keeper.js'
import {
  decodeHeader,
  decodeRecord,
  encodeHeader,
  type EntryIdentity,
  type EntryRecord,
  frameBytes,
  headerBytes,
  SegmentList,
  trailerBytes
} from './disk-segment.js'
import { type StoreSpace } from './tier.js'

/** Entry to append. */
export interface Append {
  readonly space: StoreSpace
  readonly record: Buffer
  readonly what: EntryIdentity
}

/** Segment with the list of its records. */
export interface ListedSegment extends Segment {
  /** Name of its log. */
  readonly log: number
  readonly list: SegmentList
  /** End of the records; the footer of a sealed segment follows. */
  end: number
}

interface OwnSegment {
  readonly segment: ListedSegment
  readonly file: FileHandle
}

/** Settings and callbacks of a log. */
export interface DiskLogOptions {
  readonly files: DiskFiles
  readonly keeper: LogKeeper
  /** Returns the name of the log. */
  readonly name: () => number
  readonly segmentBytes: number
  readonly onUnreadable: () => void
  /** Returns true while the index has more entries than it may have. */
  readonly isFull: () => boolean
  /** Returns an entry that is to be copied forward; undefined if it is no longer wanted. */
  readonly entryToCopy: (bytes: Buffer) => EntryRecord | undefined
  /** Indexes an entry that was copied, unless another entry has taken its place. */
  readonly copied: (space: StoreSpace, what: EntryIdentity, place: RecordPlace) => void
}

// Exceeds any segment with its footer, which is shorter than the segment; a longer file has grown by damage.
const mostFileBytes = 3 * 64 * 1024 ** 2
const maxBatchBytes = 8 * 1024 ** 2
const windowBytes = 1024 ** 2
// Entries wait this long for more entries, so that many share one write and one message; a batch of `mostGathered`
// waits no longer.
const gatherMs = 20
const mostGathered = 32
/** Steps of loading and evicting that may run without a pause for requests. */
export const stepsPerPause = 500

/** Log of segments as one process sees it: it reads all segments, and appends batches to a segment of its own. */
export class DiskLog {
  readonly #options: DiskLogOptions
  readonly #segments = new Map<number, Segment>()
  readonly #waiting: Array<
    { append: Append, resolve: (place: RecordPlace) => void, reject: (error: unknown) => void }
  > = []

  // Segment of this process, and its file.
  #own: OwnSegment | undefined
  #lastTurn: Promise<void> = Promise.resolve()
  #gathering: NodeJS.Timeout | undefined

  constructor (options: DiskLogOptions) {
    this.#options = options
  }

  /** Bytes of all segments, as far as this process knows. */
  get bytes (): number {
    return [...this.#segments.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  get segments (): ReadonlyMap<number, Segment> {
    return this.#segments
  }

  /** Reads the lists of segments, oldest first. */
  async load (numbers: readonly number[], onSegment: (segment: ListedSegment) => Promise<void>): Promise<void> {
    for (const number of numbers) {
      try {
        const segment = await this.read(number)
        this.learn(segment, segment.list.minSequence)
        await onSegment(segment)
      } catch {
        // Closes the file, because an open file would keep the space of a removed one. A segment that was evicted
        // meanwhile counts as unreadable too.
        this.forget(number)
        this.#options.onUnreadable()
      }
    }
  }

  /** Learns of a new segment, or of new records in one. */
  learn ({ number, space, bytes }: Omit<Segment, 'minSequence'>, minSequence: number): void {
    const known = this.#segments.get(number)
    this.#segments.set(number, {
      number,
      space,
      bytes: Math.max(bytes, known?.bytes ?? 0),
      minSequence: Math.min(minSequence, known?.minSequence ?? Infinity)
    })
  }

  /** Forgets a segment whose entries have left the index; the system frees its file once no process has it open. */
  forget (number: number): void {
    this.#segments.delete(number)
    this.#options.files.forget(number)
  }

  /** Appends an entry, and resolves once it is in the file. */
  async append (append: Append): Promise<RecordPlace> {
    return await new Promise((resolve, reject) => {
      this.#waiting.push({ append, resolve, reject })
      if (this.#waiting.length >= mostGathered) this.#flush()
      else this.#gathering ??= setTimeout(() => this.#flush(), gatherMs)
    })
  }

  #flush (): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    this.#inTurn(async () => {
      while (this.#waiting.length > 0) await this.#writeNext()
    }).catch(() => {})
  }

  /** Forgets all segments, after their folder was removed. */
  async reset (): Promise<void> {
    this.#segments.clear()
    // Closes the files before anything else is read, or reads would go on in a removed file.
    this.#options.files.close()
    await this.#inTurn(async () => await this.#closeOwn(false))
  }

  /** Writes the footer of the own segment, so that the next start need not scan it. */
  async close (): Promise<void> {
    await this.#inTurn(async () => {
      await this.#closeOwn(true)
      this.#options.files.close()
    })
  }

  // Runs one change at a time, because a footer and a record that are written at once would take the same place.
  async #inTurn (change: () => Promise<void>): Promise<void> {
    const changed = this.#lastTurn.then(change)
    this.#lastTurn = changed.catch(() => {})
    await changed
  }

  async #writeNext (): Promise<void> {
    const batch = this.#waiting.splice(0, this.#batchLength())
    try {
      const places = await this.#write(batch.map(({ append }) => append))
      for (const [at, { resolve }] of batch.entries()) resolve(places[at] as RecordPlace)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  /** Counts the waiting records that one write takes; a batch has the bytes of a segment at most, or one record. */
  #batchLength (): number {
    const most = Math.min(maxBatchBytes, this.#options.segmentBytes)
    let bytes = 0
    const [first] = this.#waiting
    const end = this.#waiting.findIndex(({ append: { space, record } }) => {
      bytes += record.length
      return space.name !== first?.append.space.name || (bytes > most && bytes > record.length)
    })
    return end === -1 ? this.#waiting.length : end
  }

  async #write (batch: readonly Append[]): Promise<RecordPlace[]> {
    const { segmentBytes, isFull } = this.#options
    const { space } = batch[0] as Append
    const bytes = sizeOf(batch)
    const own = this.#own?.segment
    const isOver = own === undefined || own.space.name !== space.name ||
      (own.end > 0 && (own.end + bytes > segmentBytes || isFull()))
    if (isOver) await this.#begin(space, bytes)
    return await this.#append(batch, false)
  }

  /** Begins a segment, and copies to it the hit entries of the segments that were evicted for it. */
  async #begin (space: StoreSpace, bytes: number): Promise<void> {
    const { files, keeper, segmentBytes, isFull } = this.#options
    await this.#closeOwn(true)
    const { number, isContinued, evicted } = await keeper.beginSegment({ space, bytes, mustEvict: isFull() })
    const removed = evicted.map(hits => hits.number)
    try {
      this.#own = isContinued ? await this.#continue(space, number) : {
        file: await files.create(number),
        segment: {
          number,
          log: this.#options.name(),
          space,
          list: new SegmentList(),
          end: 0,
          bytes: 0,
          minSequence: Infinity
        }
      }
      // Leaves room for the batch that needs the new segment.
      const left = Math.max(segmentBytes, bytes) - bytes - headerBytes - this.#own.segment.end
      const copies = await this.#readCopies(space, evicted, Math.min(segmentBytes / 2, left))
      if (copies.length > 0) await this.#append(copies, true)
    } catch (error) {
      if (isContinued && this.#own === undefined) removed.push(number)
      throw error
    } finally {
      for (const each of removed) files.forget(each)
      const minSequence = [...this.#segments.values()].reduce((min, each) => Math.min(min, each.minSequence), Infinity)
      await keeper.endEviction(removed, minSequence)
    }
  }

  async #continue (space: StoreSpace, number: number): Promise<OwnSegment> {
    const segment = await this.read(number)
    if (segment.space.name !== space.name || segment.log !== this.#options.name()) throw new Error('not of this log')
    const file = await this.#options.files.openToWrite(number)
    // Removes the footer, because records follow.
    await file.truncate(segment.end)
    return { segment, file }
  }

  async #readCopies (space: StoreSpace, evicted: readonly Hits[], room: number): Promise<Append[]> {
    const copies: Append[] = []
    let left = room
    for (const { number, places } of evicted) {
      const reader = new SegmentReader(this.#options.files, number)
      for (const [nth, { offset, length }] of places.entries()) {
        if (nth % stepsPerPause === 0) await pause()
        if (length > left) continue
        const record = Buffer.from(await reader.bytes(offset, length).catch(() => Buffer.alloc(0)))
        const what = this.#options.entryToCopy(record)
        if (what === undefined) continue
        left -= length
        copies.push({ space, record, what })
      }
    }
    return copies
  }

  async #append (batch: readonly Append[], isCopied: boolean): Promise<RecordPlace[]> {
    const { segment, file } = this.#own as OwnSegment
    const { number, space, list } = segment
    // Writes the header together with the first records, so that no segment has a header alone.
    const header = segment.end === 0 ? encodeHeader(space, this.#options.name()) : Buffer.alloc(0)
    const { files, keeper } = this.#options
    await files.write(file, [header, ...batch.map(({ record }) => record)], segment.end)
    let offset = segment.end + header.length
    const rows = new SegmentList()
    const places = batch.map(({ record: { length }, what }) => {
      const place = { segment: number, offset, length }
      for (const each of [list, rows]) each.add({ ...what, offset, length })
      offset += length
      return place
    })
    segment.bytes = segment.end = offset
    this.learn(segment, list.minSequence)
    if (keeper.isShared) keeper.announce({ number, space, bytes: offset, isCopied, rows: rows.encode() })
    if (isCopied) {
      for (const [at, { what }] of batch.entries()) this.#options.copied(space, what, places[at] as RecordPlace)
    }
    return places
  }

  async #closeOwn (isSealed: boolean): Promise<void> {
    const own = this.#own
    this.#own = undefined
    if (own === undefined) return
    const { segment, file } = own
    if (isSealed && segment.end > 0) {
      const footer = segment.list.encode()
      await this.#options.files.write(file, [footer], segment.end).then(() => {
        segment.bytes = segment.end + footer.length
        this.learn(segment, segment.list.minSequence)
      }, () => {})
    }
    await file.close()
  }

  /** Reads the list of a segment from its footer, or from its records; rejects if it has no header of this form. */
  async read (number: number): Promise<ListedSegment> {
    const { files } = this.#options
    const bytes = await files.sizeOf(number)
    const header = decodeHeader(await files.read(number, 0, headerBytes))
    if (header === undefined || bytes > mostFileBytes) throw new Error('a segment has lost its header or grown')
    const { log, space, length: start } = header
    const trailer = await files.read(number, Math.max(0, bytes - trailerBytes), trailerBytes)
    const footerLength = SegmentList.footerLengthOf(trailer)
    const footerAt = footerLength === undefined ? 0 : bytes - trailerBytes - footerLength
    if (footerLength !== undefined && footerAt >= start) {
      const list = SegmentList.decode(await files.read(number, footerAt, footerLength), trailer)
      if (list !== undefined) return { number, log, space, list, end: footerAt, bytes, minSequence: list.minSequence }
    }
    const list = new SegmentList()
    const end = await this.#scan(number, start, bytes, list)
    return { number, log, space, list, end, bytes, minSequence: list.minSequence }
  }

  /** Lists the undamaged records of a segment; returns the end of the last record. */
  async #scan (number: number, start: number, end: number, list: SegmentList): Promise<number> {
    const reader = new SegmentReader(this.#options.files, number)
    let [offset, endOfLast, steps] = [start, start, 0]
    for (let found = await recordAt(reader, offset, end); found; found = await recordAt(reader, offset, end)) {
      const { record, length } = found
      if (record !== undefined) list.add({ ...record, offset, length })
      offset += length
      if (record !== undefined) endOfLast = offset
      if (++steps % stepsPerPause === 0) await pause()
    }
    return endOfLast
  }
}

/** Reads the record at an offset, and the length that the record states; undefined if no whole record is there. */
async function recordAt (
  reader: SegmentReader,
  offset: number,
  end: number
): Promise<{ readonly record: EntryRecord | undefined, readonly length: number } | undefined> {
  const frame = await reader.bytes(offset, frameBytes)
  const contentLength = frame.length < frameBytes ? 0 : frame.readUInt32BE()
  const length = frameBytes + contentLength
  if (contentLength === 0 || length > end - offset) return undefined
  return { record: decodeRecord(await reader.bytes(offset, length)), length }
}

/** Reads a segment from front to back, 1 MB at a time. */
class SegmentReader {
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

function sizeOf (batch: readonly Append[]): number {
  return batch.reduce((sum, { record }) => sum + record.length, 0)
}
