import { type RedisClient } from '../redis/connection-options.js'
import { type VersionRange } from './stored-entry.js'

// A key of the index holds the blocks of so many versions.
const versionsPerBucket = 1024n
// No chain has such blocks; a node that says so could make a key of the index for each of their thousands of versions.
const maxBuckets = 65n

/** A block as the index tells of it. */
export interface IndexedBlock extends VersionRange {
  readonly height: string
}

/**
 * What the index says of a version: the blocks that may hold it, and whether a record is missing where one was found.
 */
export interface BlockLookup {
  readonly blocks: readonly IndexedBlock[]
  readonly isIncomplete: boolean
}

/**
 * From a version to the block that holds it, in Redis. The versions are cut into lengths of 1,024, twice, the second
 * time half a length further on; each length has a key, and a block is recorded under every key that it touches. So the
 * loss of any key loses nothing: the other cut still leads to the block. Records are texts in the order of the
 * alphabet, exact for every u64, and no command needs two keys.
 */
export class RedisBlockIndex {
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (prefix: string, ttlSeconds: number) {
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /** Whether a block is one that the index takes. */
  accepts ({ first, last }: VersionRange): boolean {
    return first <= last && (last / versionsPerBucket) - (first / versionsPerBucket) < maxBuckets
  }

  async find (client: RedisClient, blocks: string, version: bigint): Promise<BlockLookup> {
    // The record with the highest first version that is not above the one asked for.
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
    // One cut is enough, also where the other cannot be asked.
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
        // Another that begins inside would hide this one; which of them is true cannot be told, so the older word goes.
        client.zremrangebylex(key, `[${first}`, `(${record}`),
        client.zremrangebylex(key, `(${record}`, `(${last}g`),
        // More than a record for each version cannot be true.
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
