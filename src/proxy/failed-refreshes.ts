import { type Entry } from '../cache/entry.js'

// Makes repeated failures of a refresh almost free for the upstream.
const refreshBackoffMs = 10_000

/** Records failed refreshes, so that not every hit on a retired rendering repeats the fetch. */
export class FailedRefreshes {
  readonly #now: () => number
  // Keys by body: a new compressed form replaces the entry object, but not its body.
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
