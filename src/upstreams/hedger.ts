import { onTimeout } from '../with-timeout.js'
import { TokenBucket, type TokenRate } from '../token-bucket.js'
import { type Attempt, type Upstream } from './upstream.js'
import { type CancelSignal, CancelSource } from './upstream-request.js'

/** Results of a hedge: the second response was used, the first was, or neither was good. */
export const hedgeResults = ['won', 'lost', 'failed'] as const

/** Result of a hedge. */
export type HedgeResult = typeof hedgeResults[number]

/** Counts hedges for metrics. */
export interface HedgeMetrics {
  hedged(result: HedgeResult): void
}

/** Limits of hedging; `afterMs` is the delay until an upstream's own 95th percentile is known. */
export type HedgeOptions = Readonly<Record<'share' | 'afterMs', number>>

// Hedges that a process may send at once, beyond their share of reads.
const hedgeBurst = 10

/** Starts the request on an upstream; the signal cancels it. Never rejects. */
export type StartAttempt = (upstream: Upstream, signal: CancelSignal) => Promise<Attempt>

/** Sends a second request if the first is slower than usual, and uses the first good response. */
export class Hedger {
  // Its clock is the number of reads: each earns `share` of a hedge.
  readonly #bucket = new TokenBucket()
  readonly #rate: TokenRate
  #reads = 0
  readonly #afterMs: number
  readonly #metrics: HedgeMetrics

  constructor ({ share, afterMs }: HedgeOptions, metrics: HedgeMetrics) {
    this.#rate = { interval: 1 / share, burst: hedgeBurst }
    this.#afterMs = afterMs
    this.#metrics = metrics
  }

  /** Counts a read, which earns its share of a hedge. */
  earn (): void {
    this.#reads++
  }

  /** Returns the attempts in order of completion; the loser is cancelled once a response is good. */
  async run (
    first: Upstream,
    findSecond: () => Upstream | undefined,
    startAttempt: StartAttempt
  ): Promise<readonly Attempt[]> {
    const firstSource = new CancelSource()
    const firstAttempt = startAttempt(first, firstSource)
    const second = await this.#pickSecondWhenSlow(first, firstAttempt, findSecond)
    if (second === undefined) return [await firstAttempt]
    const secondSource = new CancelSource(true)
    const secondAttempt = startAttempt(second, secondSource)
    const sooner = await Promise.race([firstAttempt, secondAttempt])
    const isFirst = sooner.upstream === first
    const loser = isFirst ? secondAttempt : firstAttempt
    if (isAccepted(sooner)) {
      const source = isFirst ? secondSource : firstSource
      source.cancel()
      // Destroys a loser's response, which may have arrived at the same moment.
      loser.then(({ response }) => response?.rest?.destroy(), () => {})
      this.#metrics.hedged(isFirst ? 'lost' : 'won')
      return [sooner]
    }
    const later = await loser
    this.#metrics.hedged(isAccepted(later) ? (isFirst ? 'won' : 'lost') : 'failed')
    return [sooner, later]
  }

  // Doubles the delay after each refused hedge, so that tokens go to requests that hang, not to slightly late ones.
  async #pickSecondWhenSlow (
    upstream: Upstream,
    attempt: Promise<Attempt>,
    findSecond: () => Upstream | undefined
  ): Promise<Upstream | undefined> {
    for (let waitMs = Math.max(1, upstream.health.readLatency.p95 ?? this.#afterMs);; waitMs *= 2) {
      if (!await takesLongerThan(attempt, waitMs)) return undefined
      // Sends no hedge if the upstream is busy: load makes it slow, and a hedge would add to the load. The request
      // itself does not count.
      const second = upstream.limiter.isBusy(1) ? undefined : findSecond()
      if (second !== undefined && this.#bucket.take(this.#reads, this.#rate) === 0) return second
    }
  }
}

// Resolves by hand, because Promise.race would cost more and every read comes here.
async function takesLongerThan (attempt: Promise<Attempt>, ms: number): Promise<boolean> {
  return await new Promise(resolve => {
    const clearTimer = onTimeout(ms, () => resolve(true))
    attempt.finally(() => {
      clearTimer()
      resolve(false)
    }).catch(() => {})
  })
}

function isAccepted ({ response, flaw }: Attempt): boolean {
  return response !== undefined && flaw === undefined
}
