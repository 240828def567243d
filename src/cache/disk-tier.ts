import { hash } from 'node:crypto'
import { setImmediate as pause } from 'node:timers/promises'
import { familyOfKey, intervalKeyOf } from '../api/read.js'
import { withTimeout } from '../with-timeout.js'
import { DiskFiles, type DiskOperation } from './disk-files.js'
import { DiskIndex, type RecordPlace } from './disk-index.js'
import { type Copy, DiskLog, type Segment, stepsPerPause } from './disk-log.js'
import { DiskPurges } from './disk-purges.js'
import {
  decodeRecord,
  digestBytes,
  encodeEntryRecord,
  encodePurgeRecord,
  type EntryIdentity,
  type EntryRecord,
  type FamilyInterval,
  frameBytes,
  type PurgeRecord,
  type SegmentList
} from './disk-segment.js'
import { decodeEntry, encodeEntry, LargeEntryError, mostBytesBesideBody, type StoredEntry } from './entry-codec.js'
import { invalidates, type Invalidation } from './invalidation.js'
import {
  type FoundEntry,
  type LowerStore,
  type OwnStore,
  type StoreSpace,
  type StoreWrite,
  type TierMetrics,
  type TierStatus
} from './tier.js'
import { type WriteBudget, WriteQueue } from './write-queue.js'

/** Settings and callbacks of a disk tier. */
export interface DiskTierOptions {
  /** Folder of this process alone; it exists. */
  readonly path: string
  readonly maxBytes: number
  /** A longer body is a miss. */
  readonly maxEntryBytes: number
  readonly metrics: TierMetrics & { dropped(): void, diskFailed(operation: DiskOperation): void }
  readonly inFlight: WriteBudget
  readonly now: () => number
  readonly wallClockMs: () => number
  /** Space that the folder has; undefined while its entries may be another chain's (law 7: chains never mix). */
  readonly space: () => StoreSpace | undefined
}

interface QueuedWrite extends StoreWrite {
  readonly space: StoreSpace
  readonly queuedAtMs: number
}

// Promised to operators: an entry is on the disk within a second, or counted as dropped.
const maxQueuedMs = 1000
const finalWritesMs = 1000
// Many writes at once share a batch.
const maxConcurrentWrites = 64
// Bounds the index to one entry for each KB of the folder (law 10: nothing grows without bound).
const bytesPerIndexedEntry = 1024
/** Bound on the memory of an indexed entry. */
export const indexBytesPerEntry = 64
// A record from further ahead was written before the clock went back, so its age is unknown.
const clockToleranceMs = 5000

/** Returns the most entries that a folder of a size may have. */
export function maxEntriesOf (maxBytes: number): number {
  return Math.ceil(maxBytes / bytesPerIndexedEntry)
}

/**
 * Disk tier: a log of segments with an index in memory; a damaged, late or unreadable record is a miss (law 6: the
 * cache can only help).
 */
export class DiskTier implements LowerStore, OwnStore {
  readonly name = 'disk'
  readonly #options: DiskTierOptions
  readonly #files: DiskFiles
  readonly #log: DiskLog
  readonly #queue: WriteQueue<QueuedWrite>
  // One for each name of a space, since entries of several may lie in the folder.
  readonly #indexes = new Map<string, DiskIndex>()
  #purges = new DiskPurges()
  // Purges that a power cut could undo.
  #unsynced: Array<PurgeRecord & { readonly space: StoreSpace }> = []
  #loading: Promise<void> | undefined
  #isLoaded = false
  #isCompressing = false
  #writeError: string | undefined

  constructor (options: DiskTierOptions) {
    const { path, maxBytes, metrics, inFlight, now, space } = options
    this.#options = options
    this.#files = new DiskFiles({
      path,
      onError: operation => {
        metrics.diskFailed(operation)
      }
    })
    this.#log = new DiskLog({
      files: this.#files,
      maxBytes,
      foundCorrupt: () => {
        metrics.foundCorrupt()
      },
      onUnreadable: () => {
        metrics.diskFailed('scan')
      },
      isFull: () => this.#entries > maxEntriesOf(maxBytes),
      evict: async (...evicted) => await this.#evict(...evicted)
    })
    this.#queue = new WriteQueue(async item => {
      await this.#write(item)
    }, {
      now,
      hold: ({ stored: { body } }) => inFlight.holdQueued(body.buffer),
      maxConcurrentWrites,
      canWrite: () => this.#isLoaded && space() !== undefined,
      onWriteError: reason => {
        if (reason !== undefined) this.#writeError = reason
      },
      onDropped: () => {
        metrics.dropped()
      }
    })
  }

  /** Reads what the folder has; nothing is found or written before. */
  async load (): Promise<void> {
    this.#loading ??= this.#log.load(async segment => {
      await this.#addSegment(segment)
    }).catch(() => {
      this.#options.metrics.diskFailed('scan')
    }).then(() => {
      this.#purges.coverLost()
      this.#isLoaded = true
      this.#queue.resume()
    })
    await this.#loading
  }

  async get (space: StoreSpace, key: string): Promise<FoundEntry | undefined> {
    const index = this.#readable(space)
    // The files count failures.
    return index && await this.#read(index, key, digestOf(space, key)).catch(() => undefined)
  }

  async covering (space: StoreSpace, family: string, version: bigint): Promise<FoundEntry | undefined> {
    const interval = this.#readable(space)?.covering(withoutSpace(space, family), version)
    const found = interval && await this.get(space, intervalKeyOf(family, interval.number))
    const validity = found?.stored.validity
    // Another entry may have taken the key.
    return validity !== undefined && validity.first <= version && version <= validity.last ? found : undefined
  }

  /** Queues an entry for the disk; no response waits for the write. */
  put (space: StoreSpace, item: StoreWrite): void {
    this.#queue.add(item.stored.key, { ...item, space, queuedAtMs: this.#options.now() })
  }

  /** Hides entries at once; resolves when no later process finds them either, with true if there were any. */
  async drop (space: StoreSpace, what: Invalidation): Promise<boolean> {
    const hadQueued = this.#queue.drop(({ stored }) => invalidates(what, stored))
    await this.load()
    const hadAny = await this.#purge(space, {
      isOfAll: this.#purges.isFull,
      digests: what.keys.map(key => digestOf(space, key)),
      intervals: what.intervals.map(interval => ({ ...interval, family: withoutSpace(space, interval.family) }))
    })
    return hadQueued || hadAny
  }

  /** Hides everything at once; resolves when no later process finds any of it. */
  async clear (space: StoreSpace): Promise<void> {
    this.#queue.drop(() => true)
    await this.load()
    await this.#purge(space, { isOfAll: true, digests: [], intervals: [] })
  }

  /** Starts writes that waited for the chain, and repeats purges that the disk rejected; rejects if it does again. */
  async resume (): Promise<void> {
    this.#queue.resume()
    for (const purge of [...this.#unsynced]) await this.#persist(purge)
  }

  /** Begins again if the folder was removed; returns true then. */
  async resetIfRemoved (): Promise<boolean> {
    if (!await this.#log.isRemoved()) return false
    await this.#log.reset()
    this.#indexes.clear()
    return true
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
    return [
      ...(this.#isLoaded ? [] : ['disk tier not read yet: its index is being read']),
      ...(this.#files.isHanging ? ['disk is down: reads time out'] : []),
      ...(this.#writeError === undefined ? [] : [`disk rejects writes: ${this.#writeError}`]),
      ...(this.#unsynced.length > 0 ? ['purges could not be written to the disk yet: a restart would undo them'] : [])
    ]
  }

  async close (): Promise<void> {
    await withTimeout(finalWritesMs, this.waitUntilIdle())
    this.#queue.stop()
    await withTimeout(
      finalWritesMs,
      this.#queue.waitForInFlight().then(async () => {
        await this.#log.close()
      })
    )
  }

  get #entries (): number {
    return [...this.#indexes.values()].reduce((sum, { size }) => sum + size, 0)
  }

  #readable (space: StoreSpace): DiskIndex | undefined {
    return this.#isLoaded && this.#options.space() === space ? this.#indexes.get(space.name) : undefined
  }

  async #addSegment ({ space, number, list }: Segment): Promise<void> {
    for (const purge of list.purges) this.#purges.add(purge)
    const index = this.#indexFor(space)
    for (let nth = 0; nth < list.size; nth++) {
      const item = list.item(nth)
      const { offset, length } = item
      // No entry is longer, so none is read.
      const isPossible = length <= this.#options.maxEntryBytes + mostBytesBesideBody
      if (isPossible && !this.#purges.covers(item)) add(index, item, { segment: number, offset, length })
      this.#purges.learn(item.sequence)
      if (nth % stepsPerPause === 0) await pause()
    }
  }

  #indexFor ({ name }: StoreSpace): DiskIndex {
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
      return this.#purges.covers(entry) ? undefined : { stored, ttlMs: entry.expiresAtMs - nowMs }
    } catch (error) {
      if (!(error instanceof LargeEntryError)) metrics.foundCorrupt()
      return undefined
    }
  }

  async #write (item: QueuedWrite): Promise<void> {
    const { metrics, inFlight, now, wallClockMs, space: spaceNow, maxBytes } = this.#options
    const { space, stored, queuedAtMs } = item
    const waitedMs = now() - queuedAtMs
    const ttlMs = (item.ttlMs ?? Infinity) - waitedMs
    const interval = intervalOf(space, stored)
    if (ttlMs < 1 || interval === null) return
    if (spaceNow() !== space || waitedMs > maxQueuedMs) return metrics.dropped()
    const what = { digest: digestOf(space, stored.key), sequence: this.#purges.sequence, interval }
    const value = await this.#encode(stored)
    const writtenAtMs = wallClockMs()
    const record = encodeEntryRecord({ ...what, writtenAtMs, expiresAtMs: writtenAtMs + ttlMs, value })
    if (record.length > maxBytes / 4) return metrics.dropped()
    const held = inFlight.holdSent(record.buffer)
    try {
      const place = await this.#log.append({ space, record, what })
      // A purge may have overtaken the write.
      if (this.#purges.covers(what)) return
      add(this.#indexFor(space), what, place)
    } catch (error) {
      metrics.diskFailed('write')
      throw error
    } finally {
      held.release()
    }
    this.#writeError = undefined
    metrics.wrote(this.name)
  }

  /** Compresses one entry at a time, since compression must never cost an entry its time to be written. */
  async #encode (stored: StoredEntry): Promise<Buffer> {
    if (this.#isCompressing) return await encodeEntry(stored, false)
    this.#isCompressing = true
    try {
      return await encodeEntry(stored)
    } finally {
      this.#isCompressing = false
    }
  }

  async #purge (space: StoreSpace, what: Omit<PurgeRecord, 'sequence'>): Promise<boolean> {
    const purge = { ...what, space, sequence: this.#purges.sequence + 1 }
    this.#purges.add(purge)
    const removed = [...this.#indexes.values()].map(index => removeFrom(index, purge))
    if (purge.isOfAll) this.#indexes.clear()
    // A purge of everything stands for all before it.
    this.#unsynced = [...(purge.isOfAll ? [] : this.#unsynced), purge]
    await this.#persist(purge)
    return removed.includes(true)
  }

  async #persist (purge: PurgeRecord & { readonly space: StoreSpace }): Promise<void> {
    // A purge concerns every space, so it begins no segment of its own.
    const space = this.#log.space ?? purge.space
    await this.#log.append({ space, record: encodePurgeRecord(purge), what: purge }).catch(error => {
      this.#options.metrics.diskFailed('write')
      throw error
    })
    this.#unsynced = this.#unsynced.filter(other => other !== purge)
  }

  /** Takes the entries of a segment out of the index; copies those that were hit, up to some bytes. */
  async #evict (segment: Segment, list: SegmentList, room: number): Promise<readonly Copy[]> {
    const { metrics, wallClockMs } = this.#options
    this.#purges.forgetUpTo(this.#log.minSequence)
    const { name } = segment.space
    const index = this.#indexFor(segment.space)
    const reader = this.#log.reader(segment)
    const copies: Copy[] = []
    let left = room
    for (let nth = 0; nth < list.size; nth++) {
      if (nth % stepsPerPause === 0) await pause()
      const item = list.item(nth)
      const place = index.get(item.digest)
      if (place !== undefined && (place.segment !== segment.number || place.offset !== item.offset)) continue
      if (place?.isHit === true && item.length <= left) {
        const record = await reader.bytes(item.offset, item.length).catch(() => Buffer.alloc(0))
        const entry = entryIn(record, item.digest)
        if (entry !== undefined && !isExpired(entry, wallClockMs())) {
          left -= item.length
          copies.push(this.#copyOf(segment, index, Buffer.from(record), entry))
          continue
        }
      }
      if (item.interval !== undefined) index.deleteInterval(item.interval.family, item.interval)
      if (index.delete(item.digest)) metrics.evicted(this.name)
    }
    const isLast = [...this.#log.segments.values()].every(({ space, number }) =>
      space.name !== name || number === segment.number
    )
    if (isLast && copies.length === 0) this.#indexes.delete(name)
    return copies
  }

  #copyOf ({ space, number }: Segment, index: DiskIndex, record: Buffer, entry: EntryRecord): Copy {
    const { digest, sequence, interval } = entry
    return {
      space,
      record,
      what: { digest: Buffer.from(digest), sequence, interval },
      copied: place => {
        // A purge or a newer entry may have overtaken the copy.
        if (index.get(digest)?.segment === number) index.set(digest, place)
      }
    }
  }
}

/** Indexes an entry; of two whose intervals share a version the older one leaves, because nothing proves either. */
function add (index: DiskIndex, { digest, interval }: EntryIdentity, place: RecordPlace): void {
  if (interval !== undefined) {
    const { family, first, last, number } = interval
    for (const other of index.overlapping(family, first, last)) {
      index.deleteInterval(family, other)
      if (other.number !== number) index.delete(digestOfText(intervalKeyOf(family, other.number)))
    }
    index.addInterval(family, interval)
  }
  index.set(digest, place)
}

/** Removes what a purge covers from an index; returns true if there was any. */
function removeFrom (index: DiskIndex, { isOfAll, digests, intervals }: PurgeRecord): boolean {
  if (isOfAll) return index.size > 0
  const removed = digests.map(digest => index.delete(digest))
  for (const { family, first, last } of intervals) {
    for (const interval of index.overlapping(family, first, last)) {
      index.deleteInterval(family, interval)
      removed.push(index.delete(digestOfText(intervalKeyOf(family, interval.number))))
    }
  }
  return removed.includes(true)
}

/** Returns the entry of a record if it is the wanted one (law 13: what was stored elsewhere is checked). */
function entryIn (bytes: Buffer, digest: Buffer): EntryRecord | undefined {
  const record = decodeRecord(bytes)
  if (record === undefined || !('entry' in record)) return undefined
  // Refuses bytes behind the record, which a copy would take along and hide what is written after it.
  const isWhole = bytes.length === frameBytes + bytes.readUInt32BE()
  return isWhole && record.entry.digest.subarray(0, digest.length).equals(digest) ? record.entry : undefined
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

function digestOfText (text: string): Buffer {
  return hash('sha256', text, 'buffer').subarray(0, digestBytes)
}
