import { unavailable } from '../reads/refusal.js'

/** The clock, and who is told. */
export interface LoopLagOptions {
  readonly now: () => number
  /** A read was refused. */
  onShed (): void
  /** Reads are refused from now on, or not any more. */
  onChange (isShedding: boolean): void
}

/** How often `tick` is to be called. */
export const lagEveryMs = 100

// A hit takes well under a millisecond: one that waits for so long, each time, is served by a process that has more to do than it can.
const lateMs = 100
// Between the two nothing is concluded, so that a process at the edge does not change its mind each second.
const calmMs = 50
// So many late ticks more than calm ones, each of which has taken a fifth of a second or more: one long garbage collection is one.
const most = 8

/** Whether the event loop has been late for a while: then what would be asked of a node is refused, so that what is kept can be served. */
export class LoopLag {
  readonly #options: LoopLagOptions
  #tickedAt: number | undefined
  #late = 0
  #isShedding = false

  constructor (options: LoopLagOptions) {
    this.#options = options
  }

  get isShedding (): boolean {
    return this.#isShedding
  }

  /** It is a turn of the loop, and should be `lagEveryMs` after the last. */
  tick (): void {
    const now = this.#options.now()
    const lateBy = this.#tickedAt === undefined ? 0 : now - this.#tickedAt - lagEveryMs
    this.#tickedAt = now
    if (lateBy >= lateMs) this.#late = Math.min(most, this.#late + 1)
    else if (lateBy < calmMs) this.#late = Math.max(0, this.#late - 1)
    if (this.#late === (this.#isShedding ? 0 : most)) {
      this.#isShedding = !this.#isShedding
      this.#options.onChange(this.#isShedding)
    }
  }

  /** Throws what a client is told whose read is no hit, while there is no time for it. */
  requireLeisure (): void {
    if (!this.#isShedding) return
    this.#options.onShed()
    throw unavailable('there is more to do than can be done in time, and only what is kept is served')
  }
}
