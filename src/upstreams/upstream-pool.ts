import { type Oldest } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import {
  MonitoredAttempts,
  type FetchedResponse,
  type FetchFrom,
  type InspectedResponse,
  type Inspection,
  type InspectResponse,
  withSource
} from './monitored-attempts.js'
import {
  chooseBest,
  discardBodies,
  type FlawedResponse,
  isMissingHistory,
  isUpstreamFault,
  longestHistoryIn,
  mayDoBetter
} from './best-response.js'
import { type Hedger, resultOf } from './hedger.js'
import { type Upstream } from './upstream.js'
import { chooseFetchError, UpstreamFailure, isLocalFailure } from './upstream-failure.js'
import { type AttemptBudget, newAttemptBudget, type UpstreamRequest } from './upstream-request.js'
import { rankUpstreams, mayHedge, mayHaveVersion, mayHaveLongerHistory, type UpstreamRequirements } from './ranking.js'
import { type BackgroundRequirements, backgroundCandidates, type BackgroundResponse } from './background-candidates.js'
import { type CancelSignal } from './cancel-signal.js'

/** Clock and callbacks of an upstream pool. */
export interface UpstreamPoolOptions {
  readonly wallClockMs: () => number
  /** Reports the oldest version of all upstreams that are up, after every attempt. */
  onOldest(oldest: Oldest): void
  /** Runs when every upstream is quarantined; resolves when it is known whether a quarantine ended. */
  onAllQuarantined(): Promise<void>
}

type RunAttempt<I extends Inspection> = (
  upstream: Upstream,
  timeoutMs: number | undefined,
  signal?: CancelSignal
) => Promise<InspectedResponse<I>>

type FlawedAttempt<I extends Inspection> = FlawedResponse & InspectedResponse<I>

/** Sends each request to the best-ranked upstream of the configuration, and fails over to the next. */
export class UpstreamPool {
  #upstreams: readonly Upstream[] = []
  // Sends a second request when the first upstream is slow; undefined turns hedging off.
  #hedger: Hedger | undefined
  readonly #options: UpstreamPoolOptions
  readonly #attempts: MonitoredAttempts
  #backgroundFetches = 0

  /** Starts empty: upstreams verify their chain against others of the pool, so the pool exists first. */
  constructor (options: UpstreamPoolOptions) {
    this.#options = options
    this.#attempts = new MonitoredAttempts(options.wallClockMs, () => {
      this.#publishOldest()
    })
  }

  /** Lists every upstream in the order of the configuration. */
  get upstreams (): readonly Upstream[] {
    return this.#upstreams
  }

  /** Replaces the upstreams for new requests; requests in flight end on the upstream that has them. */
  replaceUpstreams (upstreams: readonly Upstream[], hedger: Hedger | undefined): void {
    this.#upstreams = upstreams
    this.#hedger = hedger
  }

  /**
   * Fetches from one upstream after another until a response has no flaw; else returns the best flawed response, or
   * throws the failure.
   */
  fetch<I extends Inspection> (
    request: UpstreamRequest,
    requirements: UpstreamRequirements,
    inspect: InspectResponse<I>
  ): Promise<FetchedResponse<I>> {
    const hedger = this.#hedger
    hedger?.earn()
    return this.#fetchWithFailover(
      requirements,
      request.attempts,
      (upstream, timeoutMs, signal) => this.#attempts.fetch(upstream, request, inspect, timeoutMs, signal),
      hedger
    )
  }

  /**
   * Streams the body instead of buffering it. Fails over only before the first byte, and only for idempotent requests.
   */
  async forward<I extends Inspection> (
    request: UpstreamRequest,
    requirements: UpstreamRequirements,
    inspect: InspectResponse<I>,
    signal: AbortSignal
  ): Promise<FetchedResponse<I>> {
    const forwardTo: FetchFrom = (upstream, timeoutMs) => upstream.forward(request, signal, timeoutMs)
    const runAttempt: RunAttempt<I> = (upstream, timeoutMs) =>
      this.#attempts.run(upstream, inspect, timeoutMs, forwardTo, request.span)
    return request.isIdempotent
      ? await this.#fetchWithFailover(requirements, request.attempts, runAttempt, undefined, signal)
      : await this.#fetchOnce(requirements, runAttempt)
  }

  /**
   * Tries one upstream with spare capacity, round-robin; undefined where none qualifies, the attempt fails or the
   * response is flawed.
   */
  async fetchInBackground (
    request: UpstreamRequest,
    backgroundRequirements: BackgroundRequirements,
    inspect: InspectResponse
  ): Promise<BackgroundResponse | undefined> {
    const candidates = backgroundCandidates(this.#upstreams, backgroundRequirements)
    const upstream = candidates[this.#backgroundFetches++ % candidates.length]
    const attempt = upstream &&
      await this.#attempts.fetch(upstream, request, inspect, undefined, undefined).catch(() => undefined)
    if (upstream === undefined || attempt === undefined) return undefined
    if (attempt.flaw === undefined) return { upstream: upstream.client.name, response: attempt.response }
    attempt.response.rest?.destroy()
    return undefined
  }

  /**
   * Fetches for work beside reads, whose failures do not count toward the circuit of reads; undefined where no upstream
   * responds.
   */
  async fetchAside (
    request: UpstreamRequest,
    requirements: UpstreamRequirements
  ): Promise<UpstreamResponse | undefined> {
    return await this.#attempts.fetchAside(rankUpstreams(this.#eligible, requirements), request)
  }

  /** Probes one upstream, quarantined or not; the result updates its health. */
  async probe (upstream: Upstream, request: UpstreamRequest): Promise<UpstreamResponse> {
    return await this.#attempts.probe(upstream, request)
  }

  /**
   * Requires every eligible upstream to have stamped a window above the version (law 11: "gone" is a fact, not a
   * guess).
   */
  isPrunedEverywhere (version: bigint): boolean {
    return this.#eligible.length > 0 &&
      this.#eligible.every(({ window }) => window !== undefined && version < window.oldest)
  }

  /** True when a retry may help: one address may balance over several nodes, and one has had the version. */
  mayHaveReached (version: bigint): boolean {
    const [only, ...others] = this.#upstreams
    return only !== undefined && others.length === 0 && version <= only.windowTracker.highestVersion
  }

  /** True when an upstream of this name is up. */
  isUp (name: string): boolean {
    return this.#upstreams.some(({ isUp, client }) => isUp && client.name === name)
  }

  /** Drops windows and verification of every upstream, which belong to the previous chain. */
  resetChain (chainId: number | undefined): void {
    for (const upstream of this.#upstreams) upstream.resetChain(chainId)
  }

  /** Source for reading our chain: prefers a verified upstream that is up, then one whose last fetch succeeded. */
  get referenceUpstream (): Upstream | undefined {
    const eligible = this.#eligible
    return eligible.find(({ isUp, isVerified }) => isUp && isVerified) ??
      eligible.find(({ client }) => client.lastFetchSucceeded) ??
      eligible[0]
  }

  get #eligible (): Upstream[] {
    return this.#upstreams.filter(({ quarantineReason }) => quarantineReason === undefined)
  }

  async #fetchOnce<I extends Inspection> (
    requirements: UpstreamRequirements,
    runAttempt: RunAttempt<I>
  ): Promise<FetchedResponse<I>> {
    if (this.#eligible.length === 0) await this.#options.onAllQuarantined()
    const [first] = rankUpstreams(this.#eligible, requirements)
    const attempt = first && await runAttempt(first, undefined)
    if (first !== undefined && attempt !== undefined && attempt.flaw !== 'impossible') {
      return withSource(attempt, first, 1)
    }
    throw chooseFetchError(attempt?.inspection, new UpstreamFailure('every upstream', 'unreachable', undefined))
  }

  async #fetchWithFailover<I extends Inspection> (
    requirements: UpstreamRequirements,
    attempts: AttemptBudget = newAttemptBudget(),
    runAttempt: RunAttempt<I>,
    hedger: Hedger | undefined,
    signal?: AbortSignal
  ): Promise<FetchedResponse<I>> {
    if (this.#eligible.length === 0) await this.#options.onAllQuarantined()
    const tried = new Set<Upstream>()
    const flawed: Array<FlawedAttempt<I>> = []
    const failures: unknown[] = []
    let impossible: I | undefined
    // Ranks again before each attempt, since an attempt may have changed windows and health.
    const remaining = (): Upstream[] =>
      attempts.left <= 0
        ? []
        : rankUpstreams(this.#eligible, requirements).filter(candidate =>
          !tried.has(candidate) && mayDoBetter(candidate, requirements, flawed)
        )
    for (;;) {
      const [upstream, ...others] = remaining()
      if (upstream === undefined || signal?.aborted === true) break
      const startAttempt = (one: Upstream, hedgeSignal?: CancelSignal): Promise<InspectedResponse<I>> => {
        tried.add(one)
        attempts.left--
        return runAttempt(
          one,
          others.some(other => other !== one && isPromising(other, requirements))
            ? one.client.timeoutMs / 2
            : undefined,
          hedgeSignal
        )
      }
      const results = hedger === undefined || others.length === 0
        ? [await resultOf(upstream, startAttempt(upstream))]
        : await hedger.run(
          upstream,
          () => remaining().find(other => hasCapacity(other) && mayHedge(other, upstream, requirements)),
          startAttempt
        )
      for (const { upstream: one, attempt, error } of results) {
        if (attempt === undefined) failures.push(error)
        else if (attempt.flaw === undefined) {
          discardBodies(flawed)
          return withSource(attempt, one, tried.size)
        } else if (attempt.flaw === 'impossible') impossible = attempt.inspection
        else flawed.push({ ...attempt, flaw: attempt.flaw, upstream: one })
      }
    }
    const best = this.#chooseFlawed(flawed, requirements, failures, impossible)
    return withSource(best, best.upstream, tried.size)
  }

  /**
   * Passes on upstream faults only if every upstream got the request. Passes on "gone" only if none with longer history
   * was silent (law 11: "gone" is a fact, not a guess).
   */
  #chooseFlawed<I extends Inspection> (
    flawed: ReadonlyArray<FlawedAttempt<I>>,
    requirements: UpstreamRequirements,
    failures: readonly unknown[],
    impossible: I | undefined
  ): FlawedAttempt<I> {
    const notSent = failures.find(isLocalFailure)
    const failure = notSent ?? failures.at(-1) ?? new UpstreamFailure('every upstream', 'unreachable', undefined)
    const best = chooseBest(
      notSent === undefined ? flawed : flawed.filter(each => !isUpstreamFault(each)),
      requirements
    )
    discardBodies(flawed.filter(each => each !== best))
    if (best === undefined) throw chooseFetchError(impossible, failure)
    const longest = isMissingHistory(best) ? longestHistoryIn(flawed) : undefined
    const hasReported = (upstream: Upstream): boolean =>
      flawed.some(each => each.upstream === upstream && (isMissingHistory(each) || each.flaw === 'lagging'))
    if (
      longest === undefined ||
      !this.#eligible.some(upstream =>
        !hasReported(upstream) && mayHaveLongerHistory(upstream, requirements, longest.upstream)
      )
    ) return best
    discardBodies([best])
    throw failure
  }

  #publishOldest (): void {
    let oldest: Oldest | undefined
    for (const { isUp, windowTracker } of this.#upstreams) {
      const stampedOldest = isUp ? windowTracker.stamped?.position.oldest : undefined
      if (stampedOldest !== undefined && (oldest === undefined || stampedOldest.version < oldest.version)) {
        oldest = stampedOldest
      }
    }
    if (oldest !== undefined) this.#options.onOldest(oldest)
  }
}

// Selects upstreams worth halving the timeout for; waiting for one that is down would only waste the time.
function isPromising (upstream: Upstream, requirements: UpstreamRequirements): boolean {
  return (upstream.isUp || upstream.isUnknown) && upstream.health.isHealthy && mayHaveVersion(upstream, requirements)
}

// A hedge goes only to an upstream below half of its limits and with an empty queue.
function hasCapacity ({ isUp, client: { limiter } }: Upstream): boolean {
  return isUp && !limiter.isBusy()
}
