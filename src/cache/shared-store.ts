import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/place.js'
import { blockKeyOf, type ReadKeys } from '../api/read.js'
import { type EventRange } from './page-index.js'
import { SharedBlocks } from './shared-blocks.js'
import { type Found, type SharedOptions, storePrefix } from './shared-options.js'
import { SharedPages } from './shared-pages.js'
import { named, whereaboutsOf } from './shared-whereabouts.js'
import { decodeStored, encodeStored, type Stored } from './stored.js'
import { isToForget, type Kept, type ToForget, type ToShare, WrittenLately } from './to-share.js'
import { Waiting } from './waiting.js'

export { type Found, type SharedOptions, type SharedTally, storePrefix } from './shared-options.js'
export { type ToForget, type ToShare } from './to-share.js'

/** The store that replicas share, in Redis. What it cannot give in time it does not have. */
export class SharedStore {
  readonly #link: RedisLink
  readonly #options: SharedOptions
  readonly #prefix: string
  readonly #index: SharedBlocks
  readonly #pages: SharedPages
  readonly #waiting: Waiting<Kept>
  readonly #lately = new WrittenLately()
  #refusal: string | undefined

  constructor (link: RedisLink, options: SharedOptions) {
    this.#link = link
    this.#options = options
    this.#prefix = storePrefix(options.keyPrefix)
    this.#index = new SharedBlocks(this.#prefix, options.ttlSeconds)
    this.#pages = new SharedPages(this.#prefix)
    this.#waiting = new Waiting(async item => {
      await this.#write(item)
    }, {
      now: options.now,
      canWrite: () => link.isUp && options.isAgreed(),
      onRefused: reason => {
        this.#refusal = reason
      }
    })
  }

  /** What replicas have of a read; undefined also where Redis cannot tell in time. */
  async find (keys: ReadKeys, version: bigint | undefined): Promise<Found | undefined> {
    if (!this.#link.isUp || !this.#options.isAgreed()) return undefined
    const { blocks } = keys
    try {
      return blocks !== undefined
        ? await this.#link.ask(
          'find',
          async client =>
            version === undefined
              ? await this.#findFiled(client, blocks, keys.value)
              : await this.#findBlock(client, blocks, version)
        )
        : await this.#link.ask('get', async client => await this.#findKey(client, keys))
    } catch {
      // Counted by the link.
      return undefined
    }
  }

  /**
   * The pages of a stream that replicas have a page of events in: itself, or those that it can be put together from
   * where that is wanted.
   */
  async findPages (stream: string, wanted: EventRange, mayJoin: boolean): Promise<Found[]> {
    if (!this.#link.isUp || !this.#options.isAgreed()) return []
    // Counted by the link where it fails.
    return await this.#link.ask(
      'find',
      async client =>
        await this.#pages.partsOf(client, stream, wanted, mayJoin, async key => await this.#get(client, key))
    ).catch(() => [])
  }

  /** Shares an entry, when there is time for it: no answer waits for this. */
  keep (item: ToShare): void {
    const { stored: { key, body, range } } = item
    if (range === undefined || this.#index.takes(range)) {
      this.#waiting.add(key, body.length, { ...item, keptAtMs: this.#options.now() })
    }
  }

  /** Forgets entries, also those that still wait to be written; fails where Redis cannot be told. */
  async forget (what: ToForget): Promise<void> {
    this.drop(what)
    // Or what lands after this look would stay.
    await this.#waiting.landed()
    const { keys, removeRecords } = await this.#link.ask(
      'find',
      async client => await whereaboutsOf(client, what, this.#index, this.#pages)
    )
    await this.#link.ask('delete', async client => {
      await Promise.all([...keys.map(async key => await client.del(this.#prefix + key)), removeRecords(client)])
    })
  }

  /** The same to forget, and where paths lead that replicas know of. */
  async named (what: ToForget): Promise<ToForget> {
    return await this.#link.ask('get', async client => await named(what, async key => await this.#get(client, key)))
  }

  /** Forgets what this store itself may have written just after another replica had it deleted. */
  async forgetOwn (what: ToForget): Promise<void> {
    this.drop(what)
    await this.#waiting.landed()
    if (this.#lately.hasAnyOf(what)) await this.forget(what)
  }

  /** Lets go of what waits to be written. */
  drop (what: ToForget): void {
    this.#waiting.drop(({ stored: { key, range }, blocks, page }) => isToForget(what, { key, range, blocks, page }))
  }

  /** Lets go of all that waits to be written. */
  dropAll (): void {
    this.#waiting.drop(() => true)
  }

  /** Writes what has waited for Redis to come back. */
  resume (): void {
    this.#waiting.resume()
  }

  /** Resolves when nothing waits that could be written. */
  async idle (): Promise<void> {
    await this.#waiting.idle()
  }

  /** How many entries wait to be written. */
  get waiting (): number {
    return this.#waiting.size
  }

  /** Why the last write was refused; undefined while writes go through. */
  get refusal (): string | undefined {
    return this.#refusal
  }

  stop (): void {
    this.#waiting.stop()
  }

  async #findKey (client: RedisClient, { value, text }: ReadKeys): Promise<Found | undefined> {
    const found = await Promise.all(
      (value === text ? [value] : [value, text]).map(async key => await this.#get(client, key))
    )
    return found.find(entry => entry !== undefined)
  }

  async #findBlock (client: RedisClient, blocks: string, version: bigint): Promise<Found | undefined> {
    const { blocks: candidates, isTorn } = await this.#index.find(client, blocks, version)
    for (const { height } of candidates) {
      const found = await this.#get(client, blockKeyOf(blocks, height))
      const range = found?.stored.range
      if (found === undefined || range === undefined || version < range.first || version > range.last) continue
      // One cut still knew it: the other learns it again.
      if (isTorn) this.#refile(blocks, range, height)
      return found
    }
    return undefined
  }

  // A block that no record leads to is not served, so that whoever purges it by a version finds all that is.
  async #findFiled (client: RedisClient, blocks: string, key: string): Promise<Found | undefined> {
    const found = await this.#get(client, key)
    const range = found?.stored.range
    const height = key.slice(blocks.length + 1)
    const filed = range && await this.#index.find(client, blocks, range.first)
    if (range === undefined || filed?.blocks.some(block => block.height === height) !== true) return undefined
    if (filed.isTorn) this.#refile(blocks, range, height)
    return found
  }

  async #get (client: RedisClient, key: string): Promise<Found | undefined> {
    // One server has both, so they go and come together; the clocks of replicas need not agree on when it expires.
    const [value, ttlMs] = await Promise.all([client.getBuffer(this.#prefix + key), client.pttl(this.#prefix + key)])
    if (value === null || ttlMs === -2) return undefined
    try {
      return { stored: await decodeStored(key, value), ttlMs: ttlMs < 0 ? this.#options.ttlSeconds * 1000 : ttlMs }
    } catch {
      this.#options.tally.foundCorrupt()
      return undefined
    }
  }

  async #write (item: Kept): Promise<void> {
    const { stored: { key, range }, blocks, page, name } = item
    const forMs = this.#lifeOf(item, item)
    // It has waited for longer than it is true.
    if (forMs < 1) return
    try {
      await this.#set(item.stored, forMs)
      // After the entry, so that the index leads to nothing that is not there yet.
      if (blocks !== undefined && range !== undefined) {
        await this.#link.ask('index', async client => {
          await this.#index.add(client, blocks, range, key.slice(blocks.length + 1))
        }, writeMs)
      }
      if (page !== undefined) {
        await this.#link.ask('index', async client => {
          await this.#pages.add(client, page.stream, page, forMs)
        }, writeMs)
      }
      if (name !== undefined) await this.#set(name.stored, Math.max(1, this.#lifeOf(name, item)))
    } finally {
      // What was not confirmed may still have been done.
      this.#lately.add(item)
    }
    this.#options.tally.wroteShared()
  }

  async #set (stored: Stored, forMs: number): Promise<void> {
    const value = await encodeStored(stored)
    await this.#link.ask(
      'set',
      async client => await client.set(this.#prefix + stored.key, value, 'PX', forMs),
      writeMs
    )
  }

  #lifeOf ({ ttlMs = Infinity }: { readonly ttlMs: number | undefined }, { keptAtMs }: Kept): number {
    return Math.round(Math.min(ttlMs - (this.#options.now() - keptAtMs), this.#options.ttlSeconds * 1000))
  }

  #refile (blocks: string, range: NonNullable<Stored['range']>, height: string): void {
    // Counted by the link; the next to find it torn tries again.
    this.#link.ask('index', async client => {
      await this.#index.add(client, blocks, range, height)
    }, writeMs).catch(() => {})
  }
}

// Nobody waits for a write, and a large value takes its time.
const writeMs = 1000
