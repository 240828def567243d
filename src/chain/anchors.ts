/** Height and hash of a final block, by which a chain is recognised (law 7: chains never mix). */
export interface Anchor {
  readonly height: bigint
  readonly hash: string
}

// Covers a window of any length, because the distances between anchors grow towards its start.
const maxAnchors = 16

/**
 * Anchors of one chain, dense near its head and sparse behind it. Another hash at one of these heights proves another
 * chain (law 7: chains never mix).
 */
export class Anchors {
  #list: readonly Anchor[]

  constructor (list: readonly Anchor[] = []) {
    this.#list = thinOut(sortByHeight(list))
  }

  /** Anchors in ascending order of height. */
  get list (): readonly Anchor[] {
    return this.#list
  }

  /** Adds anchors of the same chain; returns true if the list changed. */
  add (anchors: readonly Anchor[]): boolean {
    const before = this.#list
    this.#list = thinOut(sortByHeight([...before, ...anchors]))
    return before.length !== this.#list.length || before.some(({ height }, at) => this.#list[at]?.height !== height)
  }

  /** Selects the anchors inside a window of heights, newest first. */
  within (oldestHeight: bigint, newestHeight: bigint): Anchor[] {
    return this.#list.filter(({ height }) => height >= oldestHeight && height <= newestHeight).reverse()
  }

  /** Compares the hashes at shared heights; undefined if no height is in both lists. */
  isSameChain (others: readonly Anchor[]): boolean | undefined {
    const shared = this.#list.flatMap(({ height, hash }) =>
      others.filter(other => other.height === height).map(other => other.hash === hash)
    )
    return shared.length === 0 ? undefined : shared.every(Boolean)
  }
}

function sortByHeight (list: readonly Anchor[]): Anchor[] {
  const byHeight = new Map(list.map(anchor => [anchor.height, anchor]))
  return [...byHeight.values()].sort((a, b) => a.height < b.height ? -1 : 1)
}

/** Drops the least useful anchors; the lowest and the newest always stay. */
function thinOut (list: Anchor[]): Anchor[] {
  const remaining = [...list]
  while (remaining.length > maxAnchors) remaining.splice(leastUsefulIndex(remaining), 1)
  return remaining
}

function leastUsefulIndex (list: readonly Anchor[]): number {
  let newest = 0n
  for (const { height } of list) newest = height
  let [least, leastAt, below, lower] = [Infinity, 1, 0n, 0n]
  for (const [at, { height }] of list.entries()) {
    const gain = Number(height - lower) / Number(newest - below + 1n)
    if (at > 1 && gain < least) [least, leastAt] = [gain, at - 1]
    ;[lower, below] = [below, height]
  }
  return leastAt
}
