// Of fewer a streak of bad luck would make what is rare look usual.
const windowSize = 500
const enough = 50
// Sorting is dear beside a read, and one more time changes little.
const renewedEvery = 25

/** How long a node's last reads took. */
export class Latency {
  readonly #times = new Float64Array(windowSize)
  #count = 0
  #p95: number | undefined
  #countAtP95 = 0

  add (tookMs: number): void {
    this.#times[this.#count++ % windowSize] = tookMs
  }

  /** What all but one of twenty took no longer than; undefined until enough is known. */
  get p95 (): number | undefined {
    if (this.#count < enough) return undefined
    if (this.#p95 === undefined || this.#count - this.#countAtP95 >= renewedEvery) {
      const sorted = this.#times.slice(0, this.#count).sort()
      this.#p95 = sorted[Math.ceil(sorted.length * 0.95) - 1]
      this.#countAtP95 = this.#count
    }
    return this.#p95
  }
}
