import { type ProxyResponse } from './warm-client.js'
import { type WarmCounts } from './warm-counts.js'

/** Reads of a run, in order. */
export interface WarmInput {
  readonly noun: string
  /** Arguments that begin the run again. */
  readonly resume: readonly string[]
  readonly items: () => AsyncGenerator<WarmItem>
  /** Sentences about what the run leaves out. */
  readonly notes: readonly string[]
  /** False if something could not be read. */
  readonly isWhole: boolean
}

/** A read of a run. */
export interface WarmItem {
  /** Resolves with undefined if the run ended before; then the read stays to do. */
  readonly fetch: () => Promise<ProxyResponse | undefined>
  /** Share of the run from 0 to 1 that is done with this read and all before it; undefined if the total is unknown. */
  readonly share: number | undefined
  /** Returns the arguments that continue behind this read; undefined if the response does not say. */
  readonly resumeAfter: (response: ProxyResponse) => readonly string[] | undefined
}

type Point = Pick<WarmJob, 'share' | 'resume'>

/** Fetches reads in order, several at a time, and knows up to which one all are done. */
export class WarmJob {
  share: number | undefined
  readonly #items: AsyncGenerator<WarmItem>
  readonly #counts: WarmCounts
  #resume: readonly string[]
  #started = 0
  #finished = 0
  // Reads that are done before an earlier one is.
  readonly #ahead = new Map<number, Point>()
  #isExhausted = false

  constructor (input: WarmInput, counts: WarmCounts) {
    this.#items = input.items()
    this.#counts = counts
    this.#resume = input.resume
  }

  /** Arguments that continue the run; undefined if nothing is left. */
  get resume (): readonly string[] | undefined {
    return this.#isExhausted && this.#finished === this.#started ? undefined : this.#resume
  }

  /** Works until nothing is left or the signal aborts. After a failure, calls `stop` and resolves with it. */
  async run (concurrency: number, signal: AbortSignal, stop: () => void): Promise<Error | undefined> {
    let failure: Error | undefined
    await Promise.all(Array.from({ length: concurrency }, async () => {
      await this.#work(signal).catch((error: unknown) => {
        failure ??= error as Error
        stop()
      })
    }))
    // The input of a failed or stopped run ends early.
    this.#isExhausted &&= failure === undefined
    return failure
  }

  async #work (signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { done, value: item } = await this.#items.next()
      if (done === true) {
        this.#isExhausted ||= !signal.aborted
        return
      }
      const nth = this.#started++
      const response = await item.fetch()
      if (response === undefined) return
      this.#counts.count(response)
      this.#finish(nth, { share: item.share, resume: item.resumeAfter(response) })
    }
  }

  #finish (nth: number, point: Point): void {
    this.#ahead.set(nth, point)
    for (let next; (next = this.#ahead.get(this.#finished)) !== undefined; this.#finished++) {
      this.#ahead.delete(this.#finished)
      this.share = next.share
      this.#resume = next.resume ?? this.#resume
    }
  }
}
