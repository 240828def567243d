// Time for which a release counts after its last response: nodes behind one address may alternate between releases
// during an upgrade.
const mixedReleasesMs = 60_000

/** Releases of the nodes behind one address. */
interface SeenReleases {
  last: string
  mixedUntilMs: number
  readonly seenAtMs: Map<string, number>
}

/**
 * Releases that live upstreams run, of this process and of the other replicas (law 8: rendering can change, history
 * cannot).
 */
export class UpstreamSoftwareReleases {
  readonly #now: () => number
  readonly #upstreams = new Map<string, SeenReleases>()
  readonly #isUp: (upstream: string) => boolean
  #peerReleases: ReadonlySet<string> = new Set()

  constructor (now: () => number, isUp: (upstream: string) => boolean) {
    this.#now = now
    this.#isUp = isUp
  }

  record (release: string, upstream = ''): void {
    const nowMs = this.#now()
    const seen = this.#upstreams.get(upstream) ?? { last: release, mixedUntilMs: -Infinity, seenAtMs: new Map() }
    this.#upstreams.set(upstream, seen)
    // Counts both releases as live if an earlier one returns: nodes of both are running.
    const seenAtMs = seen.seenAtMs.get(release)
    if (release !== seen.last && seenAtMs !== undefined && nowMs - seenAtMs < mixedReleasesMs) {
      seen.mixedUntilMs = nowMs + mixedReleasesMs
    }
    seen.last = release
    seen.seenAtMs.set(release, nowMs)
    for (const [other, at] of seen.seenAtMs) if (nowMs - at >= mixedReleasesMs) seen.seenAtMs.delete(other)
  }

  /** Replaces the releases that other replicas report. */
  replacePeerReleases (releases: Iterable<string>): void {
    this.#peerReleases = new Set(releases)
  }

  /** Releases of this process's upstreams that are up. */
  get own (): readonly string[] {
    const nowMs = this.#now()
    const up = [...this.#upstreams].filter(([upstream]) => this.#isUp(upstream))
    return [
      ...new Set(up.flatMap(([, { last, mixedUntilMs, seenAtMs }]) =>
        nowMs >= mixedUntilMs
          ? [last]
          : [...seenAtMs].filter(([, at]) => nowMs - at < mixedReleasesMs).map(([release]) => release)
      ))
    ]
  }

  /** True when no live upstream runs the release; false while no upstream with a known release is up. */
  isRetiredRelease (release: string): boolean {
    for (const [upstream, { last }] of this.#upstreams) if (last === release && this.#isUp(upstream)) return false
    const { own } = this
    return own.length > 0 && !own.includes(release) && !this.#peerReleases.has(release)
  }
}
