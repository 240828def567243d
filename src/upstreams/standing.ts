import { type StampedPosition } from '../api/position.js'
import { type Choice } from './route.js'

/** Where a node stands, by what it last stamped on an answer that was believed. */
export class Standing {
  readonly #now: () => number
  #stamped: StampedPosition | undefined
  #window: Choice['window']
  #furthest = -1n
  #heardAt = -Infinity

  constructor (now: () => number) {
    this.#now = now
  }

  /** Its last word; undefined where it has said nothing of the chain that is served. */
  get stamped (): StampedPosition | undefined {
    return this.#stamped
  }

  /** From where to where its history goes. */
  get window (): Choice['window'] {
    return this.#window
  }

  /** How far it has ever got: behind one address may be several. */
  get furthest (): bigint {
    return this.#furthest
  }

  /** How long ago it last said so. */
  get ageMs (): number {
    return this.#now() - this.#heardAt
  }

  /** Takes in its word. */
  learn (stamped: StampedPosition): void {
    const { head, oldest } = stamped.position
    this.#stamped = stamped
    this.#heardAt = this.#now()
    this.#window = { oldest: oldest.version, head: head.version }
    if (head.version > this.#furthest) this.#furthest = head.version
  }

  /** What it has said was of another chain. */
  forget (): void {
    this.#stamped = undefined
    this.#window = undefined
    this.#furthest = -1n
  }
}
