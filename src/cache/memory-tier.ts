import { LRUCache } from 'lru-cache'
import { BlockIndex } from './block-index.js'
import { costOf, type Entry } from './entry.js'
import { PageIndex, type StreamEvents } from './page-index.js'

/** Counters of a memory tier. */
export interface MemoryTierMetrics {
  wrote(): void
  evicted(): void
}

/** Holder of responses memoised from cached entries. */
export interface MemoHolder {
  dropMemo(): void
}

/** The memory tier: least recently used, bounded in bytes of true cost (law 10). */
export class MemoryTier {
  readonly #entries: LRUCache<string, Entry>
  readonly #blockIndex = new BlockIndex()
  readonly #pageIndex = new PageIndex()
  readonly #metrics: MemoryTierMetrics
  readonly #now: () => number
  #onHalfFull: (() => void) | undefined

  /** Memo holders; every change of the tier drops their memos, so a memo never outlives its entry. */
  readonly memoHolders = new Set<MemoHolder>()

  /** Calls `onHalfFull` once, when the entries reach half of `maxBytes`. */
  constructor (maxBytes: number, metrics: MemoryTierMetrics, now: () => number, onHalfFull?: () => void) {
    this.#metrics = metrics
    this.#now = now
    this.#onHalfFull = onHalfFull
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: costOf,
      dispose: ({ block, page }, _key, reason) => {
        this.dropMemos()
        if (block !== undefined) this.#blockIndex.remove(block.blockIndexKey, block.first)
        if (page !== undefined) this.#pageIndex.remove(page)
        if (reason === 'evict') metrics.evicted()
      }
    })
  }

  get (key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (entry?.expiresAtMs === undefined || this.#now() < entry.expiresAtMs) return entry
    this.#entries.delete(key)
    return undefined
  }

  /** Finds the cached block that contains a version. */
  getBlock (blocks: string, version: bigint): Entry | undefined {
    const key = this.#blockIndex.find(blocks, version)
    return key === undefined ? undefined : this.get(key)
  }

  /** Stores an entry and returns true, unless its cost exceeds the whole tier. */
  put (entry: Entry): boolean {
    const isStored = this.#insert(entry)
    if (isStored) this.#metrics.wrote()
    return isStored
  }

  /** Returns the current form of an entry, with its compressed bodies; undefined after eviction. */
  latestOf (entry: Entry): Entry | undefined {
    const cached = this.#entries.peek(entry.key)
    return cached?.body === entry.body ? cached : undefined
  }

  /** Replaces an entry and returns true, unless the entry is gone or the new cost exceeds the whole tier. */
  replace (entry: Entry, by: Entry): boolean {
    return this.#entries.peek(entry.key) === entry && costOf(by) <= this.#entries.maxSize && this.#insert(by)
  }

  /** Invalidates an entry. */
  delete (key: string): void {
    this.#entries.delete(key)
  }

  /** Invalidates the cached block that contains a version. */
  deleteBlock (blocks: string, version: bigint): void {
    const key = this.#blockIndex.find(blocks, version)
    if (key !== undefined) this.delete(key)
  }

  /** Invalidates the pages that share an event with a range. */
  deletePages (events: StreamEvents): void {
    for (const key of this.#pageIndex.overlapping(events)) this.delete(key)
  }

  /** Invalidates all entries. */
  clear (): void {
    this.#entries.clear()
  }

  get entries (): number {
    return this.#entries.size
  }

  get bytes (): number {
    return this.#entries.calculatedSize
  }

  /** Limit for the summed cost of entries, in bytes. */
  get maxBytes (): number {
    return this.#entries.maxSize
  }

  /** Number of indexed blocks. */
  get blocks (): number {
    return this.#blockIndex.size
  }

  /** Number of indexed event pages. */
  get pages (): number {
    return this.#pageIndex.size
  }

  /** Drops all memoised responses. */
  dropMemos (): void {
    for (const holder of this.memoHolders) holder.dropMemo()
    this.memoHolders.clear()
  }

  #insert (entry: Entry): boolean {
    const { key, block, page } = entry
    if (block !== undefined) {
      // Blocks of one chain never overlap; the older entry is evicted because nothing proves either one.
      for (const other of this.#blockIndex.overlapping(block.blockIndexKey, block.first, block.last)) {
        if (other !== key) this.#entries.delete(other)
      }
    }
    this.#entries.set(key, entry)
    this.dropMemos()
    if (this.bytes * 2 > this.#entries.maxSize) {
      this.#onHalfFull?.()
      this.#onHalfFull = undefined
    }
    if (!this.#entries.has(key)) return false
    if (block !== undefined) this.#blockIndex.add(block.blockIndexKey, { first: block.first, last: block.last, key })
    if (page !== undefined) this.#pageIndex.add(page, key)
    return true
  }
}
