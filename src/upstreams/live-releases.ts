// Behind one address with nodes of two releases each poll may meet another; one that is not met for so long is gone.
const mixedMs = 60_000

/**
 * Which releases live nodes run (law 8): those of this process's own nodes, and those that the other replicas tell of.
 */
export class LiveReleases {
  readonly #now: () => number
  readonly #nodes = new Map<string, NodeReleases>()
  #isUp: (node: string) => boolean = () => true
  #heard: ReadonlySet<string> = new Set()

  constructor (now: () => number) {
    this.#now = now
  }

  /** Who tells which of the nodes are live. */
  watch (isUp: (node: string) => boolean): void {
    this.#isUp = isUp
  }

  /** A node has just said that it runs a release. */
  saw (release: string, node = ''): void {
    const known = this.#nodes.get(node) ?? new NodeReleases(this.#now)
    this.#nodes.set(node, known)
    known.saw(release)
  }

  /** What the other replicas say that their nodes run. */
  heard (releases: Iterable<string>): void {
    this.#heard = new Set(releases)
  }

  /** What this process's own live nodes run. */
  get own (): readonly string[] {
    return [...new Set([...this.#nodes].flatMap(([node, releases]) => this.#isUp(node) ? releases.all : []))]
  }

  /** Whether no live node runs a release any more; while none is known, every entry counts as current. */
  isGone (release: string): boolean {
    for (const [node, { last }] of this.#nodes) if (last === release && this.#isUp(node)) return false
    const { own } = this
    return own.length > 0 && !own.includes(release) && !this.#heard.has(release)
  }
}

/** What the nodes behind one address run. */
class NodeReleases {
  readonly #now: () => number
  readonly #seenAt = new Map<string, number>()
  #last: string | undefined
  #isMixedUntilMs = -Infinity

  constructor (now: () => number) {
    this.#now = now
  }

  get last (): string | undefined {
    return this.#last
  }

  // One that comes back after another means that both are running.
  saw (release: string): void {
    const now = this.#now()
    const seenAt = this.#seenAt.get(release)
    if (release !== this.#last && seenAt !== undefined && now - seenAt < mixedMs) this.#isMixedUntilMs = now + mixedMs
    this.#last = release
    this.#seenAt.set(release, now)
    for (const [other, at] of this.#seenAt) if (now - at >= mixedMs) this.#seenAt.delete(other)
  }

  get all (): readonly string[] {
    const now = this.#now()
    if (now >= this.#isMixedUntilMs) return this.#last === undefined ? [] : [this.#last]
    return [...this.#seenAt].filter(([, at]) => now - at < mixedMs).map(([release]) => release)
  }
}
