import { type Entry } from '../cache/entry.js'

// Long enough that what cannot be read afresh costs a node next to nothing.
const restMs = 10_000

/** Which kept renderings could not be read afresh a moment ago, so that not every hit on them asks a node in vain. */
export class Renewals {
  readonly #now: () => number
  // By the body, which an entry keeps whatever coded forms are made of it.
  readonly #failedAt = new WeakMap<Buffer, number>()

  constructor (now: () => number) {
    this.#now = now
  }

  failed ({ body }: Entry): void {
    this.#failedAt.set(body, this.#now())
  }

  isResting ({ body }: Entry): boolean {
    const failedAt = this.#failedAt.get(body)
    return failedAt !== undefined && this.#now() - failedAt < restMs
  }
}
