import { LRUCache } from 'lru-cache'
import { type ReadKeys, type EntryInterval } from '../api/read.js'
import { costOf, type Entry } from './entry.js'
import { dependsOnAccount, type Invalidation } from './invalidation.js'
import { type RemovalCause, Removals } from './removals.js'
import { type OwnStore, type Store, type StoreSpace, type TierMetrics, type TierStatus } from './tier.js'

/** Holder of responses memoised from cached entries. */
export interface MemoHolder {
  dropMemo(): void
}

/** The memory tier: least recently used, bounded in bytes of true cost (law 10: nothing grows without bound). */
export class MemoryTier implements Store<Entry, Entry>, OwnStore {
  readonly name = 'memory'
  readonly #entries: LRUCache<string, Entry>
  readonly #intervals = new IntervalIndex()
  readonly #metrics: Pick<TierMetrics, 'wrote' | 'evicted'>
  readonly #now: () => number
  #onHalfFull: (() => void) | undefined
  #removedAs: RemovalCause = 'unknown'

  /** Memo holders; every change of the tier drops their memos, so a memo never outlives its entry. */
  readonly memoHolders = new Set<MemoHolder>()

  /** Why entries have left the tier. */
  readonly removals = new Removals()

  /** Calls `onHalfFull` once, when the entries reach half of `maxBytes`. */
  constructor (
    maxBytes: number,
    metrics: Pick<TierMetrics, 'wrote' | 'evicted'>,
    now: () => number,
    onHalfFull?: () => void
  ) {
    this.#metrics = metrics
    this.#now = now
    this.#onHalfFull = onHalfFull
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: costOf,
      dispose: ({ validity }, key, reason) => {
        this.dropMemos()
        if (validity !== undefined) this.#intervals.remove(validity, key)
        if (reason === 'evict') metrics.evicted(this.name)
        if (reason !== 'set') this.removals.record(key, reason === 'evict' ? 'evicted' : this.#removedAs)
      }
    })
  }

  /** Looks up synchronously, so that a hit waits for nothing. */
  get (_space: StoreSpace, key: string): Entry | undefined {
    return this.getByKey(key)
  }

  covering (_space: StoreSpace, family: string, version: bigint): Entry | undefined {
    const key = this.#intervals.find(family, version)
    return key === undefined ? undefined : this.getByKey(key)
  }

  /** Finds a 200 under its value key, or a not-found under its text key. */
  getByKeys ({ value, text }: ReadKeys): Entry | undefined {
    return this.getByKey(value) ?? (text === value ? undefined : this.getByKey(text))
  }

  getByKey (key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (entry?.expiresAtMs === undefined || this.#now() < entry.expiresAtMs) return entry
    this.#delete(key, 'expired')
    return undefined
  }

  /**
   * Finds the entry with the last interval that begins at or before a version, and the last version of that interval.
   */
  findBefore (family: string, version: bigint): { readonly entry: Entry, readonly last: bigint } | undefined {
    const found = this.#intervals.findBefore(family, version)
    const entry = found && this.getByKey(found.key)
    return entry && found && { entry, last: found.last }
  }

  /** Records that an entry proved valid up to a later version. */
  extend ({ key }: Entry, family: string, last: bigint): void {
    this.#intervals.extend(family, key, last)
  }

  /** Stores an entry and returns true, unless its cost exceeds the whole tier. */
  put (_space: StoreSpace, entry: Entry): boolean {
    const isStored = this.#insert(entry)
    if (isStored) this.#metrics.wrote(this.name)
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

  /** Drops entries by key or family, by any version in their intervals, and by account; true if it had any. */
  drop (_space: StoreSpace, { keys, intervals, account }: Invalidation): boolean {
    const before = this.#entries.size
    for (const key of keys) {
      // Counts an evicted entry as purged, because a lower tier may have had it.
      if (!this.#delete(key, 'purged') && this.removals.causeOf(key) === 'evicted') this.removals.record(key, 'purged')
      // The key of a latest read names the family of all its versions.
      for (const version of this.#intervals.keysIn(key)) this.#delete(version, 'purged')
    }
    for (const interval of intervals) {
      for (const key of this.#intervals.overlapping(interval)) this.#delete(key, 'purged')
    }
    if (account !== undefined) {
      for (const key of [...this.#entries.keys()]) if (dependsOnAccount(key, account)) this.#delete(key, 'purged')
    }
    return this.#entries.size < before
  }

  /** Invalidates entries whose intervals have grown with the followed ledger, because the ledger was read wrongly. */
  invalidateFollowed (): void {
    for (const [key, { dependencies }] of [...this.#entries.entries()]) {
      if (dependencies !== undefined) this.#delete(key, 'unknown')
    }
  }

  /** Invalidates all entries. */
  clear (): void {
    this.empty('purged')
  }

  /** Invalidates all entries, and remembers why. */
  empty (cause: 'purged' | 'reset'): void {
    this.#removedAs = cause
    this.#entries.clear()
  }

  close (): void {
    this.clear()
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

  get status (): Required<Pick<TierStatus, 'entries' | 'bytes' | 'maxBytes'>> {
    return { entries: this.entries, bytes: this.bytes, maxBytes: this.maxBytes }
  }

  /** Number of indexed intervals. */
  get intervals (): number {
    return this.#intervals.size
  }

  /** Drops all memoised responses. */
  dropMemos (): void {
    if (this.memoHolders.size === 0) return
    for (const holder of this.memoHolders) holder.dropMemo()
    this.memoHolders.clear()
  }

  #delete (key: string, cause: RemovalCause): boolean {
    this.#removedAs = cause
    return this.#entries.delete(key)
  }

  #insert (entry: Entry): boolean {
    const { key, validity } = entry
    if (validity !== undefined) {
      // A family has one entry for a version; the older one is evicted, because nothing proves which is right.
      for (const other of this.#intervals.overlapping(validity)) if (other !== key) this.#delete(other, 'unknown')
    }
    this.#entries.set(key, entry)
    this.dropMemos()
    if (this.bytes * 2 > this.#entries.maxSize) {
      this.#onHalfFull?.()
      this.#onHalfFull = undefined
    }
    if (!this.#entries.has(key)) return false
    if (validity !== undefined) this.#intervals.add(validity, key)
    return true
  }
}

/** Interval of an entry, with the entry's key. */
interface IndexedInterval {
  readonly first: bigint
  readonly last: bigint
  readonly key: string
}

/**
 * Maps intervals to the keys of their entries, with a sorted list per family, in which no two overlap. A record is
 * removed with its entry, so the index stays bounded (law 10: nothing grows without bound).
 */
export class IntervalIndex {
  readonly #families = new Map<string, IndexedInterval[]>()

  /** Returns the key of an entry whose interval contains a number. */
  find (family: string, number: bigint): string | undefined {
    const found = this.findBefore(family, number)
    return found !== undefined && found.last >= number ? found.key : undefined
  }

  /** Returns the key of the last interval that begins at or before a number, and the end of that interval. */
  findBefore (family: string, number: bigint): { readonly key: string, readonly last: bigint } | undefined {
    const list = this.#families.get(family) ?? []
    return list[firstIndexFrom(list, number + 1n) - 1]
  }

  /** Extends the interval of an entry to a number that it proved valid for. */
  extend (family: string, key: string, last: bigint): void {
    const list = this.#families.get(family) ?? []
    const at = list.findLastIndex(interval => interval.key === key)
    const interval = list[at]
    if (interval === undefined || interval.last >= last) return
    list[at] = { ...interval, last }
  }

  /** Lists the keys of all entries of a family. */
  keysIn (family: string): string[] {
    return (this.#families.get(family) ?? []).map(({ key }) => key)
  }

  /** Lists the keys of entries whose intervals overlap an interval, in the order of their first numbers. */
  overlapping ({ family, first, last }: EntryInterval): string[] {
    const list = this.#families.get(family) ?? []
    const from = firstIndexFrom(list, first)
    const isInBefore = (list[from - 1]?.last ?? -1n) >= first
    return list.slice(isInBefore ? from - 1 : from, firstIndexFrom(list, last + 1n)).map(({ key }) => key)
  }

  add ({ family, first, last }: EntryInterval, key: string): void {
    const list = this.#families.get(family) ?? []
    list.splice(firstIndexFrom(list, first), 0, { first, last, key })
    this.#families.set(family, list)
  }

  remove ({ family, first }: EntryInterval, key: string): void {
    const list = this.#families.get(family) ?? []
    const at = firstIndexFrom(list, first)
    if (list[at]?.first !== first || list[at]?.key !== key) return
    list.splice(at, 1)
    if (list.length === 0) this.#families.delete(family)
  }

  get size (): number {
    return [...this.#families.values()].reduce((sum, list) => sum + list.length, 0)
  }
}

/** Finds the index of the first interval that begins at or after a number. */
function firstIndexFrom (list: readonly IndexedInterval[], number: bigint): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const interval = list[middle]
    if (interval !== undefined && interval.first < number) low = middle + 1
    else high = middle
  }
  return low
}
