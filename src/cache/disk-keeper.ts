import { randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { withTimeout } from '../with-timeout.js'
import { type DiskFiles, type DiskOperation, isAbsent, makeFolder, writeDurably } from './disk-files.js'
import { decodePurge, DiskPurges, encodePurge, type PurgedEntries } from './disk-purges.js'
import { decodeHeader, headerBytes, isOfOtherForm } from './disk-segment.js'
import { type LogTierName, type StoreSpace } from './tier.js'

/** File of the log. */
export interface Segment {
  readonly number: number
  readonly space: StoreSpace
  bytes: number
  /**
   * Lowest sequence of its entries. A purge is obsolete once no segment has an entry with a lower sequence than the
   * purge.
   */
  readonly minSequence: number
}

/** Entries of a segment that were hit, and so are copied forward before it is evicted. */
export interface Hits {
  readonly number: number
  readonly places: ReadonlyArray<{ readonly offset: number, readonly length: number }>
}

/** Entries that a process has appended, as the process announces them to other processes. */
export interface StoredRows extends Omit<Segment, 'minSequence'> {
  /** True for copies of older entries. */
  readonly isCopied: boolean
  /** Encoded list. */
  readonly rows: Uint8Array
}

/** Segment to begin, with room for some bytes. */
export interface BeginSegment {
  readonly space: StoreSpace
  readonly bytes: number
  /** True if the index has too many entries, so that the oldest segment is evicted in any case. */
  readonly mustEvict: boolean
}

/** New segment for a writer, and the segments to remove once their hit entries are copied. */
export interface BegunSegment {
  readonly number: number
  /** True for a segment of an earlier process that still has much room. */
  readonly isContinued: boolean
  readonly evicted: readonly Hits[]
}

/** Methods of a log's one keeper, for processes that read and write the log. */
export interface LogKeeper {
  /** True if other processes read and write the log too. */
  readonly isShared: boolean
  /** Joins the log; returns the encoded purges, and the numbers of the segments, oldest first. */
  joinLog(): Promise<{ readonly purges: Uint8Array, readonly segments: readonly number[] }>
  beginSegment(what: BeginSegment): Promise<BegunSegment>
  /** Removes evicted segments whose copies are written, and forgets purges that no entry needs. */
  endEviction(segments: readonly number[], minSequence: number): Promise<void>
  /** Reports what was appended; nothing waits for it. */
  announce(stored: StoredRows): void
  /**
   * Numbers an encoded purge. Resolves once every process has applied it and it outlasts a restart, with true if any
   * process had an entry of it. A purge with a confirmed id is not applied again, because it would cover entries
   * fetched since.
   */
  purgeLog(purge: Uint8Array, id?: string): Promise<boolean>
}

/** Methods of a process that reads and writes a log, as its keeper calls them in order. */
export interface LogMember {
  /** Applies an encoded purge; returns true if this process had any entry of it. */
  applyPurge(purge: Uint8Array): boolean | Promise<boolean>
  /** Indexes what another process has appended. */
  learn(stored: StoredRows): void | Promise<void>
  /** Takes a segment out of the index; returns the offset and length of each entry that was hit. */
  evict(segment: number, obsoletePurge: number, isOwn: boolean): Promise<Uint32Array>
  /** Begins with an empty log, after the folder was removed. */
  resetLog(): void | Promise<void>
}

/** Log as each process that reads and writes it opens it. */
export interface LogSettings {
  /** Name of the tier whose entries lie in the log. */
  readonly name: LogTierName
  /** Folder of the log, which exists. */
  readonly path: string
  readonly maxBytes: number
  /** Processes that append at once. */
  readonly writers: number
}

/** Settings of a keeper. */
export interface DiskKeeperOptions extends Omit<LogSettings, 'name'> {
  /** True if the folder lies in memory, where no later process reads it. */
  readonly isMemory?: boolean
  readonly files: DiskFiles
  readonly foundCorrupt: () => void
  readonly onError: (operation: DiskOperation) => void
}

interface KeptSegment {
  readonly number: number
  readonly space: string
  bytes: number
  writer: LogMember | undefined
}

const mostSegmentBytes = 64 * 1024 ** 2
const segmentsPerWriter = 16
const blockBytes = 4096
const fileName = 'purges'
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
// A start skips this many numbers of purges, because entries may carry numbers of purges that the disk rejected.
const maxUnsaved = 1000
// Limits the waits for one process's hits or copies, because a process that has stopped must not delay the others.
const maxEvictMs = 500
const maxCopyMs = 1000
// Remembers more ids than the log of purges in Redis has, so that no repeated purge is applied twice.
const maxConfirmed = 512
const hasLeft = 'this process has left the log'

/** Returns the bytes of a segment, which are a small part of the room of each writer. */
export function segmentBytesOf (maxBytes: number, writers: number): number {
  return Math.min(mostSegmentBytes, Math.floor(maxBytes / (segmentsPerWriter * writers)))
}

/** Keeper of a log: it alone numbers segments and purges, evicts the oldest segment, and stores the purges. */
export class DiskKeeper {
  readonly #options: DiskKeeperOptions
  readonly #segmentBytes: number
  // Bounds the number of segments, because each change of space begins one, however short.
  readonly #mostSegments: number
  // Segments by number, oldest first.
  readonly #segments = new Map<number, KeptSegment>()
  readonly #members = new Set<LogMember>()
  readonly #gone = new WeakSet<LogMember>()
  // Processes that have not responded to an eviction yet, so that no later eviction waits for them.
  readonly #silent = new Set<LogMember>()
  // Evicted segments whose files stay until their hit entries are copied, each with the process that copies them.
  readonly #leaving = new Map<KeptSegment, LogMember>()
  // Ids of the last purges that every process has applied.
  readonly #confirmed = new LRUCache<string, true>({ max: maxConfirmed })
  #purges = new DiskPurges(0)
  #lastNumber = 0
  #obsolete = 0
  // Highest number of a purge in the file.
  #saved = 0
  #hasFile = false
  #isGivenUp = false
  #saving: Promise<void> = Promise.resolve()
  #lastTurn: Promise<unknown> = Promise.resolve()
  // Resolves when the files of the last evicted segments are removed, or the process that copies takes too long.
  #copied: Promise<void> = Promise.resolve()
  #onCopied = (): void => {}

  constructor (options: DiskKeeperOptions) {
    const { maxBytes, writers } = options
    this.#options = options
    this.#segmentBytes = segmentBytesOf(maxBytes, writers)
    this.#mostSegments = segmentsPerWriter * Math.ceil(maxBytes / this.#segmentBytes)
  }

  /** Reads what the folder has. */
  async open (): Promise<void> {
    const { files, foundCorrupt, onError } = this.#options
    const purges = DiskPurges.decode(await readFile(this.#path, { flag: readFlags }).catch(() => Buffer.alloc(0)))
    const numbers = await files.list().catch(() => {
      onError('scan')
      return []
    })
    this.#lastNumber = numbers.at(-1) ?? 0
    // Without the purges no entry may be served; a new log has another name, so that no old segment ever comes back.
    if (purges === undefined && numbers.length > 0) foundCorrupt()
    for (const number of numbers) {
      const segment = purges && await this.#openSegment(number, purges.log)
      if (segment === undefined) await files.remove(number)
      else this.#segments.set(number, segment)
    }
    // Closes all files, because an open file would keep the disk space of a removed one.
    files.close()
    this.#purges = purges ?? new DiskPurges(randomInt(2 ** 32))
    this.#saved = this.#purges.sequence
    if (purges !== undefined) this.#purges.skip(maxUnsaved)
    await this.#save().catch(() => {})
  }

  /** Returns the methods of the keeper for one process. */
  for (member: LogMember): LogKeeper {
    return {
      isShared: this.#options.writers > 1,
      joinLog: async () => {
        // Rejects a message that arrives after the exit of its process.
        if (this.#gone.has(member)) throw new Error(hasLeft)
        this.#members.add(member)
        return { purges: this.#purges.encode(), segments: [...this.#segments.keys()] }
      },
      beginSegment: async what => await this.#inTurn(async () => await this.#begin(member, what)),
      endEviction: async (segments, minSequence) => {
        this.#obsolete = Math.max(this.#obsolete, Math.min(minSequence, this.#purges.sequence))
        this.#purges.forgetUpTo(this.#obsolete)
        await this.#remove(segments)
      },
      announce: stored => {
        if (!this.#segments.has(stored.number)) return
        for (const other of this.#members) {
          if (other === member) continue
          run(async () => await other.learn(stored))
        }
      },
      purgeLog: async (purge, id) => {
        if (id === undefined) return await this.#purge(decodePurge(purge))
        if (this.#confirmed.has(id)) return false
        const hadAny = await this.#purge(decodePurge(purge))
        this.#confirmed.set(id, true)
        return hadAny
      }
    }
  }

  /** Frees the segment of a process that is gone for other processes. */
  async leave (member: LogMember): Promise<void> {
    this.#gone.add(member)
    this.#members.delete(member)
    this.#silent.delete(member)
    // Ends the wait for copies of this process, so that the next segment can begin.
    this.#onCopied()
    await this.#inTurn(async () => await this.#release(member))
  }

  /** Makes removed files again; returns true if the log begins empty. */
  async restore (): Promise<boolean> {
    if (this.#isGivenUp) return false
    await makeFolder(this.#options.path)
    if (!await this.#isGone()) return false
    const isReset = this.#hasFile
    if (isReset) this.#reset()
    await this.#save()
    return isReset
  }

  /** Ends all use of the folder, because another process has it, or it is gone. */
  giveUp (): void {
    this.#isGivenUp = true
    this.#reset()
  }

  /** Resolves when nothing is being written. */
  async close (): Promise<void> {
    await this.#lastTurn
    await this.#saving
    this.#options.files.close()
  }

  get #path (): string {
    return join(this.#options.path, fileName)
  }

  /** Opens a segment of an earlier process; undefined if the file is no segment, or has another form. */
  async #openSegment (number: number, log: number): Promise<KeptSegment | undefined> {
    const { files, foundCorrupt, onError } = this.#options
    try {
      const [beginning, bytes] = await Promise.all([files.read(number, 0, headerBytes), files.sizeOf(number)])
      const header = decodeHeader(beginning)
      if (header?.log === log) return { number, space: header.space.name, bytes, writer: undefined }
      // A process that was killed, or found the disk full, may leave an empty file.
      if (header === undefined && beginning.length > 0 && !isOfOtherForm(beginning)) foundCorrupt()
    } catch {
      onError('scan')
    }
    return undefined
  }

  async #inTurn<T> (change: () => Promise<T>): Promise<T> {
    const changed = this.#lastTurn.then(change)
    this.#lastTurn = changed.catch(() => {})
    return await changed
  }

  async #isGone (): Promise<boolean> {
    return await lstat(this.#path).then(() => false, isAbsent)
  }

  #reset (): void {
    this.#hasFile = false
    this.#segments.clear()
    this.#leaving.clear()
    for (const member of this.#members) run(async () => await member.resetLog())
  }

  async #begin (member: LogMember, { space, bytes, mustEvict }: BeginSegment): Promise<BegunSegment> {
    const { maxBytes, writers } = this.#options
    if (this.#isGivenUp) throw new Error('the folder is gone, or another varve has it')
    if (!this.#members.has(member)) throw new Error(hasLeft)
    await this.#release(member)
    await this.#copied
    // A restart continues the last segments, or many restarts would evict a full log without writing anything.
    const continued = [...this.#segments.values()].slice(-writers).find(segment =>
      segment.writer === undefined && segment.space === space.name &&
      segment.bytes + bytes <= this.#segmentBytes * 3 / 4
    )
    const needed = Math.max(this.#segmentBytes, bytes)
    const leavingBytes = sizeOf(this.#leaving.keys())
    // Leaves the room of one segment for entries that are copied forward.
    const isOver = (): boolean =>
      this.#bytesBeside(continued) + leavingBytes + needed > maxBytes - this.#segmentBytes ||
      this.#segments.size > this.#mostSegments
    const evicted: Hits[] = []
    for (const segment of [...this.#segments.values()]) {
      if (!isOver() && !(mustEvict && evicted.length === 0)) break
      if (segment.writer !== undefined || segment === continued) continue
      const hits = await this.#evict(segment, member)
      // Copies no entry of another space (law 7: chains never mix).
      evicted.push(segment.space === space.name ? hits : { ...hits, places: [] })
    }
    // Throws if too many processes append, as after a reload that has raised their number.
    if (isOver()) throw new Error('more processes write than the log has room for')
    const number = continued?.number ?? ++this.#lastNumber
    this.#segments.set(number, { number, space: space.name, bytes: continued?.bytes ?? 0, writer: member })
    if (evicted.length > 0) this.#waitForCopies()
    return { number, isContinued: continued !== undefined, evicted }
  }

  #bytesBeside (continued: KeptSegment | undefined): number {
    return [...this.#segments.values()].reduce((sum, segment) => {
      if (segment === continued) return sum
      return sum + Math.max(segment.writer === undefined ? 0 : this.#segmentBytes, sizeOf([segment]))
    }, 0)
  }

  /** Evicts a segment but leaves its file; returns the entries that any process has hit in it. */
  async #evict (segment: KeptSegment, by: LogMember): Promise<Hits> {
    const { number } = segment
    this.#segments.delete(number)
    this.#leaving.set(segment, by)
    const hits = await Promise.all([...this.#members].map(async member => await this.#hitsOf(member, number, by)))
    const lengths = new Map<number, number>()
    for (const list of hits) {
      for (let at = 0; at < list.length; at += 2) lengths.set(list[at] as number, list[at + 1] as number)
    }
    const places = [...lengths].map(([offset, length]) => ({ offset, length })).sort((a, b) => a.offset - b.offset)
    return { number, places }
  }

  async #hitsOf (member: LogMember, number: number, by: LogMember): Promise<Uint32Array> {
    const none = new Uint32Array()
    const hits = member.evict(number, this.#obsolete, member === by).catch(() => none).finally(() =>
      this.#silent.delete(member)
    )
    if (member === by) return await hits
    if (this.#silent.has(member)) return none
    const inTime = await withTimeout(maxEvictMs, hits)
    if (inTime === undefined) this.#silent.add(member)
    return inTime ?? none
  }

  // The next segment begins once the files of the evicted ones are removed.
  #waitForCopies (): void {
    const copied = new Promise<void>(resolve => {
      this.#onCopied = resolve
    })
    this.#copied = withTimeout(maxCopyMs, copied)
  }

  async #remove (segments: readonly number[]): Promise<void> {
    if (this.#isGivenUp) return
    for (const number of segments) {
      this.#segments.delete(number)
      await this.#options.files.remove(number)
    }
    for (const segment of this.#leaving.keys()) if (segments.includes(segment.number)) this.#leaving.delete(segment)
    if (segments.length > 0) this.#onCopied()
  }

  /** Ends the segment and the evictions of a process, even evictions whose response never reached it. */
  async #release (member: LogMember): Promise<void> {
    await this.#remove([...this.#leaving].flatMap(([{ number }, by]) => by === member ? [number] : []))
    for (const segment of this.#segments.values()) {
      if (segment.writer !== member) continue
      segment.writer = undefined
      segment.bytes = await this.#options.files.sizeOf(segment.number).catch(() => 0)
      if (segment.bytes > 0) continue
      // Removes an empty segment, which is left when the disk is full.
      this.#segments.delete(segment.number)
      await this.#options.files.remove(segment.number)
    }
  }

  async #purge (entries: PurgedEntries): Promise<boolean> {
    if (this.#purges.sequence >= this.#saved + maxUnsaved) await this.#save()
    const sequence = this.#purges.sequence + 1
    const purge = this.#purges.isFull ? { isOfAll: true, digests: [], intervals: [] } : entries
    this.#purges.add({ ...purge, sequence })
    const encoded = encodePurge({ ...purge, sequence })
    const applied = [...this.#members].map(async member => await member.applyPurge(encoded))
    const [had] = await Promise.all([Promise.all(applied), this.#save()])
    return had.includes(true)
  }

  /** Writes the purges so that a power cut cannot undo them; calls at the same time share a write. */
  async #save (): Promise<void> {
    const { sequence } = this.#purges
    if (this.#isGivenUp || this.#options.isMemory === true) {
      // Skips the write, because no later process reads a log in memory.
      this.#saved = sequence
      return
    }
    const saved = this.#saving.then(async () => {
      if (sequence > this.#saved || !this.#hasFile) await this.#write()
    })
    this.#saving = saved.catch(() => {})
    await saved
  }

  async #write (): Promise<void> {
    const { sequence } = this.#purges
    // Checks before the write if the folder was emptied, because the write makes the file again and so hides that.
    if (this.#hasFile && await this.#isGone()) this.#reset()
    await writeDurably(this.#options.path, fileName, this.#purges.encode())
    this.#saved = sequence
    this.#hasFile = true
  }
}

function sizeOf (segments: Iterable<KeptSegment>): number {
  return [...segments].reduce((sum, { bytes }) => sum + Math.ceil(bytes / blockBytes) * blockBytes, 0)
}

/** Calls a process without waiting for the result or an error. */
function run (call: () => Promise<void>): void {
  call().catch(() => {})
}
