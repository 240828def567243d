import { setImmediate as pause } from 'node:timers/promises'
import { familyOfKey, intervalKeyOf } from '../api/read.js'
import { withTimeout } from '../with-timeout.js'
import { DiskFiles, type DiskOperation } from './disk-files.js'
import { addEntry, digestOfText, digestsOfAccount, DiskIndex, type RecordPlace, removePurged } from './disk-index.js'
import { type LogKeeper, type LogMember, type LogSettings, segmentBytesOf, type StoredRows } from './disk-keeper.js'
import { DiskLog, type ListedSegment, stepsPerPause } from './disk-log.js'
import {
  contentOf,
  decodePurge,
  DiskPurges,
  encodePurge,
  isNamedBy,
  maxPurges,
  type PurgedEntries
} from './disk-purges.js'
import {
  encodeEntryRecord,
  entryIn,
  type EntryIdentity,
  type EntryRecord,
  type FamilyInterval,
  SegmentList,
  trailerBytes
} from './disk-segment.js'
import { decodeEntry, encodeEntry, LargeEntryError, mostBytesBesideBody, type StoredEntry } from './entry-codec.js'
import { invalidates, type Invalidation } from './invalidation.js'
import {
  type FoundEntry,
  type LogTierName,
  type LowerStore,
  type OwnStore,
  type QueuedWrite,
  type StoreSpace,
  type StoreWrite,
  type TierMetrics,
  type TierStatus
} from './tier.js'
import { type WriteBudget, WriteQueue } from './write-queue.js'

/** Settings and callbacks of a disk tier. */
export interface DiskTierOptions extends LogSettings {
  /** Returns the keeper's methods for this process; the keeper calls the methods of `member`. */
  readonly keeperFor: (member: LogMember) => LogKeeper
  /** A longer body is a miss. */
  readonly maxEntryBytes: number
  readonly metrics: TierMetrics & { dropped(tier: LogTierName): void, diskFailed(operation: DiskOperation): void }
  readonly inFlight: WriteBudget
  readonly now: () => number
  readonly wallClockMs: () => number
  /** Space that the folder has; undefined while its entries may be another chain's (law 7: chains never mix). */
  readonly space: () => StoreSpace | undefined
}

/** Purge, with the id that it has at every process. */
interface NamedPurge extends PurgedEntries {
  readonly id: string | undefined
}

// Keeps what operators are promised: an entry is on the disk within a second, or counted as dropped.
const maxQueuedMs = 1000
const finalWritesMs = 1000
// Allows many writes at once, because they share a batch.
const maxConcurrentWrites = 64
// Bounds the index to one entry for each KB of the folder (law 10: nothing grows without bound).
const bytesPerIndexedEntry = 1024
/** Bound on the memory of an indexed entry. */
export const indexBytesPerEntry = 64
// A record from further ahead was written before the clock went back, so its age is unknown.
const clockToleranceMs = 5000

/** Returns the most entries that a log of a size may have. */
export function maxEntriesOf (maxBytes: number): number {
  return Math.ceil(maxBytes / bytesPerIndexedEntry)
}

/**
 * Disk tier: a log of segments with an index in memory; a damaged, late or unreadable record is a miss (law 6: the
 * cache can only help).
 */
export class DiskTier implements LowerStore, OwnStore {
  readonly name: LogTierName
  readonly #options: DiskTierOptions
  readonly #files: DiskFiles
  readonly #log: DiskLog
  readonly #queue: WriteQueue<QueuedWrite>
  // Indexes by the name of a space, since entries of several spaces may lie in the folder.
  readonly #indexes = new Map<string, DiskIndex>()
  readonly #keeper: LogKeeper
  #purges = new DiskPurges(0)
  // Purges that a power cut could undo, or that other processes lack. They hide entries even before they are applied.
  readonly #unsynced = new Map<string, NamedPurge & { isApplied: boolean }>()
  #joining: Promise<readonly number[]> | undefined
  #loading: Promise<void> | undefined
  #isLoaded = false
  #isCompressing = false
  #writeError: string | undefined

  constructor (options: DiskTierOptions) {
    const { name, path, maxBytes, writers, keeperFor, metrics, inFlight, now, space } = options
    this.#options = options
    this.name = name
    this.#keeper = keeperFor(this)
    this.#files = new DiskFiles({
      path,
      isMemory: name === 'shared',
      onError: operation => metrics.diskFailed(operation)
    })
    this.#log = new DiskLog({
      files: this.#files,
      keeper: this.#keeper,
      name: () => this.#purges.log,
      segmentBytes: segmentBytesOf(maxBytes, writers),
      onUnreadable: () => metrics.diskFailed('scan'),
      isFull: () => this.#entries > maxEntriesOf(maxBytes),
      entryToCopy: bytes => this.#entryToCopy(bytes),
      copied: (...copied) => this.#addCopy(...copied)
    })
    this.#queue = new WriteQueue(async item => await this.#write(item), {
      now,
      hold: ({ stored: { body } }) => inFlight.holdQueued(body.buffer),
      maxConcurrentWrites,
      canWrite: () => this.#isLoaded && space() !== undefined,
      onWriteError: reason => {
        // Ignores a lack of descriptors, which the process reports itself: nothing is wrong with the disk.
        if (reason !== undefined && !/^E[MN]FILE\b/.test(reason)) this.#writeError = reason
      },
      onDropped: () => metrics.dropped(name)
    })
  }

  /** Reads what the folder has; nothing is found or written before. */
  async load (): Promise<void> {
    this.#loading ??= this.#join().then(async segments => {
      await this.#log.load(segments, async segment => await this.#addSegment(segment))
      this.#isLoaded = true
      this.#queue.resume()
    }).catch(() => {
      this.#options.metrics.diskFailed('scan')
      this.#loading = undefined
    })
    await this.#loading
  }

  async #join (): Promise<readonly number[]> {
    this.#joining ??= this.#keeper.joinLog().then(({ purges, segments }) => {
      const joined = DiskPurges.decode(Buffer.from(purges))
      if (joined === undefined) throw new Error('the purges of the log are damaged')
      this.#purges = joined
      return segments
    })
    this.#joining.catch(() => {
      this.#joining = undefined
    })
    return await this.#joining
  }

  async get (space: StoreSpace, key: string): Promise<FoundEntry | undefined> {
    const index = this.#readable(space)
    // Ignores failures, because `DiskFiles` counts them.
    return index && await this.#read(index, key, digestOf(space, key)).catch(() => undefined)
  }

  async covering (space: StoreSpace, family: string, version: bigint): Promise<FoundEntry | undefined> {
    const interval = this.#readable(space)?.covering(withoutSpace(space, family), version)
    const found = interval && await this.get(space, intervalKeyOf(family, interval.number))
    const validity = found?.stored.validity
    // Checks the interval, because another entry may have taken the key.
    return validity !== undefined && validity.first <= version && version <= validity.last ? found : undefined
  }

  /** Queues an entry for the disk; no response waits for the write. */
  put (space: StoreSpace, item: StoreWrite): void {
    this.#queue.add(item.stored.key, { ...item, space, queuedAtMs: this.#options.now() })
  }

  /**
   * Hides entries at once. Resolves once no process finds them, also after a restart, with true if any process had one.
   */
  async drop (space: StoreSpace, what: Invalidation, id?: string): Promise<boolean> {
    const hadQueued = this.#queue.drop(({ stored }) => invalidates(what, stored))
    const hadAny = await this.#purge({
      id,
      isOfAll: false,
      digests: [
        ...what.keys.map(key => digestOf(space, key)),
        ...what.account === undefined ? [] : digestsOfAccount(what.account)
      ],
      intervals: what.intervals.map(interval => ({ ...interval, family: withoutSpace(space, interval.family) }))
    })
    // Returns true if any entry is left: only their records show which entries depend on an account.
    return hadQueued || hadAny || (what.account !== undefined && this.#entries > 0)
  }

  /** Hides all entries at once; resolves when no process finds any of them. */
  async clear (_space: StoreSpace, id?: string): Promise<void> {
    this.#queue.drop(() => true)
    await this.#purge({ id, isOfAll: true, digests: [], intervals: [] })
  }

  /** Starts writes that waited for the chain, and repeats purges that were not confirmed. */
  async resume (): Promise<void> {
    if (!this.#isLoaded) this.load().catch(() => {})
    this.#queue.resume()
    for (const purge of [...this.#unsynced.values()]) await this.#purge(purge)
  }

  /** Applies a purge of any process, in the order of their numbers. */
  async applyPurge (encoded: Uint8Array): Promise<boolean> {
    // Waits for a join in progress, because this purge must follow the purges that the join returns.
    await this.#joining
    const purge = decodePurge(encoded)
    this.#purges.add(purge, this.#options.now())
    const unsynced = this.#unsynced.get(contentOf(purge))
    if (unsynced !== undefined) unsynced.isApplied = true
    const removed = [...this.#indexes.values()].map(index => removePurged(index, purge))
    if (purge.isOfAll) this.#indexes.clear()
    // Returns true before the index is read, because the purge may have covered any entry.
    return removed.includes(true) || !this.#isLoaded
  }

  /** Indexes what another process has appended. */
  learn ({ number, space, bytes, isCopied, rows }: StoredRows): void {
    const encoded = Buffer.from(rows)
    const list = SegmentList.decode(encoded.subarray(0, -trailerBytes), encoded.subarray(-trailerBytes))
    if (list === undefined) return
    this.#log.learn({ number, space, bytes }, list.minSequence)
    for (let nth = 0; nth < list.size; nth++) {
      const item = list.item(nth)
      const place = { segment: number, offset: item.offset, length: item.length }
      if (isCopied) this.#addCopy(space, item, place)
      else if (this.#isIndexable(item)) addEntry(this.#indexFor(space), item, place)
    }
  }

  /** Takes the entries of a segment out of the index; returns the offset and length of each that was hit. */
  async evict (number: number, obsoletePurge: number, isOwn: boolean): Promise<Uint32Array> {
    // Waits for a load in progress, which would otherwise index entries of the segment afterwards.
    await this.load()
    this.#purges.forgetUpTo(obsoletePurge)
    const hits: number[] = []
    const name = this.#log.segments.get(number)?.space.name
    // The index has no entry of a segment that this process does not know.
    if (name === undefined) return new Uint32Array()
    const index = this.#indexFor({ name })
    const { list } = await this.#log.read(number).catch(async () => {
      // The file of the segment may be gone when a slow process reads it.
      await index.prune(number)
      return { list: new SegmentList() }
    })
    for (let nth = 0; nth < list.size; nth++) {
      if (nth % stepsPerPause === 0) await pause()
      const { digest, interval, offset, length } = list.item(nth)
      const place = index.get(digest)
      if (place !== undefined && (place.segment !== number || place.offset !== offset)) continue
      if (place?.isHit === true) hits.push(offset, length)
      if (interval !== undefined) index.deleteInterval(interval.family, interval)
      if (index.delete(digest) && isOwn) this.#options.metrics.evicted(this.name)
    }
    this.#log.forget(number)
    if (![...this.#log.segments.values()].some(({ space }) => space.name === name)) this.#indexes.delete(name)
    return Uint32Array.from(hits)
  }

  /** Begins with an empty log, after the folder was removed. */
  async resetLog (): Promise<void> {
    this.#indexes.clear()
    await this.#log.reset()
  }

  /** Resolves when nothing is in flight and no queued write can start. */
  async waitUntilIdle (): Promise<void> {
    await this.#queue.waitUntilIdle()
  }

  get status (): TierStatus {
    const sizes = { entries: this.#entries, bytes: this.#log.bytes, maxBytes: this.#options.maxBytes }
    return this.#files.isHanging ? { ...sizes, state: 'down', reason: 'reads time out' } : { ...sizes, state: 'up' }
  }

  /** Memory of the index. */
  get indexBytes (): number {
    return [...this.#indexes.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  get warnings (): readonly string[] {
    const words = this.name === 'disk' ? 'disk' : 'shared memory'
    return [
      ...(this.#isLoaded ? [] : [`${words} tier not read yet: its index is being read`]),
      ...(this.#files.isHanging ? ['disk is down: reads time out'] : []),
      ...(this.#writeError === undefined ? [] : [`${words} rejects writes: ${this.#writeError}`]),
      ...(this.#unsynced.size > 0 ? ['purges could not be written to the disk yet: a restart would undo them'] : [])
    ]
  }

  async close (): Promise<void> {
    await withTimeout(finalWritesMs, this.waitUntilIdle())
    this.#queue.stop()
    await withTimeout(
      finalWritesMs,
      this.#queue.waitForInFlight().then(async () => await this.#log.close())
    )
  }

  get #entries (): number {
    return [...this.#indexes.values()].reduce((sum, { size }) => sum + size, 0)
  }

  #readable (space: StoreSpace): DiskIndex | undefined {
    return this.#isLoaded && this.#options.space() === space ? this.#indexes.get(space.name) : undefined
  }

  async #addSegment ({ space, number, list }: ListedSegment): Promise<void> {
    for (let nth = 0; nth < list.size; nth++) {
      if (nth % stepsPerPause === 0) await pause()
      const item = list.item(nth)
      const { offset, length } = item
      const index = this.#indexFor(space)
      // Another process may have appended a newer entry meanwhile.
      const isNewest = (index.get(item.digest)?.segment ?? 0) <= number
      if (isNewest && this.#isIndexable(item)) addEntry(index, item, { segment: number, offset, length })
    }
  }

  #isIndexable ({ length, ...item }: EntryIdentity & { readonly length: number }): boolean {
    // Excludes records that are longer than any entry may be.
    return length <= this.#options.maxEntryBytes + mostBytesBesideBody && !this.#isPurged(item)
  }

  /** Returns true if a purge covers an entry, also a purge without a number yet. */
  #isPurged (what: EntryIdentity): boolean {
    if (this.#purges.covers(what)) return true
    for (const purge of this.#unsynced.values()) if (!purge.isApplied && isNamedBy(purge, what)) return true
    return false
  }

  #addCopy (space: StoreSpace, what: EntryIdentity, place: RecordPlace): void {
    const index = this.#indexFor(space)
    const { digest, interval } = what
    // A purge or a newer entry may have overtaken the copy.
    const isReplaced = index.get(digest) !== undefined ||
      (interval !== undefined && index.overlapping(interval.family, interval.first, interval.last).length > 0)
    if (!isReplaced && !this.#isPurged(what)) addEntry(index, what, place)
  }

  #indexFor ({ name }: Pick<StoreSpace, 'name'>): DiskIndex {
    const index = this.#indexes.get(name) ?? new DiskIndex(segment => this.#log.segments.has(segment))
    this.#indexes.set(name, index)
    return index
  }

  async #read (index: DiskIndex, key: string, digest: Buffer): Promise<FoundEntry | undefined> {
    const place = index.get(digest)
    if (place === undefined || !this.#log.segments.has(place.segment)) return undefined
    const bytes = await this.#files.lookUp(place.segment, place.offset, place.length)
    const found = bytes && await this.#decode(key, digest, bytes)
    const now = index.get(digest)
    if (found !== undefined && now?.segment === place.segment && now.offset === place.offset && now.isHit !== true) {
      index.set(digest, { ...place, isHit: true })
    }
    return found
  }

  async #decode (key: string, digest: Buffer, bytes: Buffer): Promise<FoundEntry | undefined> {
    const { metrics, maxEntryBytes, wallClockMs } = this.#options
    const entry = entryIn(bytes, digest)
    if (entry === undefined) {
      metrics.foundCorrupt()
      return undefined
    }
    const nowMs = wallClockMs()
    if (isExpired(entry, nowMs)) return undefined
    try {
      const stored = await decodeEntry(key, entry.value, maxEntryBytes)
      return this.#isPurged(entry) ? undefined : { stored, ttlMs: entry.expiresAtMs - nowMs }
    } catch (error) {
      if (!(error instanceof LargeEntryError)) metrics.foundCorrupt()
      return undefined
    }
  }

  async #write (item: QueuedWrite): Promise<void> {
    const { metrics, inFlight, now, wallClockMs, space: spaceNow, maxBytes, writers } = this.#options
    const { space, stored, queuedAtMs, fetchedAtMs = queuedAtMs } = item
    const waitedMs = now() - queuedAtMs
    const ttlMs = (item.ttlMs ?? Infinity) - waitedMs
    const interval = intervalOf(space, stored)
    if (ttlMs < 1 || interval === null) return
    if (spaceNow() !== space || waitedMs > maxQueuedMs) return metrics.dropped(this.name)
    const what = { digest: digestOf(space, stored.key), sequence: this.#purges.sequenceAt(fetchedAtMs), interval }
    if (this.#isPurged(what)) return
    const value = await this.#encode(stored)
    const writtenAtMs = wallClockMs()
    const record = encodeEntryRecord({ ...what, writtenAtMs, expiresAtMs: writtenAtMs + ttlMs, value })
    if (record.length > maxBytes / (4 * writers)) return metrics.dropped(this.name)
    const held = inFlight.holdSent(record.buffer)
    try {
      const place = await this.#log.append({ space, record, what })
      // A purge may have overtaken the write.
      if (this.#isPurged(what)) return
      addEntry(this.#indexFor(space), what, place)
    } catch (error) {
      metrics.diskFailed('write')
      throw error
    } finally {
      held.release()
    }
    this.#writeError = undefined
    metrics.wrote(this.name)
  }

  /** Compresses one entry at a time, and leaves others uncompressed, so that compression delays no write. */
  async #encode (stored: StoredEntry): Promise<Buffer> {
    if (this.#isCompressing) return await encodeEntry(stored, false)
    this.#isCompressing = true
    try {
      return await encodeEntry(stored)
    } finally {
      this.#isCompressing = false
    }
  }

  async #purge (entries: NamedPurge): Promise<boolean> {
    const isOfAll = entries.isOfAll || this.#unsynced.size >= maxPurges
    const purge = isOfAll
      ? { id: entries.id, isOfAll, digests: [], intervals: [], isApplied: false }
      : { ...entries, isApplied: false }
    // A purge of everything stands for all before it.
    if (isOfAll) this.#unsynced.clear()
    const content = contentOf(purge)
    this.#unsynced.set(content, purge)
    try {
      await this.#join()
      const hadAny = await this.#keeper.purgeLog(encodePurge({ ...purge, sequence: 0 }), purge.id)
      this.#unsynced.delete(content)
      return hadAny
    } catch (error) {
      this.#unsynced.set(content, this.#unsynced.get(content) ?? purge)
      this.#options.metrics.diskFailed('write')
      throw error
    }
  }

  #entryToCopy (bytes: Buffer): EntryRecord | undefined {
    const entry = entryIn(bytes)
    return entry === undefined || isExpired(entry, this.#options.wallClockMs()) || this.#isPurged(entry)
      ? undefined
      : { ...entry, digest: Buffer.from(entry.digest) }
  }
}

function isExpired ({ writtenAtMs, expiresAtMs }: EntryRecord, nowMs: number): boolean {
  return expiresAtMs <= nowMs || (expiresAtMs < Infinity && writtenAtMs > nowMs + clockToleranceMs)
}

/** Returns the interval of an entry; null for one whose key does not end with a number. */
function intervalOf (space: StoreSpace, { key, validity }: StoredEntry): FamilyInterval | undefined | null {
  if (validity === undefined) return undefined
  const [number] = /[0-9]{1,20}$/.exec(key) ?? []
  const { first, last } = validity
  return number === undefined
    ? null
    : { family: withoutSpace(space, familyOfKey(key)), first, last, number: BigInt(number) }
}

/** Returns a key or family without the name of the space, so that a purge reaches the read in every space. */
function withoutSpace ({ name }: StoreSpace, text: string): string {
  return text.slice(name.length)
}

function digestOf (space: StoreSpace, key: string): Buffer {
  return digestOfText(withoutSpace(space, key))
}
