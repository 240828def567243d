import { unavailableError } from '../api/error-response.js'

/** Options of the load shedder. */
export interface LoadShedderOptions {
  readonly now: () => number
  /** Lateness from which a tick counts as late; with null the shedder never rejects. */
  readonly lateMs: number | null
  /** Reports a read that was rejected. */
  onShed(): void
  /** Reports the start and end of shedding. */
  onChange(isShedding: boolean): void
}

/** Interval at which the caller must call `tick`. */
export const loadTickMs = 100

// Counts a tick as calm only below this share of the limit, so that shedding does not flap at the limit.
const recoveryShare = 1 / 2
// Sheds load once late ticks outnumber calm ones by this many, because one long garbage collection is no overload.
const maxLateTicks = 8

/** Sheds load while the event loop is late: rejects reads that need an upstream, so that hits are still served. */
export class LoadShedder {
  readonly #options: LoadShedderOptions
  #lateMs: number | null
  #tickedAt: number | undefined
  #lateTicks = 0
  #isShedding = false

  constructor (options: LoadShedderOptions) {
    this.#options = options
    this.#lateMs = options.lateMs
  }

  get isShedding (): boolean {
    return this.#isShedding
  }

  setLateMs (lateMs: number | null): void {
    this.#lateMs = lateMs
  }

  /** Measures lateness: ticks should be `loadTickMs` apart. */
  tick (): void {
    const now = this.#options.now()
    const lateBy = this.#tickedAt === undefined ? 0 : now - this.#tickedAt - loadTickMs
    this.#tickedAt = now
    const lateMs = this.#lateMs ?? Infinity
    if (lateBy >= lateMs) this.#lateTicks = Math.min(maxLateTicks, this.#lateTicks + 1)
    else if (lateBy < lateMs * recoveryShare) this.#lateTicks = Math.max(0, this.#lateTicks - 1)
    if (this.#lateTicks === (this.#isShedding ? 0 : maxLateTicks)) {
      this.#isShedding = !this.#isShedding
      this.#options.onChange(this.#isShedding)
    }
  }

  /** Throws a 503 for a read that is no hit while the process is overloaded. */
  rejectIfOverloaded (): void {
    if (!this.#isShedding) return
    this.#options.onShed()
    throw unavailableError('overloaded: serving cached responses only, retry later')
  }
}
