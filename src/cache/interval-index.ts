import { type EntryInterval } from '../api/read.js'

/** Interval of an entry, with the highest end of all intervals up to this one, which bounds every search. */
interface IndexedInterval {
  readonly first: bigint
  readonly last: bigint
  readonly key: string
  highestLast: bigint
}

/**
 * Maps intervals to the keys of their entries, with a sorted list per family. A record is removed with its entry, so
 * the index stays bounded (law 10: nothing grows without bound).
 */
export class IntervalIndex {
  readonly #families = new Map<string, IndexedInterval[]>()

  /** Returns the key of an entry whose interval contains a number. */
  find (family: string, number: bigint): string | undefined {
    const list = this.#families.get(family) ?? []
    let at = lowerBound(list, 'highestLast', number)
    for (let interval = list[at]; interval !== undefined && interval.first <= number; interval = list[++at]) {
      if (interval.last >= number) return interval.key
    }
    return undefined
  }

  /** Returns the entry whose interval begins last at or before a number, with the end of that interval. */
  findBefore (family: string, number: bigint): { readonly key: string, readonly last: bigint } | undefined {
    const list = this.#families.get(family) ?? []
    return list[lowerBound(list, 'first', number + 1n) - 1]
  }

  /** Extends the interval of an entry to a number that it proved valid for. */
  extend (family: string, key: string, last: bigint): void {
    const list = this.#families.get(family) ?? []
    const at = list.findLastIndex(interval => interval.key === key)
    const interval = list[at]
    if (interval === undefined || interval.last >= last) return
    list[at] = { ...interval, last, highestLast: last }
    updateHighestLast(list, at)
  }

  /** Lists the keys of all entries of a family. */
  keysIn (family: string): string[] {
    return (this.#families.get(family) ?? []).map(({ key }) => key)
  }

  /** Lists the keys of entries whose intervals overlap an interval, in the order of their first numbers. */
  overlapping ({ family, first, last }: EntryInterval): string[] {
    const list = this.#families.get(family) ?? []
    const found: string[] = []
    let at = lowerBound(list, 'highestLast', first)
    for (let interval = list[at]; interval !== undefined && interval.first <= last; interval = list[++at]) {
      if (interval.last >= first) found.push(interval.key)
    }
    return found
  }

  add ({ family, first, last }: EntryInterval, key: string): void {
    const list = this.#families.get(family) ?? []
    const at = lowerBound(list, 'first', first)
    list.splice(at, 0, { first, last, key, highestLast: last })
    updateHighestLast(list, at)
    this.#families.set(family, list)
  }

  remove ({ family, first }: EntryInterval, key: string): void {
    const list = this.#families.get(family) ?? []
    let at = lowerBound(list, 'first', first)
    while (list[at]?.first === first && list[at]?.key !== key) at++
    if (list[at]?.first !== first) return
    list.splice(at, 1)
    updateHighestLast(list, at)
    if (list.length === 0) this.#families.delete(family)
  }

  get size (): number {
    return [...this.#families.values()].reduce((sum, list) => sum + list.length, 0)
  }
}

/** Finds the index of the first interval whose member is at least a number. */
function lowerBound (list: readonly IndexedInterval[], member: 'first' | 'highestLast', number: bigint): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const interval = list[middle]
    if (interval !== undefined && interval[member] < number) low = middle + 1
    else high = middle
  }
  return low
}

/** Updates the highest ends from a position on, until one is unchanged, so that it ends at once without overlaps. */
function updateHighestLast (list: readonly IndexedInterval[], from: number): void {
  let highestLast = list[from - 1]?.highestLast ?? 0n
  let at = from
  for (let interval = list[at]; interval !== undefined; interval = list[++at]) {
    if (interval.last > highestLast) highestLast = interval.last
    if (at > from && interval.highestLast === highestLast) return
    interval.highestLast = highestLast
  }
}
