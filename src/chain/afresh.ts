import { type GenerationOptions } from './generation-options.js'
import { type Own } from './hearing.js'

/**
 * A generation that an operator begins, to leave everything behind that is kept. The others may begin theirs at the
 * same time or while this replica is cut off from them, and what they keep under it may be what was meant here: so it
 * is to be one that nobody had.
 */
export class Afresh {
  readonly #options: GenerationOptions
  readonly #own: Own
  // Keyed by here, but not claimed yet.
  #number: number | undefined

  constructor (options: GenerationOptions, own: Own) {
    this.#options = options
    this.#own = own
  }

  /** Whether the others do not know of it yet. */
  get isPending (): boolean {
    return this.#number !== undefined
  }

  /** Leaves everything behind, here and at once. */
  begin (): void {
    const { tracker, control } = this.#options
    // While it is being settled which chain it is there is nothing to leave yet.
    if (tracker.chain === undefined) return
    const number = tracker.next
    if (control !== undefined) this.#number = number
    this.#own.adopt(number, this.#own.own, true)
  }

  /**
   * Takes its number for all; where somebody has it, goes on to a higher one, for which the others are looked at anew.
   */
  async claim (): Promise<void> {
    const { tracker, control } = this.#options
    // Where this process has followed the others since, its number is too low.
    if (this.#number !== tracker.generation) this.begin()
    const number = this.#number
    if (control === undefined || number === undefined || tracker.chain === undefined) return
    if (!await control.claim(tracker.chain.id, number, this.#own.own)) this.begin()
    // It may have been begun once more meanwhile.
    else if (this.#number === number) this.#number = undefined
  }
}
