import { LRUCache } from 'lru-cache'
import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/create-client.js'
import { intervalKeyOf, familyOfKey, type ReadKeys, type EntryInterval } from '../api/read.js'
import { withTimeout } from '../with-timeout.js'
import { RedisBlockIndex } from './redis-block-index.js'
import { decodeEntry, encodeEntry, entryFormat, LargeEntryError, type StoredEntry } from './entry-codec.js'
import { type EntryIdentity, invalidates, type Invalidation } from './invalidation.js'
import {
  type FoundEntry,
  type EntrySelector,
  type LowerTier,
  type TierMetrics,
  type TierStatus,
  type TierWrite
} from './tier.js'
import { type HeldBytes, WriteQueue } from './write-queue.js'

/** Budget for bytes outside the cache. */
export interface WriteBudget {
  /** Holds the body of a write; undefined if no room is left. */
  holdQueued(buffer: ArrayBufferLike): HeldBytes | undefined
  /** Holds the encoded copy of a write that is being sent. */
  holdSent(buffer: ArrayBufferLike): HeldBytes
}

/** Settings and callbacks of a Redis tier. */
export interface RedisTierOptions {
  readonly keyPrefix: string
  readonly ttlSeconds: number
  /** A longer body is a miss. */
  readonly maxEntryBytes: number
  readonly metrics: Pick<TierMetrics, 'wrote' | 'foundCorrupt'>
  readonly inFlight: WriteBudget
  readonly now: () => number
  /** Reports agreement among replicas on the entries to read and write. */
  readonly isAgreed: () => boolean
}

/** Write in the queue, with the time at which waiting began. */
interface QueuedWrite extends TierWrite {
  readonly queuedAtMs: number
}

// No client waits for a write, and large values take longer.
const writeTimeoutMs = 1000
// Time limit for the pending writes of a stopping process, which other replicas can use.
const finalWritesMs = 1000

/** Redis tier, shared by replicas; a lookup that exceeds its time limit is a miss (law 6: the cache can only help). */
export class RedisTier implements LowerTier {
  readonly name = 'redis'
  readonly #link: RedisLink
  readonly #options: RedisTierOptions
  readonly #prefix: string
  readonly #blockIndex: RedisBlockIndex
  readonly #writeQueue: WriteQueue<QueuedWrite>
  readonly #recentPuts = new RecentPuts()
  // Reason for the last failed or dropped write; undefined after a successful one.
  #writeError: string | undefined

  constructor (link: RedisLink, options: RedisTierOptions) {
    this.#link = link
    this.#options = options
    this.#prefix = redisKeyPrefix(options.keyPrefix)
    this.#blockIndex = new RedisBlockIndex(this.#prefix, options.ttlSeconds)
    this.#writeQueue = new WriteQueue(async item => {
      await this.#write(item)
    }, {
      now: options.now,
      hold: ({ stored: { body } }) => options.inFlight.holdQueued(body.buffer),
      canWrite: () => link.isUp && options.isAgreed(),
      onWriteError: reason => {
        this.#writeError = reason
      }
    })
  }

  /** Looks up a read; undefined also if Redis is down or too slow. */
  async get (selector: EntrySelector): Promise<FoundEntry | undefined> {
    if (!this.#link.isUp || !this.#options.isAgreed()) return undefined
    const operation = selector.by === 'key' && selector.keys.intervalFamily === undefined ? 'get' : 'find'
    // The link counts failures.
    return await this.#link.run(operation, async client => await this.#look(client, selector)).catch(() => undefined)
  }

  /** Queues an entry for Redis; no response waits for the write. */
  put (item: TierWrite): void {
    const { stored: { key, validity } } = item
    if (validity === undefined || this.#blockIndex.accepts(validity)) {
      this.#writeQueue.add(key, { ...item, queuedAtMs: this.#options.now() })
    }
  }

  /** Invalidates entries, including queued writes; true if it had any, rejects if Redis is unreachable. */
  async invalidate (invalidation: Invalidation): Promise<boolean> {
    const hadQueued = this.dropQueued(invalidation)
    // A write that finished after the lookup would survive the invalidation.
    await this.#writeQueue.waitForInFlight()
    const found = await this.#link.run(
      'find',
      async client =>
        await Promise.all(
          invalidation.intervals.map(async ({ family, first }) =>
            (await this.#blockIndex.find(client, family, first)).blocks.map(block => ({ family, block }))
          )
        )
    )
    const blocks = found.flat()
    const keys = [...invalidation.keys, ...blocks.map(({ family, block }) => intervalKeyOf(family, block.height))]
    const [deleted] = await this.#link.run('delete', async client =>
      await Promise.all([
        Promise.all(keys.map(async key => await client.del(this.#prefix + key))),
        Promise.all(blocks.map(async ({ family, block }) => {
          await this.#blockIndex.remove(client, family, block, block.height)
        }))
      ]))
    return hadQueued || deleted.some(count => count > 0)
  }

  /** Invalidates again if a write of this process may have followed another replica's delete. */
  async invalidateOwnWrites (invalidation: Invalidation): Promise<void> {
    this.dropQueued(invalidation)
    await this.#writeQueue.waitForInFlight()
    if (this.#recentPuts.hasAnyInvalidated(invalidation)) await this.invalidate(invalidation)
  }

  /** Drops the queued writes that an invalidation covers, and retries of such writes in flight; true if it had any. */
  dropQueued (invalidation: Invalidation): boolean {
    return this.#writeQueue.drop(({ stored }) => invalidates(invalidation, stored))
  }

  /** Drops all queued writes, and retries of writes in flight. */
  dropPending (): void {
    this.#writeQueue.drop(() => true)
  }

  /** Starts writes that waited for Redis. */
  resumeWrites (): void {
    this.#writeQueue.resume()
  }

  /** Resolves when nothing is in flight and no queued write can start. */
  async waitUntilIdle (): Promise<void> {
    await this.#writeQueue.waitUntilIdle()
  }

  get status (): TierStatus {
    return this.#link.isUp ? { state: 'up' } : { state: 'down', reason: this.#link.fault }
  }

  get warnings (): readonly string[] {
    if (!this.#link.isUp) return [`Redis ${this.#link.fault}: ${this.#link.lastError}`]
    return this.#writeError === undefined ? [] : [`Redis rejects writes: ${this.#writeError}`]
  }

  async close (): Promise<void> {
    await withTimeout(finalWritesMs, this.waitUntilIdle())
    this.#writeQueue.stop()
  }

  async #look (client: RedisClient, selector: EntrySelector): Promise<FoundEntry | undefined> {
    switch (selector.by) {
      case 'key':
        return await this.#getByKey(client, selector.keys)
      case 'version':
        return await this.#getByVersion(client, selector.family, selector.version)
    }
  }

  async #getByKey (client: RedisClient, { value, text, intervalFamily }: ReadKeys): Promise<FoundEntry | undefined> {
    if (intervalFamily !== undefined) return await this.#getIndexed(client, value)
    const found = await Promise.all(
      (value === text ? [value] : [value, text]).map(async key => await this.#getEntry(client, key))
    )
    return found.find(entry => entry !== undefined)
  }

  async #getByVersion (client: RedisClient, family: string, version: bigint): Promise<FoundEntry | undefined> {
    const { blocks, isIncomplete } = await this.#blockIndex.find(client, family, version)
    for (const { height } of blocks) {
      const found = await this.#getEntry(client, intervalKeyOf(family, height))
      const validity = found?.stored.validity
      if (found === undefined || validity === undefined || version < validity.first || version > validity.last) continue
      // One partitioning still has the record, so the other gets it again.
      if (isIncomplete) this.#reindex(found.stored.key, validity)
      return found
    }
    return undefined
  }

  // Serves only indexed blocks, so that a purge by version finds every served block.
  async #getIndexed (client: RedisClient, key: string): Promise<FoundEntry | undefined> {
    const found = await this.#getEntry(client, key)
    const validity = found?.stored.validity
    if (found === undefined || validity === undefined) return undefined
    const { blocks, isIncomplete } = await this.#blockIndex.find(client, validity.family, validity.first)
    if (!blocks.some(({ height }) => height === heightOfKey(key))) return undefined
    if (isIncomplete) this.#reindex(key, validity)
    return found
  }

  async #getEntry (client: RedisClient, key: string): Promise<FoundEntry | undefined> {
    // Reads the remaining lifetime from Redis, because clocks of replicas may differ; both commands need one round
    // trip.
    const [value, ttlMs] = await Promise.all([client.getBuffer(this.#prefix + key), client.pttl(this.#prefix + key)])
    if (value === null || ttlMs === -2) return undefined
    const { ttlSeconds, maxEntryBytes, metrics } = this.#options
    try {
      return { stored: await decodeEntry(key, value, maxEntryBytes), ttlMs: ttlMs < 0 ? ttlSeconds * 1000 : ttlMs }
    } catch (error) {
      if (!(error instanceof LargeEntryError)) metrics.foundCorrupt()
      return undefined
    }
  }

  async #write (item: QueuedWrite): Promise<void> {
    const { stored: { key, validity } } = item
    const ttlMs = this.#ttlMsOf(item)
    // Expired while queued.
    if (ttlMs < 1) return
    try {
      await this.#set(item.stored, ttlMs)
      // Indexed after the entry is written, so that no record points to a missing entry.
      if (validity !== undefined) await this.#index(key, validity)
    } finally {
      // A failed command may still have been executed.
      this.#recentPuts.add(item.stored)
    }
    this.#options.metrics.wrote(this.name)
  }

  async #set (stored: StoredEntry, ttlMs: number): Promise<void> {
    const value = await encodeEntry(stored)
    const held = this.#options.inFlight.holdSent(value.buffer)
    try {
      await this.#link.run(
        'set',
        async client => await client.set(this.#prefix + stored.key, value, 'PX', ttlMs),
        writeTimeoutMs
      )
    } finally {
      held.release()
    }
  }

  #ttlMsOf ({ ttlMs = Infinity, queuedAtMs }: QueuedWrite): number {
    return Math.round(Math.min(ttlMs - (this.#options.now() - queuedAtMs), this.#options.ttlSeconds * 1000))
  }

  #reindex (key: string, validity: EntryInterval): void {
    // The link counts failures; the next incomplete lookup tries again.
    this.#index(key, validity).catch(() => {})
  }

  async #index (key: string, validity: EntryInterval): Promise<void> {
    await this.#link.run(
      'index',
      async client => await this.#blockIndex.add(client, validity.family, validity, heightOfKey(key)),
      writeTimeoutMs
    )
  }
}

/** Writes of the last 2 s, any of which may have followed another replica's delete. */
class RecentPuts {
  readonly #identities = new LRUCache<string, EntryIdentity>({ max: 5000, ttl: 2000 })

  add ({ key, validity }: EntryIdentity): void {
    this.#identities.set(key, { key, validity })
  }

  /** Returns true if an invalidation covers any recent write. */
  hasAnyInvalidated (what: Invalidation): boolean {
    return [...this.#identities.values()].some(identity => invalidates(what, identity))
  }
}

function heightOfKey (key: string): string {
  return key.slice(familyOfKey(key).length + 1)
}

/** Builds the prefix of every Redis key: the operator's prefix and the format version. */
export function redisKeyPrefix (keyPrefix: string): string {
  return `${keyPrefix}:${entryFormat}:`
}
