import { type EntryInterval } from '../api/read.js'
import { type RedisClient } from '../redis/create-client.js'

// Number of versions per index key.
const versionsPerBucket = 1024n
// Limits the index keys per block (law 10: nothing grows without bound): no chain has longer blocks, but a faulty
// upstream could report one.
const maxBuckets = 65n

/** First and last version of a block. */
type VersionRange = Pick<EntryInterval, 'first' | 'last'>

/** Block as recorded in the index. */
export interface IndexedBlock extends VersionRange {
  readonly height: string
}

/** Blocks that may contain a version; `isIncomplete` marks missing or contradicting records. */
export interface BlockLookupResult {
  readonly blocks: readonly IndexedBlock[]
  readonly isIncomplete: boolean
}

/**
 * Maps a version to the block that contains it, in Redis. Versions are partitioned into buckets of 1,024, twice, the
 * second time shifted by half a bucket. A block is recorded in every bucket that it touches, so after the loss of a key
 * the other partitioning still finds it. Records sort alphabetically, which is exact for every u64, and no command
 * needs two keys.
 */
export class RedisBlockIndex {
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (prefix: string, ttlSeconds: number) {
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /** Returns false for an empty range, and for one that is too long for a real block. */
  accepts ({ first, last }: VersionRange): boolean {
    return first <= last && (last / versionsPerBucket) - (first / versionsPerBucket) < maxBuckets
  }

  async find (client: RedisClient, blocks: string, version: bigint): Promise<BlockLookupResult> {
    // Finds the record with the highest first version at or below the requested one.
    const lookups = await Promise.allSettled(partitionings.map(async cut => {
      const records = await client.zrevrangebylex(
        this.#keyOf(blocks, cut, bucketOf(cut, version)),
        `(${hex(version)}g`,
        '-',
        'LIMIT',
        0,
        1
      )
      return readRecord(records[0], version)
    }))
    // One partitioning is enough if the lookup in the other fails.
    const [failed] = lookups.filter(cut => cut.status === 'rejected')
    const found = lookups.filter(cut => cut.status === 'fulfilled').map(cut => cut.value)
    if (failed !== undefined && found.every(block => block === undefined)) throw failed.reason
    const blocksFound = found.filter(block => block !== undefined)
    const distinct = blocksFound.filter(({ height }, at) =>
      blocksFound.findIndex(other => other.height === height) === at
    )
    return { blocks: distinct, isIncomplete: blocksFound.length < found.length || distinct.length > 1 }
  }

  async add (client: RedisClient, blocks: string, range: VersionRange, height: string): Promise<void> {
    const record = recordOf(range, height)
    const [first, last] = [hex(range.first), hex(range.last)]
    await Promise.all(
      this.#keysOf(blocks, range).flatMap(key => [
        client.zadd(key, 0, record),
        // Removes older records that start inside this block: they would hide it, and nothing proves either one.
        client.zremrangebylex(key, `[${first}`, `(${record}`),
        client.zremrangebylex(key, `(${record}`, `(${last}g`),
        // A bucket cannot contain more blocks than versions.
        client.zremrangebyrank(key, 0, -(Number(versionsPerBucket) + 1)),
        client.expire(key, this.#ttlSeconds)
      ])
    )
  }

  async remove (client: RedisClient, blocks: string, range: VersionRange, height: string): Promise<void> {
    await Promise.all(this.#keysOf(blocks, range).map(async key => await client.zrem(key, recordOf(range, height))))
  }

  #keysOf (blocks: string, { first, last }: VersionRange): string[] {
    return partitionings.flatMap(cut => {
      const from = bucketOf(cut, first)
      const count = Number(bucketOf(cut, last) - from) + 1
      return Array.from({ length: count }, (_, at) => this.#keyOf(blocks, cut, from + BigInt(at)))
    })
  }

  #keyOf (blocks: string, cut: Partitioning, length: bigint): string {
    return `${this.#prefix}${blocks} ${cut} ${length}`
  }
}

const partitionings = ['whole', 'half'] as const

type Partitioning = typeof partitionings[number]

function bucketOf (partitioning: Partitioning, version: bigint): bigint {
  return (version + (partitioning === 'half' ? versionsPerBucket / 2n : 0n)) / versionsPerBucket
}

function recordOf ({ first, last }: VersionRange, height: string): string {
  return `${hex(first)}${hex(last)}${height}`
}

function readRecord (record: string | undefined, version: bigint): IndexedBlock | undefined {
  const parts = /^([0-9a-f]{16})([0-9a-f]{16})([0-9]{1,20})$/.exec(record ?? '')
  if (parts === null) return undefined
  const [, first, last, height = ''] = parts
  const block = { first: BigInt(`0x${first}`), last: BigInt(`0x${last}`), height }
  return block.first <= version && version <= block.last ? block : undefined
}

function hex (version: bigint): string {
  return version.toString(16).padStart(16, '0')
}
