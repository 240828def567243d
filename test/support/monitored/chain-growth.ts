import { type Sandbox } from '#sandbox'

/** Head of a chain at a time, in seconds and versions. */
export interface ChainSample {
  readonly at: number
  readonly head: number
  readonly oldest: number
}

/** Grows nodes together at an even pace and records the head of the first one. */
export class ChainGrowth {
  readonly samples: ChainSample[] = []
  readonly #upstreams: readonly Sandbox[]
  readonly #everyMs: number
  #timer: NodeJS.Timeout | undefined
  readonly #writing: NodeJS.Timeout

  constructor (upstreams: readonly Sandbox[], everyMs: number) {
    this.#upstreams = upstreams
    this.#everyMs = everyMs
    this.#writing = setInterval(() => {
      this.#write()
    }, 20)
  }

  start (): void {
    this.#timer = setInterval(() => {
      for (const { ledger } of this.#upstreams) ledger.grow()
    }, this.#everyMs)
  }

  pause (): void {
    clearInterval(this.#timer)
  }

  stop (): void {
    this.pause()
    clearInterval(this.#writing)
  }

  /** Returns the growth rate of a number in a time span, as linear regression over the samples. */
  rate (of: 'head' | 'oldest', from: number, to: number): number {
    const seen = this.samples.filter(({ at }) => at >= from && at <= to)
    const meanAt = seen.reduce((sum, { at }) => sum + at, 0) / seen.length
    const mean = seen.reduce((sum, stand) => sum + stand[of], 0) / seen.length
    const over = seen.reduce((sum, stand) => sum + (stand.at - meanAt) * (stand[of] - mean), 0)
    return over / seen.reduce((sum, { at }) => sum + (at - meanAt) ** 2, 0)
  }

  #write (): void {
    const ledger = this.#upstreams[0]?.ledger
    if (ledger !== undefined) {
      this.samples.push({
        at: Date.now() / 1000,
        head: Number(ledger.head.version),
        oldest: Number(ledger.oldest.version)
      })
    }
  }
}
