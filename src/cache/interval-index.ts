import { type EntryInterval } from '../api/read.js'

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

  /** Returns the entry whose interval begins last at or before a number, with the end of that interval. */
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
