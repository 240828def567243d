import { type Entry } from '../cache/entry.js'

// Long enough that what cannot be read afresh costs a node next to nothing.
const restMs = 10_000

/** Which kept renderings could not be read afresh a moment ago, so that not every hit on them asks a node in vain. */
export class Renewals {
  readonly #now: () => number
  readonly #failedAt = new WeakMap<Entry, number>()

  constructor (now: () => number) {
    this.#now = now
  }

  failed (entry: Entry): void {
    this.#failedAt.set(entry, this.#now())
  }

  isResting (entry: Entry): boolean {
    const failedAt = this.#failedAt.get(entry)
    return failedAt !== undefined && this.#now() - failedAt < restMs
  }
}
