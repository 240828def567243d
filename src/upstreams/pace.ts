/** At most so many within any such time. */
export interface Rate {
  readonly count: number
  readonly perMs: number
}

// What is sent a second apart may arrive closer together than that, and it is the node that counts.
const arrivalMs = 20

/** What a whole number for each second means. */
export function paceOf (perSecond: number): Rate {
  return { count: perSecond, perMs: 1000 + arrivalMs }
}

/** When something was sent, for as long as it counts: no longer a list than what was sent within that time. */
export class Pace {
  readonly #rate: Rate
  readonly #now: () => number
  #sentAt: number[] = []
  // Those before it count no more.
  #first = 0
  // Taken, but not on its way yet: a connection may have to be made first.
  #toBeSent = 0

  constructor (rate: Rate, now: () => number) {
    this.#rate = rate
    this.#now = now
  }

  /** In how long one more may be sent; for ever where that hangs on what is still to be sent. */
  get readyInMs (): number {
    const over = this.used - this.#rate.count
    if (over < 0) return 0
    const goes = this.#sentAt[this.#first + over]
    return goes === undefined ? Infinity : goes + this.#rate.perMs - this.#now()
  }

  /** How many count now. */
  get used (): number {
    const since = this.#now() - this.#rate.perMs
    let at = this.#sentAt[this.#first]
    while (at !== undefined && at <= since) at = this.#sentAt[++this.#first]
    if (this.#first * 2 > this.#sentAt.length) {
      this.#sentAt = this.#sentAt.slice(this.#first)
      this.#first = 0
    }
    return this.#sentAt.length - this.#first + this.#toBeSent
  }

  /** Whether half of it is used up, one's own share apart. */
  isHalfUsed (own: number): boolean {
    return (this.used - own) * 2 >= this.#rate.count
  }

  /** How many can be sent within a time at most. */
  within (ms: number): number {
    return Math.ceil(ms / this.#rate.perMs) * this.#rate.count
  }

  /** One more will be sent. */
  take (): void {
    this.#toBeSent++
  }

  /** It will not be sent after all. */
  drop (): void {
    this.#toBeSent--
  }

  /** It has been sent; it counts from then on. */
  sent (): void {
    this.#toBeSent--
    this.sentAgain()
  }

  /** Something was sent once more, on another connection. */
  sentAgain (): void {
    this.#sentAt.push(this.#now())
  }
}
