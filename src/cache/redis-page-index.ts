import { type EntryInterval } from '../api/read.js'
import { type RedisClient } from '../redis/create-client.js'

// Both limits bound one index key: its width in events and its number of records (law 10: nothing grows without bound).
const eventsPerBucket = 1024n
const maxRecordsPerBucket = 1024
const maxU64 = 2n ** 64n - 1n

/** Range of event sequence numbers. */
type EventRange = Pick<EntryInterval, 'first' | 'last'>

/**
 * Indexes cached pages in Redis by their events, under one key per 1,024 sequence numbers.
 * A page without a record is never served, so a purge finds every served page.
 */
export class RedisPageIndex {
  readonly #prefix: string

  constructor (prefix: string) {
    this.#prefix = prefix
  }

  /** Finds the pages that share an event with a range, for a purge. */
  async find (client: RedisClient, events: EntryInterval): Promise<EntryInterval[]> {
    const records = await Promise.all(
      bucketsOf(events).map(async length =>
        await client.zrangebylex(this.#keyOf(events.family, length), '-', `(${hex(events.last)}g`)
      )
    )
    return [...new Set(records.flat())].map(readRecord).filter(page => page !== undefined).filter(page =>
      page.first <= events.last && page.last >= events.first
    ).map(page => ({ ...events, ...page }))
  }

  /** Reports that a purge of any event of the page would find the page. */
  async has (client: RedisClient, page: EntryInterval): Promise<boolean> {
    const scores = await Promise.all(
      bucketsOf(page).map(async length => await client.zscore(this.#keyOf(page.family, length), recordOf(page)))
    )
    return scores.every(score => score !== null)
  }

  async add (client: RedisClient, page: EntryInterval, ttlMs: number): Promise<void> {
    await Promise.all(
      bucketsOf(page).map(length => this.#keyOf(page.family, length)).flatMap(key => [
        client.zadd(key, 0, recordOf(page)),
        client.zremrangebyrank(key, 0, -(maxRecordsPerBucket + 1)),
        client.pexpire(key, Math.ceil(ttlMs))
      ])
    )
  }

  async remove (client: RedisClient, page: EntryInterval): Promise<void> {
    await Promise.all(
      bucketsOf(page).map(async length => await client.zrem(this.#keyOf(page.family, length), recordOf(page)))
    )
  }

  #keyOf (stream: string, length: bigint): string {
    // Entry keys never have this form, so the two cannot collide.
    return `${this.#prefix}${stream.replace(' json ', ' json pages ')} ${length}`
  }
}

// A page has at most 65,535 events, so the number of index keys stays small.
function bucketsOf ({ first, last }: EventRange): bigint[] {
  const from = first / eventsPerBucket
  return Array.from({ length: Number(last / eventsPerBucket - from) + 1 }, (_, at) => from + BigInt(at))
}

function recordOf ({ first, last }: EventRange): string {
  return `${hex(first)}${hex(last)}`
}

function readRecord (record: string): EventRange | undefined {
  const [, first, last] = /^([0-9a-f]{16})([0-9a-f]{16})$/.exec(record) ?? []
  return first === undefined ? undefined : { first: BigInt(`0x${first}`), last: BigInt(`0x${last}`) }
}

function hex (sequence: bigint): string {
  return (sequence > maxU64 ? maxU64 : sequence).toString(16).padStart(16, '0')
}
