import { type Entry } from '../cache/entry.js'

// Long enough that what cannot be read afresh costs a node next to nothing.
const refreshBackoffMs = 10_000

/** Which kept renderings could not be read afresh a moment ago, so that not every hit on them asks a node in vain. */
export class FailedRefreshes {
  readonly #now: () => number
  // By the body, which an entry keeps whatever coded forms are made of it.
  readonly #failedAtMs = new WeakMap<Buffer, number>()

  constructor (now: () => number) {
    this.#now = now
  }

  record ({ body }: Entry): void {
    this.#failedAtMs.set(body, this.#now())
  }

  isBackingOff ({ body }: Entry): boolean {
    const failedAtMs = this.#failedAtMs.get(body)
    return failedAtMs !== undefined && this.#now() - failedAtMs < refreshBackoffMs
  }
}
