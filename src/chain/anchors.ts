/** A final block by which a chain is known again: its height and its hash. */
export interface Anchor {
  readonly height: bigint
  readonly hash: string
}

// Enough for a window of any length when each is so much further from its neighbour than the last.
const maxAnchors = 16

/**
 * Final blocks of one chain, dense near its head and thin behind it: whoever has another hash at one of these heights
 * is another chain (law 7).
 */
export class Anchors {
  #list: readonly Anchor[]

  constructor (list: readonly Anchor[] = []) {
    this.#list = thinned(sorted(list))
  }

  /** By height, the lowest first. */
  get list (): readonly Anchor[] {
    return this.#list
  }

  get newest (): Anchor | undefined {
    return this.#list.at(-1)
  }

  /** Takes in more of the same chain; whether anything changed. */
  add (anchors: readonly Anchor[]): boolean {
    const before = this.#list
    this.#list = thinned(sorted([...before, ...anchors]))
    return before.length !== this.#list.length || before.some(({ height }, at) => this.#list[at]?.height !== height)
  }

  /** The anchors that a node with a window can be compared by, the newest first. */
  within (oldestHeight: bigint, newestHeight: bigint): Anchor[] {
    return this.#list.filter(({ height }) => height >= oldestHeight && height <= newestHeight).reverse()
  }

  /** Whether another list is of the same chain: undefined where no height is in both. */
  isSameAs (others: readonly Anchor[]): boolean | undefined {
    const shared = this.#list.flatMap(({ height, hash }) =>
      others.filter(other => other.height === height).map(other => other.hash === hash)
    )
    return shared.length === 0 ? undefined : shared.every(Boolean)
  }
}

function sorted (list: readonly Anchor[]): Anchor[] {
  const byHeight = new Map(list.map(anchor => [anchor.height, anchor]))
  return [...byHeight.values()].sort((a, b) => a.height < b.height ? -1 : 1)
}

/**
 * Leaves out what adds least: of the ones between, the one whose neighbours are closest together for how far they are
 * behind the head.
 */
function thinned (list: Anchor[]): Anchor[] {
  const kept = [...list]
  while (kept.length > maxAnchors) kept.splice(leastOf(kept), 1)
  return kept
}

function leastOf (list: readonly Anchor[]): number {
  let newest = 0n
  for (const { height } of list) newest = height
  let [least, place, below, lower] = [Infinity, 1, 0n, 0n]
  for (const [at, { height }] of list.entries()) {
    const gain = Number(height - lower) / Number(newest - below + 1n)
    if (at > 1 && gain < least) [least, place] = [gain, at - 1]
    ;[lower, below] = [below, height]
  }
  return place
}
