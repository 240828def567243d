import { type RedisClient } from '../redis/place.js'
import { pageKeyOf } from '../api/read.js'
import { coverOf, type EventRange } from './page-index.js'

// A key of the index holds the pages of so many events, and so many of them.
const keyEvents = 1024n
const mostRecords = 1024
// More than this is not looked at for one read: what cannot be put together from the nearest is read from a node.
const mostLookedAt = 256
// Records outlive their pages while newer pages come.
const mostLooks = 3
const maxU64 = 2n ** 64n - 1n

/**
 * Which pages of a stream are kept in Redis, by the events that they have. The sequence numbers are cut into lengths of
 * 1,024; each length has a key, and a page is recorded under every key that it touches. A page that no record leads to
 * is not served, so that whoever purges finds all that is. Records are texts in the order of the alphabet, exact for
 * every u64, and no command needs two keys.
 */
export class SharedPages {
  readonly #prefix: string

  constructor (prefix: string) {
    this.#prefix = prefix
  }

  /** The pages that have any event of a run, in the order of their first events; of very many those that begin last. */
  async find (client: RedisClient, stream: string, events: EventRange): Promise<EventRange[]> {
    return await this.#read(
      events,
      async length =>
        await client.zrevrangebylex(this.#keyOf(stream, length), `(${hex(events.last)}g`, '-', 'LIMIT', 0, mostLookedAt)
    )
  }

  /** All of them, however many. */
  async findAll (client: RedisClient, stream: string, events: EventRange): Promise<EventRange[]> {
    return await this.#read(
      events,
      async length => await client.zrangebylex(this.#keyOf(stream, length), '-', `(${hex(events.last)}g`)
    )
  }

  /**
   * What Redis has of a page: itself, or the pages that it can be put together from, where that is wanted or others
   * were given as many events at once.
   */
  async partsOf<Found> (
    client: RedisClient,
    stream: string,
    wanted: EventRange,
    mayJoin: boolean,
    get: (key: string) => Promise<Found | undefined>
  ): Promise<Found[]> {
    const isOther = ({ first, last }: EventRange): boolean => first !== wanted.first || last !== wanted.last
    const [listed, itself] = await Promise.all([
      mayJoin ? this.find(client, stream, wanted) : this.#findAtEnds(client, stream, wanted),
      get(keyOfPage(stream, wanted))
    ])
    if (itself !== undefined && !listed.every(isOther)) return [itself]
    if (mayJoin) return await this.#join(client, stream, wanted, listed.filter(isOther), get)
    const isUsual = listed.some(page => isOther(page) && page.last - page.first >= wanted.last - wanted.first)
    return isUsual
      ? await this.#join(client, stream, wanted, (await this.find(client, stream, wanted)).filter(isOther), get)
      : []
  }

  // What has as many events as a run, and any of them, has the first or the last: to know of it no more need be looked
  // at, however long the run is.
  async #findAtEnds (client: RedisClient, stream: string, { first, last }: EventRange): Promise<EventRange[]> {
    return (await Promise.all([first, last].map(async at => await this.find(client, stream, { first: at, last: at }))))
      .flat()
  }

  async #join<Found> (
    client: RedisClient,
    stream: string,
    wanted: EventRange,
    pages: readonly EventRange[],
    get: (key: string) => Promise<Found | undefined>
  ): Promise<Found[]> {
    let left = pages
    for (let look = 0; look < mostLooks; look++) {
      const chosen = await Promise.all(
        (coverOf(left, wanted) ?? []).map(async page => ({ page, part: await get(keyOfPage(stream, page)) }))
      )
      const lost = chosen.filter(({ part }) => part === undefined).map(({ page }) => page)
      if (lost.length === 0) return chosen.map(({ part }) => part).filter(part => part !== undefined)
      // They have expired, and their records lead nowhere.
      await Promise.all(lost.map(async page => {
        await this.remove(client, stream, page)
      }))
      left = left.filter(page => !lost.includes(page))
    }
    return []
  }

  async add (client: RedisClient, stream: string, page: EventRange, ttlMs: number): Promise<void> {
    await Promise.all(
      lengthsOf(page).map(length => this.#keyOf(stream, length)).flatMap(key => [
        client.zadd(key, 0, recordOf(page)),
        client.zremrangebyrank(key, 0, -(mostRecords + 1)),
        client.pexpire(key, Math.ceil(ttlMs))
      ])
    )
  }

  async remove (client: RedisClient, stream: string, page: EventRange): Promise<void> {
    await Promise.all(
      lengthsOf(page).map(async length => await client.zrem(this.#keyOf(stream, length), recordOf(page)))
    )
  }

  async #read (events: EventRange, recordsIn: (length: bigint) => Promise<string[]>): Promise<EventRange[]> {
    const records = new Set((await Promise.all(lengthsOf(events).map(recordsIn))).flat())
    return [...records].sort().map(readRecord).filter(page => page !== undefined).filter(page =>
      page.first <= events.last && page.last >= events.first
    )
  }

  #keyOf (stream: string, length: bigint): string {
    // No key of an entry looks like this.
    return `${this.#prefix}${stream.replace(' json ', ' json pages ')} ${length}`
  }
}

/** The key of a page by its events. */
export function keyOfPage (stream: string, { first, last }: EventRange): string {
  return pageKeyOf(stream, { start: first, limit: last - first + 1n })
}

// No page has more than 65,535 events.
function lengthsOf ({ first, last }: EventRange): bigint[] {
  const from = first / keyEvents
  return Array.from({ length: Number(last / keyEvents - from) + 1 }, (_, at) => from + BigInt(at))
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
