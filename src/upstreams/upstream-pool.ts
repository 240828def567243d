import { type Oldest } from '../api/position.js'
import { reportsUpstreamFault, type UpstreamResponse } from '../api/upstream-response.js'
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
import {
  backgroundCandidates,
  type BackgroundRequirements,
  type BackgroundResponse,
  mayHaveLongerHistory,
  mayHaveVersion,
  mayHedge,
  rankUpstreams,
  type UpstreamRequirements
} from './ranking.js'
import { type Upstream } from './upstream.js'
import {
  chooseFetchError,
  isLocalFailure,
  UpstreamFailure,
  type FetchedResponse,
  type InspectedResponse,
  type Inspection,
  type InspectResponse
} from './upstream-failure.js'
import { type AttemptBudget, type CancelSignal, newAttemptBudget, type UpstreamRequest } from './upstream-request.js'

/** Callbacks of an upstream pool. */
export interface UpstreamPoolOptions {
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
  #backgroundFetches = 0

  /** Starts empty: upstreams verify their chain against others of the pool, so the pool exists first. */
  constructor (options: UpstreamPoolOptions) {
    this.#options = options
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
      (upstream, timeoutMs, signal) => upstream.fetch(request, inspect, timeoutMs, signal),
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
    const runAttempt: RunAttempt<I> = (upstream, timeoutMs) => upstream.forward(request, inspect, signal, timeoutMs)
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
    const attempt = await upstream?.fetch(request, inspect).catch(() => undefined)
    this.#publishOldest()
    if (upstream === undefined || attempt === undefined) return undefined
    if (attempt.flaw === undefined) return { upstream: upstream.client.name, response: attempt.response }
    attempt.response.rest?.destroy()
    return undefined
  }

  /**
   * Fetches for work beside reads from one healthy upstream after another; returns the last fault, or undefined where
   * none responds.
   */
  async fetchAside (
    request: UpstreamRequest,
    requirements: UpstreamRequirements
  ): Promise<UpstreamResponse | undefined> {
    let fault: UpstreamResponse | undefined
    for (const upstream of rankUpstreams(this.#eligible, requirements)) {
      if (!upstream.health.isHealthy) continue
      const response = await upstream.fetchAside(request)
      this.#publishOldest()
      if (response === undefined) continue
      fault?.rest?.destroy()
      if (!reportsUpstreamFault(response)) return response
      fault = response
    }
    return fault
  }

  /** Probes one upstream, quarantined or not; the result updates its health. */
  async probe (upstream: Upstream, request: UpstreamRequest): Promise<UpstreamResponse> {
    try {
      return await upstream.probe(request)
    } finally {
      this.#publishOldest()
    }
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
    const { attempt, error } = first === undefined
      ? { attempt: undefined, error: new UpstreamFailure('every upstream', 'unreachable', undefined) }
      : await resultOf(first, runAttempt(first, undefined))
    this.#publishOldest()
    if (first !== undefined && attempt !== undefined && attempt.flaw !== 'impossible') {
      return withSource(attempt, first, 1)
    }
    throw chooseFetchError(attempt?.inspection, error)
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
      this.#publishOldest()
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
  return (upstream.isUp || upstream.state === 'unknown') && upstream.health.isHealthy &&
    mayHaveVersion(upstream, requirements)
}

// A hedge goes only to an upstream below half of its limits and with an empty queue.
function hasCapacity ({ isUp, client: { limiter } }: Upstream): boolean {
  return isUp && !limiter.isBusy()
}

/** Adds to a response who sent it, for the access log. */
function withSource<I extends Inspection> (
  { response, inspection }: FetchedResponse<I>,
  { client }: Upstream,
  attempts: number
): FetchedResponse<I> {
  return { response: { ...response, source: { upstream: client.name, attempts } }, inspection }
}
