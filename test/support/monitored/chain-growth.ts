import { type Sandbox } from '#sandbox'

/** Where a chain stood at a moment, in seconds and versions. */
export interface ChainSample {
  readonly at: number
  readonly head: number
  readonly oldest: number
}

/** Has nodes grow together at an even pace, and writes down where the first of them stands. */
export class ChainGrowth {
  readonly samples: ChainSample[] = []
  readonly #nodes: readonly Sandbox[]
  readonly #everyMs: number
  #timer: NodeJS.Timeout | undefined
  readonly #writing: NodeJS.Timeout

  constructor (nodes: readonly Sandbox[], everyMs: number) {
    this.#nodes = nodes
    this.#everyMs = everyMs
    this.#writing = setInterval(() => {
      this.#write()
    }, 20)
  }

  start (): void {
    this.#timer = setInterval(() => {
      for (const { ledger } of this.#nodes) ledger.grow()
    }, this.#everyMs)
  }

  pause (): void {
    clearInterval(this.#timer)
  }

  stop (): void {
    this.pause()
    clearInterval(this.#writing)
  }

  /** The pace of a number in a span of time, as a straight line through all that was written down has it. */
  rate (of: 'head' | 'oldest', from: number, to: number): number {
    const seen = this.samples.filter(({ at }) => at >= from && at <= to)
    const meanAt = seen.reduce((sum, { at }) => sum + at, 0) / seen.length
    const mean = seen.reduce((sum, stand) => sum + stand[of], 0) / seen.length
    const over = seen.reduce((sum, stand) => sum + (stand.at - meanAt) * (stand[of] - mean), 0)
    return over / seen.reduce((sum, { at }) => sum + (at - meanAt) ** 2, 0)
  }

  #write (): void {
    const ledger = this.#nodes[0]?.ledger
    if (ledger !== undefined) {
      this.samples.push({
        at: Date.now() / 1000,
        head: Number(ledger.head.version),
        oldest: Number(ledger.oldest.version)
      })
    }
  }
}
