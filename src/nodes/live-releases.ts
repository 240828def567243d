// Behind one address with nodes of two releases each poll may meet another; one that is not met for so long is gone.
const mixedMs = 60_000

/** Which releases live nodes run (law 8): those of this process's own nodes, and those that the other replicas tell of. */
export class LiveReleases {
  readonly #now: () => number
  readonly #seenAt = new Map<string, number>()
  #last: string | undefined
  #isMixedUntilMs = -Infinity
  #heard: ReadonlySet<string> = new Set()

  constructor (now: () => number) {
    this.#now = now
  }

  /** A node has just said that it runs a release. One that comes back after another means that both are running. */
  saw (release: string): void {
    const now = this.#now()
    const seenAt = this.#seenAt.get(release)
    if (release !== this.#last && seenAt !== undefined && now - seenAt < mixedMs) this.#isMixedUntilMs = now + mixedMs
    this.#last = release
    this.#seenAt.set(release, now)
    for (const [other, at] of this.#seenAt) if (now - at >= mixedMs) this.#seenAt.delete(other)
  }

  /** What the other replicas say that their nodes run. */
  heard (releases: Iterable<string>): void {
    this.#heard = new Set(releases)
  }

  /** What this process's own nodes run. */
  get own (): readonly string[] {
    const now = this.#now()
    if (now >= this.#isMixedUntilMs) return this.#last === undefined ? [] : [this.#last]
    return [...this.#seenAt].filter(([, at]) => now - at < mixedMs).map(([release]) => release)
  }

  /** Whether no live node runs a release any more; while none is known, every entry counts as current. */
  isGone (release: string): boolean {
    if (release === this.#last) return false
    const { own } = this
    return own.length > 0 && !own.includes(release) && !this.#heard.has(release)
  }
}
