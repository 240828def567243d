import { unavailable } from '../api/refusal.js'

/** The clock, and who is told. */
export interface LoopLagOptions {
  readonly now: () => number
  /** How late each turn of the loop must be; never, where there is none. */
  readonly lateMs: number | null
  /** A read was refused. */
  onShed(): void
  /** Reads are refused from now on, or not any more. */
  onChange(isShedding: boolean): void
}

/** How often `tick` is to be called. */
export const lagEveryMs = 100

// Between late and this part of it nothing is concluded, so that a process at the edge does not change its mind each
// second.
const calmShare = 1 / 2
// So many late ticks more than calm ones, each of which has taken a fifth of a second or more: one long garbage
// collection is one.
const most = 8

/**
 * Whether the event loop has been late for a while: then what would be asked of a node is refused, so that what is kept
 * can be served.
 */
export class LoopLag {
  readonly #options: LoopLagOptions
  #lateMs: number | null
  #tickedAt: number | undefined
  #late = 0
  #isShedding = false

  constructor (options: LoopLagOptions) {
    this.#options = options
    this.#lateMs = options.lateMs
  }

  get isShedding (): boolean {
    return this.#isShedding
  }

  /** So late it must be from now on. */
  allow (lateMs: number | null): void {
    this.#lateMs = lateMs
  }

  /** It is a turn of the loop, and should be `lagEveryMs` after the last. */
  tick (): void {
    const now = this.#options.now()
    const lateBy = this.#tickedAt === undefined ? 0 : now - this.#tickedAt - lagEveryMs
    this.#tickedAt = now
    const lateMs = this.#lateMs ?? Infinity
    if (lateBy >= lateMs) this.#late = Math.min(most, this.#late + 1)
    else if (lateBy < lateMs * calmShare) this.#late = Math.max(0, this.#late - 1)
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
