/** Rate of a token bucket: the time in which a token comes back, and the tokens of a full bucket. */
export interface TokenRate {
  readonly interval: number
  readonly burst: number
}

// Absorbs rounding of the clock.
const negligible = 0.001

/** Token bucket on a clock of its caller, which counts milliseconds or whatever else earns tokens. */
export class TokenBucket {
  // Time at which the bucket is full again.
  #fullAt = -Infinity

  /** Takes tokens: 0 on success, else the time until as many are free, with nothing taken. */
  take (now: number, { interval, burst }: TokenRate, count = 1): number {
    // Ignores a time beyond a whole burst: it belongs to another rate.
    const isCurrent = this.#fullAt >= now && this.#fullAt <= now + burst * interval + negligible
    const fullAt = isCurrent ? this.#fullAt : now
    const wait = fullAt + count * interval - now - burst * interval
    if (wait > negligible) return wait
    this.#fullAt = fullAt + count * interval
    return 0
  }

  /** Returns a token that turned out to be free. */
  refund ({ interval }: TokenRate): void {
    this.#fullAt -= interval
  }
}
