import { type Position } from '../api/position.js'

// Together the two halves are what "of late" means.
const halfMs = 150_000
// No version is as high.
const none = 2n ** 64n

/**
 * The lowest version that clients have asked for of late: by how far that is above the end of history an operator sees
 * pruning come.
 */
export class Asked {
  readonly #now: () => number
  #half = 1
  #begunAt: number
  #lowest = none
  #lowestBefore = none

  constructor (now: () => number) {
    this.#now = now
    this.#begunAt = now()
  }

  /** A number for the half that runs: who has told of a version in it need not tell of it again. */
  get half (): number {
    return this.#half
  }

  /**
   * Somebody asks for this version; below the window there is nothing left to fall out of it, and where that lies is
   * not known before a position is.
   */
  note (version: bigint, position: Position | undefined): void {
    if (version < this.#lowest && position !== undefined && version >= position.oldest.version) this.#lowest = version
  }

  /** Begins another half where one is over. */
  tick (): void {
    const halves = Math.floor((this.#now() - this.#begunAt) / halfMs)
    if (halves === 0) return
    this.#lowestBefore = halves === 1 ? this.#lowest : none
    this.#lowest = none
    this.#begunAt += halves * halfMs
    this.#half++
  }

  /** Versions of another chain mean nothing on this one. */
  forget (): void {
    this.#lowest = this.#lowestBefore = none
    this.#half++
  }

  /** The lowest in a window: its end where the lowest has left it meanwhile, its head where nobody asked for less. */
  within ({ head, oldest }: Position): bigint {
    this.tick()
    const lowest = this.#lowest < this.#lowestBefore ? this.#lowest : this.#lowestBefore
    return lowest < oldest.version ? oldest.version : lowest > head.version ? head.version : lowest
  }
}
