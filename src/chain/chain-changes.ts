// Most changes of chain within the span, whatever upstreams and replicas say (law 10: nothing grows without bound).
const maxChanges = 5
const spanMs = 60_000

/** Bounds changes of chain, however they are noticed. Purges by hand do not count. */
export class ChainChanges {
  readonly #now: () => number
  #beganAtMs: readonly number[] = []

  constructor (now: () => number) {
    this.#now = now
  }

  /** Counts a change of chain; returns false if the last minute had five, so that the change must wait. */
  begin (): boolean {
    const now = this.#now()
    this.#beganAtMs = this.#beganAtMs.filter(atMs => now - atMs < spanMs)
    if (this.#beganAtMs.length >= maxChanges) return false
    this.#beganAtMs = [...this.#beganAtMs, now]
    return true
  }
}
