/** Versions of a cached block, and the key of its entry. */
interface BlockInterval {
  readonly first: bigint
  readonly last: bigint
  readonly key: string
}

/**
 * Maps a version to the cached block that contains it, with a sorted list per representation.
 * A record is removed with its entry, so the index stays bounded (law 10).
 */
export class BlockIndex {
  readonly #intervals = new Map<string, BlockInterval[]>()

  /** Returns the key of the cached block that contains a version. */
  find (blocks: string, version: bigint): string | undefined {
    const list = this.#intervals.get(blocks)
    const interval = list?.[lowerBound(list, version)]
    return interval !== undefined && interval.first <= version ? interval.key : undefined
  }

  /** Lists the keys of overlapping blocks: blocks of one chain never overlap, so at least one of them is wrong. */
  overlapping (blocks: string, first: bigint, last: bigint): string[] {
    const list = this.#intervals.get(blocks) ?? []
    const from = lowerBound(list, first)
    let to = from
    // Slicing only the overlap keeps the cost of an insertion independent of the number of later blocks.
    while ((list[to]?.first ?? last + 1n) <= last) to++
    return list.slice(from, to).map(({ key }) => key)
  }

  add (blocks: string, interval: BlockInterval): void {
    const list = this.#intervals.get(blocks) ?? []
    list.splice(lowerBound(list, interval.first), 0, interval)
    this.#intervals.set(blocks, list)
  }

  remove (blocks: string, first: bigint): void {
    const list = this.#intervals.get(blocks) ?? []
    const at = lowerBound(list, first)
    if (list[at]?.first === first) list.splice(at, 1)
    if (list.length === 0) this.#intervals.delete(blocks)
  }

  get size (): number {
    return [...this.#intervals.values()].reduce((sum, list) => sum + list.length, 0)
  }
}

/** Finds the index of the first interval that ends at or after a version. */
function lowerBound (list: readonly BlockInterval[], version: bigint): number {
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
