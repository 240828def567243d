import { type Position } from '../api/position.js'

// Requests of the last 150 to 300 seconds count: this half period and the last one.
const halfPeriodMs = 150_000
// Exceeds every u64.
const noVersion = 2n ** 64n

/**
 * Lowest version that clients requested recently; its distance from the oldest version warns operators before pruning
 * causes 410s.
 */
export class LowestRecentRequest {
  readonly #now: () => number
  #half = 1
  #halfStartedAtMs: number
  #lowest = noVersion
  #lowestInLastHalf = noVersion

  constructor (now: () => number) {
    this.#now = now
    this.#halfStartedAtMs = now()
  }

  /** Number of the current half period: a version recorded in it need not be recorded again. */
  get half (): number {
    return this.#half
  }

  /** Records a requested version; versions below the window are already pruned, so they do not count. */
  record (version: bigint, position: Position | undefined): void {
    if (version < this.#lowest && position !== undefined && version >= position.oldest.version) this.#lowest = version
  }

  /** Begins a new half period once the current one has ended. */
  rotate (): void {
    const halves = Math.floor((this.#now() - this.#halfStartedAtMs) / halfPeriodMs)
    if (halves === 0) return
    this.#lowestInLastHalf = halves === 1 ? this.#lowest : noVersion
    this.#lowest = noVersion
    this.#halfStartedAtMs += halves * halfPeriodMs
    this.#half++
  }

  /** Drops all versions, because they belong to another chain. */
  clear (): void {
    this.#lowest = this.#lowestInLastHalf = noVersion
    this.#half++
  }

  /** Clamps the lowest requested version to the window; the head where nothing lower was requested. */
  valueIn ({ head, oldest }: Position): bigint {
    this.rotate()
    const lowest = this.#lowest < this.#lowestInLastHalf ? this.#lowest : this.#lowestInLastHalf
    return lowest < oldest.version ? oldest.version : lowest > head.version ? head.version : lowest
  }
}
