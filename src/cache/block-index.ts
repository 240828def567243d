/** A block by the versions that it holds, and the key that its entry is kept under. */
interface Interval {
  readonly first: bigint
  readonly last: bigint
  readonly key: string
}

/**
 * From a version to the kept block that holds it. Each family, such as JSON with transactions, has its own list in the
 * order of versions; a record lives as long as its entry, so the index is bounded by what it points to.
 */
export class BlockIndex {
  readonly #families = new Map<string, Interval[]>()

  /** The key of the block that holds a version. */
  find (blocks: string, version: bigint): string | undefined {
    const list = this.#families.get(blocks)
    const interval = list?.[placeOf(list, version)]
    return interval !== undefined && interval.first <= version ? interval.key : undefined
  }

  /** The keys of the blocks that share a version with a range: of two that overlap, one is a lie. */
  overlapping (blocks: string, first: bigint, last: bigint): string[] {
    const list = this.#families.get(blocks) ?? []
    const from = placeOf(list, first)
    let to = from
    // Only what overlaps is copied: a copy of all that follows would make each new block dearer than the last.
    while ((list[to]?.first ?? last + 1n) <= last) to++
    return list.slice(from, to).map(({ key }) => key)
  }

  add (blocks: string, interval: Interval): void {
    const list = this.#families.get(blocks) ?? []
    list.splice(placeOf(list, interval.first), 0, interval)
    this.#families.set(blocks, list)
  }

  remove (blocks: string, first: bigint): void {
    const list = this.#families.get(blocks) ?? []
    const at = placeOf(list, first)
    if (list[at]?.first === first) list.splice(at, 1)
    if (list.length === 0) this.#families.delete(blocks)
  }

  get size (): number {
    return [...this.#families.values()].reduce((sum, list) => sum + list.length, 0)
  }
}

/** Where the first interval stands that does not end before a version. */
function placeOf (list: readonly Interval[], version: bigint): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const interval = list[middle]
    if (interval !== undefined && interval.last < version) low = middle + 1
    else high = middle
  }
  return low
}
