/** Rate of a token bucket: the time in which a token comes back, and the tokens of a full bucket. */
export interface TokenRate {
  readonly interval: number
  readonly burst: number
}

// Tolerates rounding of the clock, in milliseconds and in tokens.
const negligible = 0.001

/** Token bucket on a clock of its caller, which counts milliseconds or whatever else earns tokens. */
export class TokenBucket {
  // Time at which the bucket is full again.
  #fullAt = -Infinity

  /** Takes tokens: 0 on success, else the time until as many are free, with nothing taken. */
  take (now: number, { interval, burst }: TokenRate, count = 1): number {
    const fullAt = this.#fullFrom(now, { interval, burst })
    const wait = fullAt + count * interval - now - burst * interval
    if (wait > negligible) return wait
    this.#fullAt = fullAt + count * interval
    return 0
  }

  /** Lowers the tokens to this many at most, and returns how many there are. */
  level (now: number, { interval, burst }: TokenRate, atMost = burst): number {
    this.#fullAt = Math.max(this.#fullFrom(now, { interval, burst }), now + (burst - atMost) * interval)
    return Math.floor(burst - (this.#fullAt - now) / interval + negligible)
  }

  /** Returns a token that turned out to be free. */
  refund ({ interval }: TokenRate): void {
    this.#fullAt -= interval
  }

  // Ignores a time beyond a whole burst, because it belongs to another rate.
  #fullFrom (now: number, { interval, burst }: TokenRate): number {
    const isCurrent = this.#fullAt >= now && this.#fullAt <= now + burst * interval + negligible
    return isCurrent ? this.#fullAt : now
  }
}
