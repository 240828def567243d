import { LRUCache } from 'lru-cache'
import { type RedisLink } from '../redis/link.js'
import { mastersOf, type RedisClient } from '../redis/create-client.js'
import { familyOfKey, intervalKeyOf, type EntryInterval } from '../api/read.js'
import { withTimeout } from '../with-timeout.js'
import {
  decodeEntry,
  encodeEntry,
  entryFormat,
  LargeEntryError,
  mostBytesBesideBody,
  type StoredEntry
} from './entry-codec.js'
import { dependsOnAccount, type EntryIdentity, invalidates, type Invalidation } from './invalidation.js'
import {
  type FoundEntry,
  type LowerStore,
  type QueuedWrite,
  type StoreSpace,
  type StoreWrite,
  type TierMetrics,
  type TierStatus
} from './tier.js'
import { type WriteBudget, WriteQueue } from './write-queue.js'

/** Settings and callbacks of a Redis tier. */
export interface RedisTierOptions {
  readonly keyPrefix: string
  readonly ttlSeconds: number
  /** A longer body is a miss. */
  readonly maxEntryBytes: number
  readonly metrics: Pick<TierMetrics, 'wrote' | 'foundCorrupt'>
  readonly inFlight: WriteBudget
  readonly now: () => number
  /** Space whose entries may be read and written; undefined while replicas do not agree on one. */
  readonly space: () => StoreSpace | undefined
}

// Limits a write generously: large values take time, and no client waits for a write.
const writeTimeoutMs = 1000
const namesPerScan = 1000
// Time limit for the pending writes of a stopping process; other replicas can use the entries.
const finalWritesMs = 1000

/** Redis tier, shared by replicas; a lookup that exceeds its time limit is a miss (law 6: the cache can only help). */
export class RedisTier implements LowerStore {
  readonly name = 'redis'
  readonly #link: RedisLink
  readonly #options: RedisTierOptions
  readonly #prefix: string
  readonly #index: RedisIntervalIndex
  readonly #writeQueue: WriteQueue<QueuedWrite>
  readonly #recentPuts = new RecentPuts()
  // Reason for the last failed or dropped write; undefined after a successful one.
  #writeError: string | undefined

  constructor (link: RedisLink, options: RedisTierOptions) {
    this.#link = link
    this.#options = options
    this.#prefix = redisKeyPrefix(options.keyPrefix)
    this.#index = new RedisIntervalIndex(this.#prefix, options.ttlSeconds)
    this.#writeQueue = new WriteQueue(async item => await this.#write(item), {
      now: options.now,
      hold: ({ stored: { body } }) => options.inFlight.holdQueued(body.buffer),
      canWrite: () => link.isUp && options.space() !== undefined,
      onEnd: ({ onShared }, isWritten) => onShared?.(isWritten),
      onWriteError: reason => {
        this.#writeError = reason
      }
    })
  }

  /** Looks up a key; undefined also if Redis is down or too slow. */
  async get (space: StoreSpace, key: string): Promise<FoundEntry | undefined> {
    return await this.#find('get', space, async client => {
      const found = await this.#getEntry(client, key)
      const validity = found?.stored.validity
      // Serves only indexed entries, so that a purge by version finds every entry that is served.
      return validity === undefined || await this.#index.find(client, validity.family, validity.first) === numberIn(key)
        ? found
        : undefined
    })
  }

  async covering (space: StoreSpace, family: string, version: bigint): Promise<FoundEntry | undefined> {
    return await this.#find('find', space, async client => {
      const number = await this.#index.find(client, family, version)
      const found = number === undefined ? undefined : await this.#getEntry(client, intervalKeyOf(family, number))
      const validity = found?.stored.validity
      return validity !== undefined && validity.first <= version && version <= validity.last ? found : undefined
    })
  }

  /** Queues an entry for Redis; no response waits for the write. */
  put (space: StoreSpace, item: StoreWrite): void {
    const { stored: { key, validity } } = item
    if (validity === undefined || this.#index.accepts(validity)) {
      this.#writeQueue.add(key, { ...item, space, queuedAtMs: this.#options.now() })
    } else item.onShared?.(false)
  }

  /** Drops entries, including queued writes; true if it had any, rejects if Redis is unreachable. */
  async drop (space: StoreSpace, what: Invalidation): Promise<boolean> {
    const hadQueued = this.dropQueued(what)
    // A write that finished after the lookup would survive the purge.
    await this.#writeQueue.waitForInFlight()
    const found = await this.#link.run(
      'find',
      async client =>
        await Promise.all(what.intervals.map(async ({ family, first }) => {
          const number = await this.#index.find(client, family, first)
          return number === undefined ? [] : [intervalKeyOf(family, number)]
        }))
    )
    // Leaves records in the index, because a record that names no entry is a miss.
    const keys = [...what.keys, ...found.flat()].map(key => this.#prefix + key)
    const hadKeys = await this.#delete(keys)
    const hadOfAccount = what.account !== undefined && await this.#deleteOfAccount(space, what.account)
    return hadQueued || hadKeys || hadOfAccount
  }

  /** Invalidates again if a write of this process may have followed another replica's delete. */
  async invalidateOwnWrites (space: StoreSpace, invalidation: Invalidation): Promise<void> {
    this.dropQueued(invalidation)
    await this.#writeQueue.waitForInFlight()
    if (this.#recentPuts.hasAnyInvalidated(invalidation)) await this.drop(space, invalidation)
  }

  /**
   * Drops the queued writes that an invalidation covers, and retries of such writes in flight; true if there were any.
   */
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

  /** False while no upstream has proven that the entries are of this chain, or purges are missing. */
  get isReadable (): boolean {
    return this.#options.space() !== undefined
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

  async #delete (names: readonly string[]): Promise<boolean> {
    const deleted = await this.#link.run(
      'delete',
      async client => await Promise.all(names.map(async name => await client.del(name)))
    )
    return deleted.some(count => count > 0)
  }

  /** Looks through all names on each master: no index lists the entries of an account. */
  async #deleteOfAccount ({ name }: StoreSpace, account: string): Promise<boolean> {
    const start = `${this.#prefix}${name}`.replace(/[[\]*?\\]/g, '\\$&')
    const servers = await this.#link.run('find', async client => mastersOf(client))
    let hadAny = false
    for (const server of servers) {
      // Patterns of accounts and tables, then of reads that may depend on any account: views and values of state keys.
      for (const paths of [`*s/${account}*`, '[ve]*']) {
        let cursor = '0'
        do {
          const [next, names] = await this.#link.run(
            'find',
            async () => await server.scan(cursor, 'MATCH', `${start} * /v1/${paths}`, 'COUNT', namesPerScan),
            writeTimeoutMs
          )
          const wanted = names.filter(each => dependsOnAccount(each.slice(this.#prefix.length), account))
          if (await this.#delete(wanted)) hadAny = true
          cursor = next
        } while (cursor !== '0')
      }
    }
    return hadAny
  }

  async #find (
    operation: 'get' | 'find',
    space: StoreSpace,
    look: (client: RedisClient) => Promise<FoundEntry | undefined>
  ): Promise<FoundEntry | undefined> {
    if (!this.#link.isUp || this.#options.space() !== space) return undefined
    // Ignores failures, because the link counts them.
    return await this.#link.run(operation, look).catch(() => undefined)
  }

  async #getEntry (client: RedisClient, key: string): Promise<FoundEntry | undefined> {
    const { ttlSeconds, maxEntryBytes, metrics } = this.#options
    const [name, mostBytes] = [this.#prefix + key, maxEntryBytes + mostBytesBesideBody]
    // Reads the remaining lifetime from Redis, because clocks of replicas may differ. Reads at most one byte more than
    // an entry may have. Both commands take one round trip.
    const [value, ttlMs] = await Promise.all([client.getrangeBuffer(name, 0, mostBytes), client.pttl(name)])
    if (ttlMs === -2 || value.length > mostBytes) return undefined
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
    // The entry expired while it was queued, or is of another space.
    if (ttlMs < 1 || this.#options.space() !== item.space) return
    try {
      await this.#set(item.stored, ttlMs)
      // Indexed after the entry is written, so that no record points to a missing entry.
      if (validity !== undefined) {
        await this.#link.run(
          'index',
          async client => await this.#index.add(client, validity, numberIn(key)),
          writeTimeoutMs
        )
      }
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
}

/** Writes of the last 2 s; each may have followed another replica's delete. */
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

/** Returns the number at the end of the key of an entry with an interval. */
function numberIn (key: string): string {
  return key.slice(familyOfKey(key).length + 1)
}

/** Builds the prefix of every Redis key: the operator's prefix and the format version. */
export function redisKeyPrefix (keyPrefix: string): string {
  return `${keyPrefix}:${entryFormat}:`
}

// Number of versions in a bucket; each bucket is a key in Redis.
const versionsPerBucket = 1024n
// Limits the keys per interval (law 10: nothing grows without bound): no chain has longer blocks, but a faulty upstream
// could report one.
const maxBuckets = 65n

/**
 * Maps a version to the key of the entry whose interval contains it, in Redis: one sorted set per family and bucket of
 * versions, with a record in every bucket that an interval touches. Records sort alphabetically, which is exact for
 * every u64, and no command needs two keys. After the loss of a bucket its entries are misses until they are stored
 * again.
 */
export class RedisIntervalIndex {
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (prefix: string, ttlSeconds: number) {
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /** Returns false for an empty interval, and for one that is too long for a real block. */
  accepts ({ first, last }: EntryInterval): boolean {
    return first <= last && last / versionsPerBucket - first / versionsPerBucket < maxBuckets
  }

  /**
   * Finds the number in the key of the entry whose interval contains a version: the last entry that begins at or before
   * it.
   */
  async find (client: RedisClient, family: string, version: bigint): Promise<string | undefined> {
    const [record] = await client.zrevrangebylex(
      this.#keyOf(family, version / versionsPerBucket),
      `(${hex(version)}g`,
      '-',
      'LIMIT',
      0,
      1
    )
    const [, first, last, number] = /^([0-9a-f]{16})([0-9a-f]{16})([0-9]{1,20})$/.exec(record ?? '') ?? []
    return number !== undefined && BigInt(`0x${first}`) <= version && version <= BigInt(`0x${last}`)
      ? number
      : undefined
  }

  async add (client: RedisClient, interval: EntryInterval, number: string): Promise<void> {
    const record = recordOf(interval, number)
    const [first, last] = [hex(interval.first), hex(interval.last)]
    await Promise.all(
      this.#keysOf(interval).flatMap(key => [
        client.zadd(key, 0, record),
        // Removes older records that start inside this interval: they would hide it, and nothing proves which interval
        // is right.
        client.zremrangebylex(key, `[${first}`, `(${record}`),
        client.zremrangebylex(key, `(${record}`, `(${last}g`),
        // A bucket cannot contain more intervals than versions.
        client.zremrangebyrank(key, 0, -(Number(versionsPerBucket) + 1)),
        client.expire(key, this.#ttlSeconds)
      ])
    )
  }

  #keysOf ({ family, first, last }: EntryInterval): string[] {
    const from = first / versionsPerBucket
    const count = Number(last / versionsPerBucket - from) + 1
    return Array.from({ length: count }, (_, at) => this.#keyOf(family, from + BigInt(at)))
  }

  #keyOf (family: string, bucket: bigint): string {
    return `${this.#prefix}${family} from ${bucket * versionsPerBucket}`
  }
}

function recordOf ({ first, last }: EntryInterval, number: string): string {
  return `${hex(first)}${hex(last)}${number}`
}

function hex (version: bigint): string {
  return version.toString(16).padStart(16, '0')
}
