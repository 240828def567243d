import { type EntryInterval } from '../api/read.js'
import { type RedisClient } from '../redis/create-client.js'

// Number of versions per bucket, which is a key.
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

  /** Finds the number in the key of the entry that contains a version: of the one that begins last before it. */
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
        // Removes older records that start inside this interval: they would hide it, and nothing proves either one.
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
