import { type Position } from '../api/position.js'
import { type Marks } from './marks.js'

const everyMs = 10_000
// A process that has just begun has little to lose, and what others have kept is known by their own marks.
const firstMs = 2000
// A node that fails now may answer soon.
const againMs = 1000

/** When blocks to know the chain by are read anew: soon after a chain was begun, then once in a while. */
export class MarkRenewal {
  readonly #marks: Marks
  readonly #now: () => number
  #dueAt: number | undefined

  constructor (marks: Marks, now: () => number) {
    this.#marks = marks
    this.#now = now
  }

  /** A chain is read from that nobody knows by anything yet. */
  begin (): void {
    this.#dueAt ??= this.#now() + firstMs
  }

  /** The chain is another one. */
  forget (): void {
    this.#dueAt = undefined
  }

  /** The head moves on, and its newest final block is one to know the chain by. */
  async renew (position: Position): Promise<void> {
    if (this.#dueAt === undefined || this.#now() < this.#dueAt) return
    this.#dueAt = this.#now() + everyMs
    if (!await this.#marks.spread(position) && this.#dueAt !== undefined) this.#dueAt = this.#now() + againMs
  }
}
