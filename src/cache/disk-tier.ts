import { intervalKeyOf, familyOfKey, type ReadKeys, type EntryInterval } from '../api/read.js'
import { withTimeout } from '../with-timeout.js'
import { bytesOnDisk, type DiskFiles } from './disk-files.js'
import { type DiskRoom } from './disk-evictor.js'
import { DiskIntervalIndex, type DiskInterval } from './disk-interval-index.js'
import { decodeRecord, encodeRecord } from './disk-record.js'
import { invalidates, type Invalidation } from './invalidation.js'
import { LargeEntryError, type StoredEntry } from './entry-codec.js'
import {
  type FoundEntry,
  type EntrySelector,
  type LowerTier,
  type OwnTier,
  type TierMetrics,
  type TierStatus,
  type TierWrite
} from './tier.js'
import { type HeldBytes, WriteQueue } from './write-queue.js'

/** Settings and callbacks of a disk tier. */
export interface DiskTierOptions {
  readonly files: DiskFiles
  readonly room: DiskRoom
  /** A longer body is a miss. */
  readonly maxEntryBytes: number
  readonly metrics: Pick<TierMetrics, 'wrote' | 'foundCorrupt'> & { dropped(): void }
  /** Holds the body of a write in the budget for bytes outside the cache; undefined if no room is left. */
  readonly holdQueued: (buffer: ArrayBufferLike) => HeldBytes | undefined
  readonly now: () => number
  readonly wallClockMs: () => number
  /** Folder with the entries of our chain; undefined while it may be another chain's (law 7: chains never mix). */
  readonly space: () => string | undefined
  /** Gives our chain an empty folder; resolves once that is durable, and nothing may be read before. */
  readonly renewSpace: () => Promise<void>
}

/** Write in the queue, with the time at which waiting began. */
interface QueuedWrite extends TierWrite {
  readonly queuedAtMs: number
}

// Promised to operators: an entry is on the disk within a second, or counted as dropped.
const maxQueuedMs = 1000
const finalWritesMs = 1000
// Failed invalidations beyond this are replaced by one of everything (law 10: nothing grows without bound).
const maxPending = 256
// Leaves threads of Node.js to reads, DNS look-ups and compression.
const maxConcurrentWrites = 1

/** Invalidation that is not durable yet. */
interface PendingInvalidation {
  readonly run: () => Promise<void>
  running: Promise<void> | undefined
}

/** Disk tier: a file per entry; a damaged, late or unreadable one is a miss (law 6: the cache can only help). */
export class DiskTier implements LowerTier, OwnTier {
  readonly name = 'disk'
  readonly #options: DiskTierOptions
  readonly #index: DiskIntervalIndex
  readonly #writeQueue: WriteQueue<QueuedWrite>
  // Invalidations that are not durable yet; nothing is read before they are.
  #pending: PendingInvalidation[] = []
  #writeError: string | undefined

  constructor (options: DiskTierOptions) {
    const { files, metrics } = options
    this.#options = options
    this.#index = new DiskIntervalIndex({
      files,
      foundCorrupt: () => {
        metrics.foundCorrupt()
      }
    })
    this.#writeQueue = new WriteQueue(async item => {
      await this.#write(item)
    }, {
      now: options.now,
      hold: ({ stored: { body } }) => options.holdQueued(body.buffer),
      maxConcurrentWrites,
      canWrite: () => options.space() !== undefined,
      onWriteError: reason => {
        if (reason !== undefined) this.#writeError = reason
      },
      onDropped: () => {
        metrics.dropped()
      }
    })
  }

  async get (selector: EntrySelector): Promise<FoundEntry | undefined> {
    const space = this.#options.space()
    if (space === undefined || this.#pending.length > 0) return undefined
    // The files count failures.
    return await this.#look(space, selector).catch(() => undefined)
  }

  /** Queues an entry for the disk; no response waits for the write. */
  put (item: TierWrite): void {
    const { stored: { key, validity } } = item
    if (validity === undefined || this.#index.accepts(validity)) {
      this.#writeQueue.add(key, { ...item, queuedAtMs: this.#options.now() })
    }
  }

  /** Invalidates entries and queued writes: hides the tier until the invalidation is durable; true if it had any. */
  async invalidate (invalidation: Invalidation): Promise<boolean> {
    let hadAny = this.#writeQueue.drop(({ stored }) => invalidates(invalidation, stored))
    const wasProven = this.#options.space() !== undefined
    await this.#hideUntilDone(async () => {
      if (await this.#invalidate(invalidation, wasProven)) hadAny = true
    })
    return hadAny
  }

  /** Invalidates everything: hides the tier at once, until our chain has another folder. */
  async clear (): Promise<void> {
    this.dropPending()
    await this.#hideUntilDone(this.#options.renewSpace)
  }

  /** Drops all queued writes, and retries of writes in flight. */
  dropPending (): void {
    this.#writeQueue.drop(() => true)
  }

  /** Starts writes that waited for the chain, and repeats invalidations that failed; rejects if one fails again. */
  async resume (): Promise<void> {
    this.#writeQueue.resume()
    await Promise.all(this.#pending.map(async pending => {
      await this.#deliver(pending)
    }))
  }

  /** Resolves when nothing is in flight and no queued write can start. */
  async waitUntilIdle (): Promise<void> {
    await this.#writeQueue.waitUntilIdle()
  }

  get status (): TierStatus {
    const { files, room: { entries, bytes, maxBytes, isShared } } = this.#options
    const sizes = { entries, bytes, maxBytes, ...(isShared && { isShared }) }
    return files.isHanging ? { ...sizes, state: 'down', reason: 'reads time out' } : { ...sizes, state: 'up' }
  }

  get warnings (): readonly string[] {
    const { files } = this.#options
    return [
      ...(files.isHanging ? ['disk is down: reads time out'] : []),
      ...(this.#writeError === undefined ? [] : [`disk rejects writes: ${this.#writeError}`]),
      ...(this.#pending.some(({ running }) => running === undefined)
        ? ['disk tier not read: purges could not be written to it yet']
        : [])
    ]
  }

  async close (): Promise<void> {
    await withTimeout(finalWritesMs, this.waitUntilIdle())
    this.#writeQueue.stop()
    await withTimeout(finalWritesMs, this.#writeQueue.waitForInFlight())
  }

  async #hideUntilDone (run: () => Promise<void>): Promise<void> {
    const pending = { run, running: undefined }
    this.#pending.push(pending)
    if (this.#pending.length > maxPending) {
      this.#pending = [{ run: this.#options.renewSpace, running: undefined }]
      return await this.resume()
    }
    await this.#deliver(pending)
  }

  async #deliver (pending: PendingInvalidation): Promise<void> {
    pending.running ??= pending.run().then(() => {
      this.#pending = this.#pending.filter(other => other !== pending)
    }).finally(() => {
      pending.running = undefined
    })
    await pending.running
  }

  async #invalidate (invalidation: Invalidation, wasProven: boolean): Promise<boolean> {
    const space = this.#options.space()
    if (space === undefined) throw new Error('the chain on the disk is not proven yet')
    // Keys name the space of their time; another one, proven since, has the same reads under other keys.
    if (!wasProven && !isOfSpace(invalidation, space)) {
      await this.#options.renewSpace()
      return true
    }
    // A write that finished after the look-up would survive the invalidation.
    await this.#writeQueue.waitForInFlight()
    const found = await Promise.all(
      invalidation.intervals.map(async interval =>
        (await this.#index.find(space, interval)).map(({ height }) => intervalKeyOf(interval.family, height))
      )
    )
    const removed = await Promise.all(
      [...new Set([...invalidation.keys, ...found.flat()])].map(async key => await this.#remove(space, key))
    )
    return removed.includes(true)
  }

  async #look (space: string, selector: EntrySelector): Promise<FoundEntry | undefined> {
    switch (selector.by) {
      case 'key':
        return await this.#getByKey(space, selector.keys)
      case 'version':
        return await this.#getByVersion(space, selector.family, selector.version)
    }
  }

  async #getByKey (space: string, { value, text, intervalFamily }: ReadKeys): Promise<FoundEntry | undefined> {
    if (intervalFamily !== undefined) return await this.#getIndexed(space, value)
    return await this.#read(space, value) ?? (text === value ? undefined : await this.#read(space, text))
  }

  async #getByVersion (space: string, family: string, version: bigint): Promise<FoundEntry | undefined> {
    for (
      const { height } of await this.#index.find(space, { family, first: version, last: version })
    ) {
      const found = await this.#getIndexed(space, intervalKeyOf(family, height))
      const validity = found?.stored.validity
      if (validity !== undefined && version >= validity.first && version <= validity.last) return found
    }
    return undefined
  }

  // Serves only indexed entries, so that a purge by version finds every served one.
  async #getIndexed (space: string, key: string): Promise<FoundEntry | undefined> {
    const found = await this.#read(space, key)
    const validity = found?.stored.validity
    if (validity === undefined) return undefined
    return await this.#index.has(space, validity.family, intervalOf(key, validity)) ? found : undefined
  }

  async #read (space: string, key: string): Promise<FoundEntry | undefined> {
    const { files, metrics, maxEntryBytes, wallClockMs } = this.#options
    const record = await files.read(space, key)
    if (record === undefined) return undefined
    try {
      return await decodeRecord(key, record, maxEntryBytes, wallClockMs())
    } catch (error) {
      if (!(error instanceof LargeEntryError)) metrics.foundCorrupt()
      await this.#remove(space, key)
      return undefined
    }
  }

  async #remove (space: string, key: string): Promise<boolean> {
    const { files, room } = this.#options
    const bytes = await files.remove(space, key)
    if (bytes > 0) room.add(-bytes, -1)
    return bytes > 0
  }

  async #write (item: QueuedWrite): Promise<void> {
    const { now, room, metrics, space: spaceNow } = this.#options
    const { stored: { key, body, validity }, queuedAtMs } = item
    const waitedMs = now() - queuedAtMs
    const space = spaceNow()
    // The queue starts no write without a space.
    if (space === undefined || waitedMs > maxQueuedMs || !room.has(bytesOnDisk(body.length))) return metrics.dropped()
    if (!await this.#set(space, item.stored, (item.ttlMs ?? Infinity) - waitedMs)) return
    // Indexed after the entry is written, so that no record points to a missing entry.
    if (validity !== undefined) room.add(await this.#index.add(space, validity.family, intervalOf(key, validity)), 0)
    this.#writeError = undefined
    metrics.wrote(this.name)
  }

  /** Writes an entry unless it has expired; returns true if it was written. */
  async #set (space: string, stored: StoredEntry, ttlMs: number): Promise<boolean> {
    const { files, room, wallClockMs } = this.#options
    if (ttlMs < 1) return false
    const record = await encodeRecord(stored, ttlMs, wallClockMs())
    const { bytes, entries } = await files.write(space, stored.key, record)
    room.add(bytes, entries)
    return true
  }
}

function intervalOf (key: string, { first, last }: EntryInterval): DiskInterval {
  return { first, last, height: BigInt(key.slice(familyOfKey(key).length + 1)) }
}

/** Returns true if all keys of an invalidation name the space of a folder. */
function isOfSpace ({ keys, intervals }: Invalidation, space: string): boolean {
  const prefix = `${space.slice(0, space.lastIndexOf('-'))} `
  return [...keys, ...intervals.map(({ family }) => family)].every(name => name.startsWith(prefix))
}
