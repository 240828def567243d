// During an upgrade, nodes behind one address may alternate between releases; one not seen for a minute has been
// replaced.
const mixedReleasesMs = 60_000

/**
 * Releases that live upstreams run, of this process and of the other replicas (law 8: rendering can change, history
 * cannot).
 */
export class UpstreamSoftwareReleases {
  readonly #now: () => number
  readonly #upstreams = new Map<string, UpstreamReleases>()
  readonly #isUp: (upstream: string) => boolean
  #peerReleases: ReadonlySet<string> = new Set()

  constructor (now: () => number, isUp: (upstream: string) => boolean) {
    this.#now = now
    this.#isUp = isUp
  }

  record (release: string, upstream = ''): void {
    const releases = this.#upstreams.get(upstream) ?? new UpstreamReleases(this.#now)
    this.#upstreams.set(upstream, releases)
    releases.record(release)
  }

  /** Replaces the releases that other replicas report. */
  replacePeerReleases (releases: Iterable<string>): void {
    this.#peerReleases = new Set(releases)
  }

  /** Releases of this process's upstreams that are up. */
  get own (): readonly string[] {
    return [
      ...new Set([...this.#upstreams].flatMap(([upstream, releases]) => this.#isUp(upstream) ? releases.all : []))
    ]
  }

  /** True when no live upstream runs the release; false while no upstream with a known release is up. */
  isRetiredRelease (release: string): boolean {
    for (const [upstream, { last }] of this.#upstreams) if (last === release && this.#isUp(upstream)) return false
    const { own } = this
    return own.length > 0 && !own.includes(release) && !this.#peerReleases.has(release)
  }
}

/** Releases of the nodes behind one address. */
class UpstreamReleases {
  readonly #now: () => number
  readonly #seenAtMs = new Map<string, number>()
  #last: string | undefined
  #isMixedUntilMs = -Infinity

  constructor (now: () => number) {
    this.#now = now
  }

  get last (): string | undefined {
    return this.#last
  }

  // Returning to an earlier release means that nodes of both are running.
  record (release: string): void {
    const nowMs = this.#now()
    const seenAtMs = this.#seenAtMs.get(release)
    if (release !== this.#last && seenAtMs !== undefined && nowMs - seenAtMs < mixedReleasesMs) {
      this.#isMixedUntilMs = nowMs + mixedReleasesMs
    }
    this.#last = release
    this.#seenAtMs.set(release, nowMs)
    for (const [other, at] of this.#seenAtMs) if (nowMs - at >= mixedReleasesMs) this.#seenAtMs.delete(other)
  }

  get all (): readonly string[] {
    const nowMs = this.#now()
    if (nowMs >= this.#isMixedUntilMs) return this.#last === undefined ? [] : [this.#last]
    return [...this.#seenAtMs].filter(([, at]) => nowMs - at < mixedReleasesMs).map(([release]) => release)
  }
}
