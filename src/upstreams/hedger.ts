import { onTimeout } from '../with-timeout.js'
import { TokenBucket, type TokenRate } from '../token-bucket.js'
import { type InspectedResponse, type Inspection } from './upstream-failure.js'
import { type Upstream } from './upstream.js'
import { type CancelSignal, CancelSource } from './upstream-request.js'

/** Results of a hedge: the second response was used, the first was, or neither was good. */
export const hedgeResults = ['won', 'lost', 'failed'] as const

/** One result of the closed list. */
export type HedgeResult = typeof hedgeResults[number]

/** Counts hedges for metrics. */
export interface HedgeMetrics {
  hedged(result: HedgeResult): void
}

/** Limits of hedging, from the configuration key `hedge`. */
export interface HedgeOptions {
  readonly share: number
  readonly burst: number
  /** Delay until an upstream's own 95th percentile is known. */
  readonly afterMs: number
}

/** Attempt on an upstream, or the error that it ended with. */
export interface AttemptResult<I extends Inspection = Inspection> {
  readonly upstream: Upstream
  readonly attempt: InspectedResponse<I> | undefined
  readonly error?: unknown
}

/** Starts the request on an upstream; the signal cancels it. */
export type StartAttempt<I extends Inspection = Inspection> = (
  upstream: Upstream,
  signal: CancelSignal
) => Promise<InspectedResponse<I>>

/** Sends a second request where the first is slower than usual, and uses the first good response. */
export class Hedger {
  // Its clock counts reads, each of which earns a share of a hedge.
  readonly #bucket = new TokenBucket()
  readonly #rate: TokenRate
  #reads = 0
  readonly #afterMs: number
  readonly #metrics: HedgeMetrics

  constructor ({ share, burst, afterMs }: HedgeOptions, metrics: HedgeMetrics) {
    this.#rate = { interval: 1 / share, burst }
    this.#afterMs = afterMs
    this.#metrics = metrics
  }

  /** Counts a read, which earns its share of a hedge. */
  earn (): void {
    this.#reads++
  }

  /** Returns the results in order of completion; the loser is cancelled once a response is good. */
  async run<I extends Inspection> (
    first: Upstream,
    findSecond: () => Upstream | undefined,
    startAttempt: StartAttempt<I>
  ): Promise<ReadonlyArray<AttemptResult<I>>> {
    const firstAttempt = new CancellableAttempt(first, startAttempt)
    const second = await this.#pickSecondWhenSlow(firstAttempt, findSecond)
    if (second === undefined) return [await firstAttempt.result]
    const secondAttempt = new CancellableAttempt(second, startAttempt, true)
    const sooner = await Promise.race([firstAttempt.result, secondAttempt.result])
    const loser = sooner.upstream === first ? secondAttempt : firstAttempt
    if (isAccepted(sooner)) {
      loser.cancel()
      this.#metrics.hedged(loser === firstAttempt ? 'won' : 'lost')
      return [sooner]
    }
    const later = await loser.result
    this.#metrics.hedged(isAccepted(later) ? (loser === secondAttempt ? 'won' : 'lost') : 'failed')
    return [sooner, later]
  }

  // Doubles the delay after each refused hedge, so that tokens go to requests that hang instead of those slightly late.
  async #pickSecondWhenSlow (
    { upstream, result }: CancellableAttempt,
    findSecond: () => Upstream | undefined
  ): Promise<Upstream | undefined> {
    for (let waitMs = Math.max(1, upstream.health.readLatency.p95 ?? this.#afterMs);; waitMs *= 2) {
      if (!await takesLongerThan(result, waitMs)) return undefined
      // A busy upstream is slow from load, which a hedge would increase. The request itself does not count.
      const second = upstream.client.limiter.isBusy(1) ? undefined : findSecond()
      if (second !== undefined && this.#bucket.take(this.#reads, this.#rate) === 0) return second
    }
  }
}

/** Attempt that can be cancelled. */
class CancellableAttempt<I extends Inspection = Inspection> {
  readonly upstream: Upstream
  /** Always resolves. */
  readonly result: Promise<AttemptResult<I>>
  readonly #cancelSource: CancelSource

  constructor (upstream: Upstream, startAttempt: StartAttempt<I>, isHedge = false) {
    this.#cancelSource = new CancelSource(isHedge)
    this.upstream = upstream
    this.result = resultOf(upstream, startAttempt(upstream, this.#cancelSource))
  }

  /** Cancels, and discards a response that arrives at the same moment. */
  cancel (): void {
    this.#cancelSource.cancel()
    this.result.then(({ attempt }) => {
      attempt?.response.rest?.destroy()
    }, () => {})
  }
}

// Runs for every read, where Promise.race would cost more.
async function takesLongerThan (result: Promise<AttemptResult>, ms: number): Promise<boolean> {
  return await new Promise(resolve => {
    const clearTimer = onTimeout(ms, () => {
      resolve(true)
    })
    result.then(() => {
      clearTimer()
      resolve(false)
    }, () => {})
  })
}

/** Turns a rejected attempt into a result. */
export async function resultOf<I extends Inspection> (
  upstream: Upstream,
  pending: Promise<InspectedResponse<I>>
): Promise<AttemptResult<I>> {
  try {
    return { upstream, attempt: await pending }
  } catch (error) {
    return { upstream, attempt: undefined, error }
  }
}

function isAccepted ({ attempt }: AttemptResult): boolean {
  return attempt !== undefined && attempt.flaw === undefined
}
