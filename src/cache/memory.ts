import { LRUCache } from 'lru-cache'
import { BlockIndex } from './block-index.js'
import { costOf, type Entry } from './entry.js'
import { type EventRange, type ListedPage, PageIndex } from './page-index.js'

/** What an operator watches of a tier. */
export interface MemoryTally {
  wrote(): void
  evicted(): void
}

/** Who holds something that was made of what is kept. */
export interface Holder {
  letGo(): void
}

// Whoever asks for what is put together from other entries asks no node for it, and could push out all that came from
// one.
const joinedShare = 1 / 16

/** The memory tier: least recently used, bounded in bytes of true cost (law 10). */
export class Memory {
  readonly #entries: LRUCache<string, Entry>
  readonly #joined: LRUCache<string, number>
  readonly #blocks = new BlockIndex()
  readonly #pages = new PageIndex()
  readonly #tally: MemoryTally
  readonly #now: () => number
  #onHalfFull: (() => void) | undefined

  /**
   * Those who hold what they have made of what is kept here, to have it again while that is unchanged: told to let go
   * of it with every change.
   */
  readonly holders = new Set<Holder>()

  /** Tells once when half of it is taken. */
  constructor (maxBytes: number, tally: MemoryTally, now: () => number, onHalfFull?: () => void) {
    this.#tally = tally
    this.#now = now
    this.#onHalfFull = onHalfFull
    this.#joined = new LRUCache({
      maxSize: Math.max(1, Math.floor(maxBytes * joinedShare)),
      sizeCalculation: cost => cost,
      // Not before it has gone from here, since what is deleted there is deleted here too.
      disposeAfter: (_cost, key, reason) => {
        if (reason === 'evict') this.#entries.delete(key)
      }
    })
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: costOf,
      dispose: ({ block, page }, key, reason) => {
        this.letGo()
        if (reason !== 'set') this.#joined.delete(key)
        if (block !== undefined) this.#blocks.remove(block.blocks, block.first)
        if (page !== undefined) this.#pages.remove(page.stream, page)
        if (reason === 'evict') tally.evicted()
      }
    })
  }

  get (key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (entry?.expiresAtMs === undefined || this.#now() < entry.expiresAtMs) return entry
    this.#entries.delete(key)
    return undefined
  }

  /** The block that holds a version. */
  getBlock (blocks: string, version: bigint): Entry | undefined {
    const key = this.#blocks.find(blocks, version)
    return key === undefined ? undefined : this.get(key)
  }

  /** The pages of a stream that have any event of a run, in the order of their first events; some may have expired. */
  pagesWith (stream: string, events: EventRange): ListedPage[] {
    return this.#pages.overlapping(stream, events)
  }

  /** Keeps an entry, unless it is dearer than the whole tier; tells whether it did. */
  set (entry: Entry): boolean {
    // What a node has said is its own, though it was put together before.
    this.#joined.delete(entry.key)
    const isKept = this.#put(entry)
    if (isKept) this.#tally.wrote()
    return isKept
  }

  /** Keeps what was put together from other entries: all of that has a small share of the tier. */
  setJoined (entry: Entry): void {
    const cost = costOf(entry)
    if (cost <= this.#joined.maxSize && this.set(entry)) this.#joined.set(entry.key, cost)
  }

  /** What has become of an entry, with the forms made since; undefined where it has gone. */
  latestOf (entry: Entry): Entry | undefined {
    const kept = this.#entries.peek(entry.key)
    return kept?.body === entry.body ? kept : undefined
  }

  /**
   * Puts what has become of an entry in its place, unless it has gone meanwhile or would be dearer than the whole tier;
   * tells whether it did.
   */
  replace (entry: Entry, by: Entry): boolean {
    const cost = costOf(by)
    const isJoined = this.#joined.has(entry.key)
    if (
      this.#entries.peek(entry.key) !== entry || cost > (isJoined ? this.#joined : this.#entries).maxSize ||
      !this.#put(by)
    ) return false
    if (isJoined) this.#joined.set(entry.key, cost)
    return true
  }

  /** Forgets an entry. */
  delete (key: string): void {
    this.#entries.delete(key)
  }

  /** Forgets the block that holds a version. */
  deleteBlock (blocks: string, version: bigint): void {
    const key = this.#blocks.find(blocks, version)
    if (key !== undefined) this.delete(key)
  }

  /** Forgets the pages of a stream that have any event of a run. */
  deletePages (stream: string, events: EventRange): void {
    for (const { key } of this.pagesWith(stream, events)) this.delete(key)
  }

  /** Forgets everything. */
  clear (): void {
    this.#entries.clear()
  }

  get entries (): number {
    return this.#entries.size
  }

  get bytes (): number {
    return this.#entries.calculatedSize
  }

  /** What the entries may cost. */
  get maxBytes (): number {
    return this.#entries.maxSize
  }

  /** How many blocks can be found by their versions. */
  get blocks (): number {
    return this.#blocks.size
  }

  /** How many pages of events can be found by what they have. */
  get pages (): number {
    return this.#pages.size
  }

  /** Has those who hold what they have made of what is kept here let go of it. */
  letGo (): void {
    for (const holder of this.holders) holder.letGo()
    this.holders.clear()
  }

  #put (entry: Entry): boolean {
    const { key, block, page } = entry
    if (block !== undefined) {
      // Which of two blocks that share a version is the true one cannot be told, so the older word goes.
      for (const other of this.#blocks.overlapping(block.blocks, block.first, block.last)) {
        if (other !== key) this.#entries.delete(other)
      }
    }
    this.#entries.set(key, entry)
    this.letGo()
    if (this.bytes * 2 > this.#entries.maxSize) {
      this.#onHalfFull?.()
      this.#onHalfFull = undefined
    }
    if (!this.#entries.has(key)) return false
    if (block !== undefined) this.#blocks.add(block.blocks, { first: block.first, last: block.last, key })
    if (page !== undefined) {
      const isJoinable = page.offsets !== undefined && entry.ownLines.length === 0
      this.#pages.add(page.stream, { first: page.first, last: page.last, key, release: entry.release, isJoinable })
    }
    return true
  }
}
