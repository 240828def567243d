// A chain reset is one contradiction, and a single false header another; a third within seconds is neither.
const maxContradictions = 3
// An upstream is trusted again after this long without a contradiction. The time doubles while contradictions go on,
// and stays below the 30 s within which an upstream recovers.
const quietMs = { first: 5000, longest: 20_000 } as const
// A contradiction this long after the last is a new matter.
const forgottenAfterMs = 60_000

/** Reason of the quarantine of an upstream that contradicts itself. */
export const selfContradictionReason =
  'it contradicts itself: its responses are of two chains with one chain id, or their positions are false'

/** Contradictions of one upstream with itself, which end its use for a time (law 7: chains never mix). */
export class SelfContradictions {
  readonly #now: () => number
  #atMs: readonly number[] = []
  #quietMs: number = quietMs.first
  #isOngoing = false

  constructor (now: () => number) {
    this.#now = now
  }

  /** True until the upstream has said the same for some seconds. */
  get isOngoing (): boolean {
    if (this.#isOngoing && this.#sinceLastMs >= this.#quietMs) {
      this.#isOngoing = false
      this.#quietMs = Math.min(quietMs.longest, 2 * this.#quietMs)
    }
    return this.#isOngoing
  }

  /** Records a contradiction; the third within seconds, or the next soon after a quarantine, quarantines. */
  record (): void {
    const now = this.#now()
    if (this.#sinceLastMs >= forgottenAfterMs) this.#quietMs = quietMs.first
    this.#atMs = [...this.#atMs.filter(atMs => now - atMs < quietMs.first), now]
    if (this.#quietMs > quietMs.first || this.#atMs.length >= maxContradictions) this.quarantine()
  }

  /** Quarantines at once, or for longer. */
  quarantine (): void {
    this.#isOngoing = true
    this.#atMs = [this.#now()]
  }

  get #sinceLastMs (): number {
    return this.#now() - (this.#atMs.at(-1) ?? -Infinity)
  }
}
