// Tolerates this difference between our clock and the chain's.
const maxClockSkewUsec = 3_600_000_000n
// Believes a timestamp in the future only once the upstream repeats it for this long.
const acceptedAfterMs = 2000

/**
 * Rejects single timestamps from the future: believing one would make every later true position look like an older
 * chain (law 7: chains never mix).
 */
export class FutureTimestampGuard {
  readonly #now: () => number
  readonly #wallClockMs: () => number
  #latestUsec: bigint | undefined
  #aheadSinceMs: number | undefined

  constructor (now: () => number, wallClockMs: () => number) {
    this.#now = now
    this.#wallClockMs = wallClockMs
  }

  /** Accepts future timestamps once they persist for 2 s: then it is our clock that is wrong. */
  accepts (timestampUsec: bigint): boolean {
    if (this.#isAhead(timestampUsec)) {
      this.#aheadSinceMs ??= this.#now()
      if (this.#now() - this.#aheadSinceMs < acceptedAfterMs) return false
    }
    this.#aheadSinceMs = undefined
    if (this.#latestUsec === undefined || timestampUsec > this.#latestUsec) this.#latestUsec = timestampUsec
    return true
  }

  #isAhead (timestampUsec: bigint): boolean {
    // Accepts the first timestamp, since nothing is known to compare it with.
    return this.#latestUsec !== undefined && timestampUsec > this.#latestUsec + maxClockSkewUsec &&
      Number(timestampUsec - maxClockSkewUsec) > this.#wallClockMs() * 1000
  }
}
