import { Latency } from './latency.js'

// So many failures one after another are no accident any more.
const maxFailures = 5
// Of each new answer so much goes into what is thought of its time: the last dozen count.
const newest = 0.15
// Whatever a node says, it is looked at again some day.
const longestRestMs = 3_600_000

/** How a node has answered of late: what tells whether it is one to ask, and how soon it would answer. */
export class Health {
  /** What its reads took, without what it was asked of itself. */
  readonly reads = new Latency()
  readonly #now: () => number
  #failures = 0
  // It was asked of itself, or could not be reached at all, and nothing has gone well since.
  #isDead = false
  #hasAnswered = false
  #restsUntilMs = -Infinity
  #tookMs: number | undefined
  #lastFailure: string | undefined
  #underWay = 0

  constructor (now: () => number) {
    this.#now = now
  }

  /**
   * Whether it has failed so often that it is asked only where nobody else is left, and looked at from time to time.
   */
  get isOpen (): boolean {
    return this.#failures >= maxFailures
  }

  /** Whether it answers, as far as is known: not before its first word. */
  get isUp (): boolean {
    return this.#hasAnswered && !this.#isDead && !this.isOpen
  }

  /** Whether it has asked to be left alone. */
  get isResting (): boolean {
    return this.#now() < this.#restsUntilMs
  }

  /** Whether it is to be asked before those that are not well. */
  get isWell (): boolean {
    return !this.isResting && !this.isOpen
  }

  /** How long an answer took of late; undefined where there was none. */
  get tookMs (): number | undefined {
    return this.#tookMs
  }

  /** What went wrong last, while nothing has gone well since. */
  get lastFailure (): string | undefined {
    return this.#lastFailure
  }

  /** How many questions are under way. */
  get underWay (): number {
    return this.#underWay
  }

  /** How long another question would take, as far as can be told; one that was never asked is tried at once. */
  get load (): number {
    return (this.#tookMs ?? 0) * (this.#underWay + 1)
  }

  /** A question is on its way. */
  began (): void {
    this.#underWay++
  }

  /** It is out of the way, however it ended. */
  ended (): void {
    this.#underWay--
  }

  /** It was answered as a node does. */
  answered (): void {
    if (this.isOpen) this.#tookMs = undefined
    this.#failures = 0
    this.#isDead = false
    this.#hasAnswered = true
    this.#lastFailure = undefined
  }

  /**
   * It was asked of itself and has answered: it is mended where it did not do that before; while reads alone fail, that
   * is no answer to them.
   */
  probed (): void {
    if (this.#isDead || this.#failures === 0) this.answered()
  }

  /**
   * How long an answer was waited for in vain: how long it would have taken is not known, but for that it is longer.
   */
  tookLonger (waitedMs: number, isRead = false): void {
    if (waitedMs > (this.#tookMs ?? 0)) this.took(waitedMs, isRead)
  }

  /** How long an answer took: an error is quick, and tells nothing of how soon a read would be answered. */
  took (tookMs: number, isRead = false): void {
    if (isRead) this.reads.add(tookMs)
    this.#tookMs = this.#tookMs === undefined ? tookMs : this.#tookMs + (tookMs - this.#tookMs) * newest
  }

  /** It was not, or not in time, or with what cannot be true; it may be dead altogether. */
  failed (reason: string, isDead = false): void {
    this.#failures++
    this.#isDead ||= isDead
    this.#lastFailure = reason
  }

  /** It has asked for rest; being busy is no failure. */
  rest (forMs: number): void {
    this.#hasAnswered = true
    this.#restsUntilMs = Math.max(this.#restsUntilMs, this.#now() + Math.min(forMs, longestRestMs))
  }
}
