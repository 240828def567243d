import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/connection-options.js'
import { blockKeyOf, type ReadKeys } from '../api/read.js'
import { type StreamEvents } from './page-index.js'
import { RedisBlockIndex } from './redis-block-index.js'
import { type FoundEntry, type RedisTierOptions, redisKeyPrefix } from './redis-tier-options.js'
import { redisPageKeyOf, RedisPageIndex } from './redis-page-index.js'
import { addKnownStreams, locateEntries } from './redis-invalidation.js'
import { decodeEntry, encodeEntry, type StoredEntry } from './stored-entry.js'
import { invalidates, type QueuedWrite, type Invalidation, type RedisWrite, RecentWrites } from './invalidation.js'
import { WriteQueue } from './write-queue.js'

export { type FoundEntry, type RedisTierOptions, type RedisTierMetrics, redisKeyPrefix } from './redis-tier-options.js'
export { type Invalidation, type RedisWrite } from './invalidation.js'

/** Redis tier, shared by replicas; a lookup that exceeds its time limit is a miss (law 6: the cache can only help). */
export class RedisTier {
  readonly #link: RedisLink
  readonly #options: RedisTierOptions
  readonly #prefix: string
  readonly #blockIndex: RedisBlockIndex
  readonly #pageIndex: RedisPageIndex
  readonly #writeQueue: WriteQueue<QueuedWrite>
  readonly #recentWrites = new RecentWrites()
  #writeError: string | undefined

  constructor (link: RedisLink, options: RedisTierOptions) {
    this.#link = link
    this.#options = options
    this.#prefix = redisKeyPrefix(options.keyPrefix)
    this.#blockIndex = new RedisBlockIndex(this.#prefix, options.ttlSeconds)
    this.#pageIndex = new RedisPageIndex(this.#prefix)
    this.#writeQueue = new WriteQueue(async item => {
      await this.#write(item)
    }, {
      now: options.now,
      canWrite: () => link.isUp && options.isAgreed(),
      onWriteError: reason => {
        this.#writeError = reason
      }
    })
  }

  /** Looks up a read; undefined also if Redis is down or too slow. */
  async get (keys: ReadKeys, version: bigint | undefined): Promise<FoundEntry | undefined> {
    const { blockIndexKey } = keys
    return blockIndexKey === undefined
      ? await this.#look('get', async client => await this.#getByKey(client, keys))
      : await this.#look(
        'find',
        async client =>
          version === undefined
            ? await this.#getIndexed(client, blockIndexKey, keys.value)
            : await this.#getBlock(client, blockIndexKey, version)
      )
  }

  /** Looks up the page with exactly these events; undefined also if Redis is down or too slow. */
  async findPage (page: StreamEvents): Promise<FoundEntry | undefined> {
    return await this.#look('find', async client => {
      const found = await this.#getEntry(client, redisPageKeyOf(page))
      // A page that a purge would not find is not served.
      return found !== undefined && await this.#pageIndex.has(client, page) ? found : undefined
    })
  }

  /** Queues an entry for Redis; no response waits for the write. */
  put (item: RedisWrite): void {
    const { stored: { key, body, range } } = item
    if (range === undefined || this.#blockIndex.accepts(range)) {
      this.#writeQueue.add(key, body.length, { ...item, queuedAtMs: this.#options.now() })
    }
  }

  /** Invalidates entries, including queued writes; rejects if Redis is unreachable. */
  async invalidate (invalidation: Invalidation): Promise<void> {
    this.dropQueued(invalidation)
    // A write that finished after the lookup would survive the invalidation.
    await this.#writeQueue.waitForInFlight()
    const { keys, removeRecords } = await this.#link.run(
      'find',
      async client => await locateEntries(client, invalidation, this.#blockIndex, this.#pageIndex)
    )
    await this.#link.run('delete', async client => {
      await Promise.all([...keys.map(async key => await client.del(this.#prefix + key)), removeRecords(client)])
    })
  }

  /** Extends an invalidation by the streams that Redis knows for its paths. */
  async resolveStreams (invalidation: Invalidation): Promise<Invalidation> {
    return await this.#link.run(
      'get',
      async client => await addKnownStreams(invalidation, async key => await this.#getEntry(client, key))
    )
  }

  /** Invalidates again if a write of this process may have followed another replica's delete. */
  async invalidateOwnWrites (invalidation: Invalidation): Promise<void> {
    this.dropQueued(invalidation)
    await this.#writeQueue.waitForInFlight()
    if (this.#recentWrites.hasAnyInvalidated(invalidation)) await this.invalidate(invalidation)
  }

  /** Drops the queued writes that an invalidation covers, and retries of such writes in flight. */
  dropQueued (invalidation: Invalidation): void {
    this.#writeQueue.drop(({ stored: { key, range }, blockIndexKey, page }) =>
      invalidates(invalidation, { key, range, blockIndexKey, page })
    )
  }

  /** Drops all queued writes, and retries of writes in flight. */
  dropAllQueued (): void {
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

  /** Number of queued writes. */
  get queued (): number {
    return this.#writeQueue.size
  }

  /** Reason for the last failed or dropped write; undefined after a successful one. */
  get writeError (): string | undefined {
    return this.#writeError
  }

  close (): void {
    this.#writeQueue.stop()
  }

  async #look (
    operation: 'find' | 'get',
    look: (client: RedisClient) => Promise<FoundEntry | undefined>
  ): Promise<FoundEntry | undefined> {
    if (!this.#link.isUp || !this.#options.isAgreed()) return undefined
    // The link counts failures.
    return await this.#link.run(operation, look).catch(() => undefined)
  }

  async #getByKey (client: RedisClient, { value, text }: ReadKeys): Promise<FoundEntry | undefined> {
    const found = await Promise.all(
      (value === text ? [value] : [value, text]).map(async key => await this.#getEntry(client, key))
    )
    return found.find(entry => entry !== undefined)
  }

  async #getBlock (client: RedisClient, blocks: string, version: bigint): Promise<FoundEntry | undefined> {
    const { blocks: candidates, isIncomplete } = await this.#blockIndex.find(client, blocks, version)
    for (const { height } of candidates) {
      const found = await this.#getEntry(client, blockKeyOf(blocks, height))
      const range = found?.stored.range
      if (found === undefined || range === undefined || version < range.first || version > range.last) continue
      // One partitioning still has the record, so the other gets it again.
      if (isIncomplete) this.#reindex(blocks, range, height)
      return found
    }
    return undefined
  }

  // Serves only indexed blocks, so that a purge by version finds every served block.
  async #getIndexed (client: RedisClient, blocks: string, key: string): Promise<FoundEntry | undefined> {
    const found = await this.#getEntry(client, key)
    const range = found?.stored.range
    const height = key.slice(blocks.length + 1)
    const filed = range && await this.#blockIndex.find(client, blocks, range.first)
    if (range === undefined || filed?.blocks.some(block => block.height === height) !== true) return undefined
    if (filed.isIncomplete) this.#reindex(blocks, range, height)
    return found
  }

  async #getEntry (client: RedisClient, key: string): Promise<FoundEntry | undefined> {
    // Reads the remaining lifetime from Redis, because clocks of replicas may differ; both commands need one round
    // trip.
    const [value, ttlMs] = await Promise.all([client.getBuffer(this.#prefix + key), client.pttl(this.#prefix + key)])
    if (value === null || ttlMs === -2) return undefined
    try {
      return { stored: await decodeEntry(key, value), ttlMs: ttlMs < 0 ? this.#options.ttlSeconds * 1000 : ttlMs }
    } catch {
      this.#options.metrics.foundCorrupt()
      return undefined
    }
  }

  async #write (item: QueuedWrite): Promise<void> {
    const { stored: { key, range }, blockIndexKey, page, streamName } = item
    const ttlMs = this.#ttlMsOf(item, item)
    // Expired while queued.
    if (ttlMs < 1) return
    try {
      await this.#set(item.stored, ttlMs)
      // Indexed after the entry is written, so that no record points to a missing entry.
      if (blockIndexKey !== undefined && range !== undefined) {
        await this.#link.run('index', async client => {
          await this.#blockIndex.add(client, blockIndexKey, range, key.slice(blockIndexKey.length + 1))
        }, writeTimeoutMs)
      }
      if (page !== undefined) {
        await this.#link.run('index', async client => {
          await this.#pageIndex.add(client, page.stream, page, ttlMs)
        }, writeTimeoutMs)
      }
      if (streamName !== undefined) await this.#set(streamName.stored, Math.max(1, this.#ttlMsOf(streamName, item)))
    } finally {
      // A failed command may still have been executed.
      this.#recentWrites.add(item)
    }
    this.#options.metrics.wroteToRedis()
  }

  async #set (stored: StoredEntry, ttlMs: number): Promise<void> {
    const value = await encodeEntry(stored)
    await this.#link.run(
      'set',
      async client => await client.set(this.#prefix + stored.key, value, 'PX', ttlMs),
      writeTimeoutMs
    )
  }

  #ttlMsOf ({ ttlMs = Infinity }: { readonly ttlMs: number | undefined }, { queuedAtMs }: QueuedWrite): number {
    return Math.round(Math.min(ttlMs - (this.#options.now() - queuedAtMs), this.#options.ttlSeconds * 1000))
  }

  #reindex (blocks: string, range: NonNullable<StoredEntry['range']>, height: string): void {
    // The link counts failures; the next incomplete lookup tries again.
    this.#link.run('index', async client => {
      await this.#blockIndex.add(client, blocks, range, height)
    }, writeTimeoutMs).catch(() => {})
  }
}

// No client waits for a write, and large values take longer.
const writeTimeoutMs = 1000
