// Keeps 500 samples; below 50, a few slow reads would distort the percentile.
const maxSamples = 500
const minSamples = 50
// Sorting costs much beside a read, and one more sample changes little.
const recomputeEvery = 25

/** Sliding window of read latencies. */
export class Latency {
  readonly #samplesMs = new Float64Array(maxSamples)
  #count = 0
  #p95: number | undefined
  #countAtP95 = 0

  add (tookMs: number): void {
    this.#samplesMs[this.#count++ % maxSamples] = tookMs
  }

  /** 95th percentile; undefined below 50 samples. */
  get p95 (): number | undefined {
    if (this.#count < minSamples) return undefined
    if (this.#p95 === undefined || this.#count - this.#countAtP95 >= recomputeEvery) {
      const sorted = this.#samplesMs.slice(0, this.#count).sort()
      this.#p95 = sorted[Math.ceil(sorted.length * 0.95) - 1]
      this.#countAtP95 = this.#count
    }
    return this.#p95
  }
}
