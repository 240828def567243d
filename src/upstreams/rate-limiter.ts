/** Limit of requests per period. */
export interface RateLimit {
  readonly count: number
  readonly perMs: number
}

// Widens the period, since requests sent a second apart may arrive closer together and the upstream counts arrivals.
const arrivalJitterMs = 20

/** Converts a limit per second. */
export function toRateLimit (perSecond: number): RateLimit {
  return { count: perSecond, perMs: 1000 + arrivalJitterMs }
}

/** Sliding-window log of sent requests; it never holds more than were sent within one period. */
export class RateLimiter {
  readonly #rate: RateLimit
  readonly #now: () => number
  #sentAtMs: number[] = []
  // Index of the first request that still counts.
  #first = 0
  // Reserved but not sent yet: a connection may have to open first.
  #reserved = 0

  constructor (rate: RateLimit, now: () => number) {
    this.#rate = rate
    this.#now = now
  }

  /** Milliseconds until one more may be sent; Infinity while only unsent reservations block it. */
  get readyInMs (): number {
    const excess = this.used - this.#rate.count
    if (excess < 0) return 0
    const freedBySentAtMs = this.#sentAtMs[this.#first + excess]
    return freedBySentAtMs === undefined ? Infinity : freedBySentAtMs + this.#rate.perMs - this.#now()
  }

  /** Counts reserved requests and those sent within the period. */
  get used (): number {
    const windowStartMs = this.#now() - this.#rate.perMs
    let at = this.#sentAtMs[this.#first]
    while (at !== undefined && at <= windowStartMs) at = this.#sentAtMs[++this.#first]
    if (this.#first * 2 > this.#sentAtMs.length) {
      this.#sentAtMs = this.#sentAtMs.slice(this.#first)
      this.#first = 0
    }
    return this.#sentAtMs.length - this.#first + this.#reserved
  }

  /** `exceptCount` leaves out the caller's own requests. */
  isHalfUsed (exceptCount: number): boolean {
    return (this.used - exceptCount) * 2 >= this.#rate.count
  }

  /** Upper bound of requests that fit into a time. */
  capacityWithin (ms: number): number {
    return Math.ceil(ms / this.#rate.perMs) * this.#rate.count
  }

  reserve (): void {
    this.#reserved++
  }

  /** Returns a reservation whose request is not sent after all. */
  releaseReservation (): void {
    this.#reserved--
  }

  /** Turns a reservation into a sent request, which counts from now. */
  recordSent (): void {
    this.#reserved--
    this.recordResent()
  }

  /** Counts the retry of a request on another connection. */
  recordResent (): void {
    this.#sentAtMs.push(this.#now())
  }
}
