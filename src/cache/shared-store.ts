import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/place.js'
import { blockKeyOf, type ReadKeys } from '../reads/read.js'
import { SharedBlocks } from './shared-blocks.js'
import { decodeStored, encodeStored, type Stored, storedFormat } from './stored.js'
import { isToForget, type Kept, type ToForget, type ToShare, WrittenLately } from './to-share.js'
import { Waiting } from './waiting.js'

export { type ToForget, type ToShare } from './to-share.js'

/** Told of what becomes of shared entries. */
export interface SharedTally {
  wroteShared (): void
  foundCorrupt (): void
}

/** What a shared store needs to know. */
export interface SharedOptions {
  readonly keyPrefix: string
  readonly ttlSeconds: number
  readonly tally: SharedTally
  readonly now: () => number
  /** Whether it is settled with the other replicas which entries are to be read and written. */
  readonly isAgreed: () => boolean
}

/** An answer that was found, and for how long it may be kept. */
export interface Found {
  readonly stored: Stored
  readonly ttlMs: number
}

/** What every key in Redis begins with: the operator's prefix and the version of the form. */
export function storePrefix (keyPrefix: string): string {
  return `${keyPrefix}:${storedFormat}:`
}

/** The store that replicas share, in Redis. What it cannot give in time it does not have. */
export class SharedStore {
  readonly #link: RedisLink
  readonly #options: SharedOptions
  readonly #prefix: string
  readonly #index: SharedBlocks
  readonly #waiting: Waiting<Kept>
  readonly #lately = new WrittenLately()
  #refusal: string | undefined

  constructor (link: RedisLink, options: SharedOptions) {
    this.#link = link
    this.#options = options
    this.#prefix = storePrefix(options.keyPrefix)
    this.#index = new SharedBlocks(this.#prefix, options.ttlSeconds)
    this.#waiting = new Waiting(async item => { await this.#write(item) }, {
      now: options.now,
      canWrite: () => link.isUp && options.isAgreed(),
      onRefused: reason => { this.#refusal = reason }
    })
  }

  /** What replicas have of a read; undefined also where Redis cannot tell in time. */
  async find (keys: ReadKeys, version: bigint | undefined): Promise<Found | undefined> {
    if (!this.#link.isUp || !this.#options.isAgreed()) return undefined
    const { blocks } = keys
    try {
      return blocks !== undefined && version !== undefined
        ? await this.#link.ask('find', async client => await this.#findBlock(client, blocks, version))
        : await this.#link.ask('get', async client => await this.#findKey(client, keys))
    } catch {
      // Counted by the link.
      return undefined
    }
  }

  /** Shares an entry, when there is time for it: no answer waits for this. */
  keep (item: ToShare): void {
    const { stored: { key, body, range } } = item
    if (range === undefined || this.#index.takes(range)) this.#waiting.add(key, body.length, { ...item, keptAtMs: this.#options.now() })
  }

  /** Forgets entries, also those that still wait to be written; fails where Redis cannot be told. */
  async forget (what: ToForget): Promise<void> {
    const { keys, blocks } = what
    this.drop(what)
    // Or what lands after this look would stay.
    await this.#waiting.landed()
    const found = await this.#link.ask('find', async client => await Promise.all(blocks.map(async ({ blocks, version }) =>
      (await this.#index.find(client, blocks, version)).blocks.map(block => ({ blocks, block })))))
    const known = found.flat()
    const entries = [...keys, ...known.map(({ blocks, block }) => blockKeyOf(blocks, block.height))]
    await this.#link.ask('delete', async client => {
      await Promise.all([
        ...entries.map(async key => await client.del(this.#prefix + key)),
        ...known.map(async ({ blocks, block }) => { await this.#index.remove(client, blocks, block, block.height) })
      ])
    })
  }

  /** Forgets what this store itself may have written just after another replica had it deleted. */
  async forgetOwn (what: ToForget): Promise<void> {
    this.drop(what)
    await this.#waiting.landed()
    if (this.#lately.hasAnyOf(what)) await this.forget(what)
  }

  /** Lets go of what waits to be written. */
  drop (what: ToForget): void {
    this.#waiting.drop(({ stored: { key, range }, blocks }) => isToForget(what, { key, range, blocks }))
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
    const found = await Promise.all((value === text ? [value] : [value, text]).map(async key => await this.#get(client, key)))
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
    const { stored, blocks, ttlMs, keptAtMs } = item
    const { key, range } = stored
    const longestMs = this.#options.ttlSeconds * 1000
    const leftMs = ttlMs === undefined ? longestMs : ttlMs - (this.#options.now() - keptAtMs)
    // It has waited for longer than it is true.
    if (leftMs < 1) return
    const value = await encodeStored(stored)
    try {
      await this.#link.ask('set', async client => await client.set(this.#prefix + key, value, 'PX', Math.round(Math.min(leftMs, longestMs))), writeMs)
      // After the entry, so that the index leads to nothing that is not there yet.
      if (blocks !== undefined && range !== undefined) {
        await this.#link.ask('index', async client => { await this.#index.add(client, blocks, range, key.slice(blocks.length + 1)) }, writeMs)
      }
    } finally {
      // What was not confirmed may still have been done.
      this.#lately.add(item)
    }
    this.#options.tally.wroteShared()
  }

  #refile (blocks: string, range: NonNullable<Stored['range']>, height: string): void {
    // Counted by the link; the next to find it torn tries again.
    this.#link.ask('index', async client => { await this.#index.add(client, blocks, range, height) }, writeMs).catch(() => {})
  }
}

// Nobody waits for a write, and a large value takes its time.
const writeMs = 1000
