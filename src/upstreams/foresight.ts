// This machine's clock may be off by so much without a moment's doubt.
const slackUsec = 3_600_000_000n
// One answer is no clock; what a node keeps saying is.
const insistedMs = 2000

/**
 * Keeps a time that nobody can know yet from being believed for one answer: it would put every true one after it in the
 * wrong, as of an older chain (law 7). Where it is this machine that has the wrong time, a node is believed as soon as
 * it has said so for a moment, and from then on by its own clock.
 */
export class Foresight {
  readonly #now: () => number
  readonly #wallClockMs: () => number
  #latestUsec: bigint | undefined
  #aheadSinceMs: number | undefined

  constructor (now: () => number, wallClockMs: () => number) {
    this.#now = now
    this.#wallClockMs = wallClockMs
  }

  /** Whether a time that the node has stamped on an answer can be one. */
  believes (timestampUsec: bigint): boolean {
    if (this.#isAhead(timestampUsec)) {
      this.#aheadSinceMs ??= this.#now()
      if (this.#now() - this.#aheadSinceMs < insistedMs) return false
    }
    this.#aheadSinceMs = undefined
    if (this.#latestUsec === undefined || timestampUsec > this.#latestUsec) this.#latestUsec = timestampUsec
    return true
  }

  #isAhead (timestampUsec: bigint): boolean {
    // A node's first word is all that is known of its time.
    return this.#latestUsec !== undefined && timestampUsec > this.#latestUsec + slackUsec &&
      Number(timestampUsec - slackUsec) > this.#wallClockMs() * 1000
  }
}
