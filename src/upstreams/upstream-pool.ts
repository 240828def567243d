import { compareBigInts, type Oldest } from '../api/position.js'
import { reportsUpstreamFault, type ResponseSource, type UpstreamResponse } from '../api/upstream-response.js'
import { type Hedger } from './hedger.js'
import {
  backgroundCandidates,
  type BackgroundRequirements,
  mayHaveLongerHistory,
  mayHaveVersion,
  mayHedge,
  mayStillHave,
  rankUpstreams,
  type UpstreamRequirements
} from './ranking.js'
import { type Attempt, type SendProbe, type Upstream } from './upstream.js'
import { type Flaw, type InspectResponse, isLocalFailure, UpstreamFailure } from './upstream-failure.js'
import {
  type AttemptBudget,
  type CancelSignal,
  newAttemptBudget,
  readsLike,
  type UpstreamRequest
} from './upstream-request.js'

/** Callbacks of an upstream pool. */
export interface UpstreamPoolOptions {
  /** Reports the oldest version of all upstreams that are up, after every attempt. */
  onOldest(oldest: Oldest): void
  /** Runs when every upstream is quarantined; resolves when it is known whether a quarantine ended. */
  onAllQuarantined(): Promise<void>
}

/** Response with its upstream, which the access log names. */
export type SourcedResponse = UpstreamResponse & { readonly source: ResponseSource }

/** Response that another upstream may improve on. */
export interface FlawedResponse {
  readonly response: UpstreamResponse
  readonly flaw: Flaw
  readonly upstream: Upstream
}

// Latency below which fetching is faster than asking other hosts: two round trips to Redis and the write of an entry.
const nearMs = 5

/** Sends each request to the best-ranked upstream of the configuration, and fails over to the next. */
export class UpstreamPool {
  #upstreams: readonly Upstream[] = []
  // Sends a second request when the first upstream is slow; undefined turns hedging off.
  #hedger: Hedger | undefined
  readonly #options: UpstreamPoolOptions
  #backgroundFetches = 0

  /** Starts empty: upstreams verify their chain against others of the pool, so the pool must exist before them. */
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
   * throws the failure. Sends a request that may write to one upstream only; the signal stops the search.
   */
  async fetch (
    request: UpstreamRequest,
    requirements: UpstreamRequirements,
    inspect: InspectResponse,
    signal?: CancelSignal
  ): Promise<UpstreamResponse> {
    const hedger = request.isStreamed === true ? undefined : this.#hedger
    hedger?.earn()
    if (this.#eligible.length === 0) await this.#options.onAllQuarantined()
    const search = new Search(request, requirements, inspect, signal)
    for (;;) {
      const upstream = search.rank(this.#eligible)
      if (upstream === undefined || signal?.aborted === true) break
      const results = hedger === undefined || !search.hasOthers
        ? [await search.start(upstream)]
        : await hedger.run(
          upstream,
          () => search.findHedge(this.#eligible, upstream),
          (one, hedgeSignal) => search.start(one, hedgeSignal)
        )
      this.#publishOldest()
      const best = search.take(results)
      if (best !== undefined) return best
    }
    const { flawed, failures, tried } = search
    return withSource(this.#chooseFlawed(flawed, requirements, failures), tried.length)
  }

  /** Fetches from one upstream with spare capacity, round-robin; undefined if none qualifies or responds. */
  async fetchInBackground (
    request: UpstreamRequest,
    requirements: BackgroundRequirements
  ): Promise<SourcedResponse | undefined> {
    const candidates = backgroundCandidates(this.#upstreams, requirements)
    const upstream = candidates[this.#backgroundFetches++ % candidates.length]
    return await this.#fetchAside(request, upstream === undefined ? [] : [upstream])
  }

  /** Fetches for work beside reads from one healthy upstream after another. */
  async fetchAside (
    request: UpstreamRequest,
    requirements: UpstreamRequirements
  ): Promise<SourcedResponse | undefined> {
    return await this.#fetchAside(request, rankUpstreams(this.#eligible, requirements))
  }

  /** Probes one upstream, quarantined or not; the result updates its health. */
  async probe (upstream: Upstream, request: UpstreamRequest, send?: SendProbe): Promise<UpstreamResponse> {
    try {
      return await upstream.probe(request, send)
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

  /** True unless clients need the remaining capacity of every upstream that may have a version. */
  hasRoomForBackground (version: bigint | undefined): boolean {
    return !this.#eligible.some(upstream =>
      upstream.limiter.isReservedForClients && mayHaveVersion(upstream, { version })
    )
  }

  /** True if a retry may help: an upstream has had the version, and its address may balance over several nodes. */
  mayHaveReached (version: bigint): boolean {
    const [only, ...others] = this.#upstreams
    return only !== undefined && others.length === 0 && version <= only.highestVersion
  }

  /** True if an upstream responds sooner than other hosts could report what they fetch. */
  get isNear (): boolean {
    return this.#upstreams.some(({ isUp, health }) => isUp && (health.latencyMs ?? Infinity) < nearMs)
  }

  /** True when an upstream of this name is up. */
  isUp (name: string): boolean {
    return this.#upstreams.some(upstream => upstream.isUp && upstream.name === name)
  }

  /** Drops windows and verification of every upstream, which belong to the previous chain. */
  resetChain (chainId: number | undefined): void {
    for (const upstream of this.#upstreams) upstream.resetChain(chainId)
  }

  /** Source for reading our chain: prefers a verified upstream that is up, then one whose last fetch succeeded. */
  get referenceUpstream (): Upstream | undefined {
    const eligible = this.#eligible
    return eligible.find(({ isUp, isVerified }) => isUp && isVerified) ??
      eligible.find(({ lastFetchSucceeded }) => lastFetchSucceeded) ??
      eligible[0]
  }

  get #eligible (): readonly Upstream[] {
    const isEligible = ({ quarantineReason }: Upstream): boolean => quarantineReason === undefined
    // Copies the list only for a quarantine, because every read comes here.
    return this.#upstreams.every(isEligible) ? this.#upstreams : this.#upstreams.filter(isEligible)
  }

  /** Fetches from one healthy upstream after another; returns the last fault, or undefined if none responds. */
  async #fetchAside (request: UpstreamRequest, candidates: readonly Upstream[]): Promise<SourcedResponse | undefined> {
    let fault: SourcedResponse | undefined
    for (const upstream of candidates) {
      if (!upstream.health.isHealthy) continue
      const response = await upstream.fetchAside(request)
      this.#publishOldest()
      if (response === undefined) continue
      fault?.rest?.destroy()
      fault = withSource({ response, upstream }, 1)
      if (!reportsUpstreamFault(response)) break
    }
    return fault
  }

  /**
   * Passes on an upstream fault only if every upstream got the request. Passes on "gone" only if every upstream with
   * longer history responded (law 11: "gone" is a fact, not a guess).
   */
  #chooseFlawed (
    flawed: readonly FlawedResponse[],
    requirements: UpstreamRequirements,
    failures: readonly unknown[]
  ): FlawedResponse {
    const notSent = failures.find(isLocalFailure)
    const failure = notSent ?? failures.at(-1) ?? new UpstreamFailure('every upstream', 'unreachable', undefined)
    const best = chooseBest(
      notSent === undefined ? flawed : flawed.filter(each => !isUpstreamFault(each)),
      requirements
    )
    discardBodies(flawed.filter(each => each !== best))
    if (best === undefined) throw failure
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
    for (const { isUp, stamped } of this.#upstreams) {
      const stampedOldest = isUp ? stamped?.position.oldest : undefined
      if (stampedOldest !== undefined && (oldest === undefined || stampedOldest.version < oldest.version)) {
        oldest = stampedOldest
      }
    }
    if (oldest !== undefined) this.#options.onOldest(oldest)
  }
}

/** Search for the response to one request: what was tried, and what came of it. */
class Search {
  readonly tried: Upstream[] = []
  readonly flawed: FlawedResponse[] = []
  readonly failures: unknown[] = []
  readonly #request: UpstreamRequest
  readonly #requirements: UpstreamRequirements
  readonly #inspect: InspectResponse
  readonly #signal: CancelSignal | undefined
  readonly #attempts: AttemptBudget
  #ranked: readonly Upstream[] = []

  constructor (
    request: UpstreamRequest,
    requirements: UpstreamRequirements,
    inspect: InspectResponse,
    signal: CancelSignal | undefined
  ) {
    this.#request = request
    this.#requirements = requirements
    this.#inspect = inspect
    this.#signal = signal
    this.#attempts = request.isIdempotent ? request.client?.attempts ?? newAttemptBudget() : { left: 1 }
  }

  /** Ranks again before each attempt, since an attempt may have changed windows and health; returns the best. */
  rank (eligible: readonly Upstream[]): Upstream | undefined {
    this.#ranked = this.#remaining(eligible)
    return this.#ranked[0]
  }

  /** True if there is an alternative to the best upstream. */
  get hasOthers (): boolean {
    return this.#ranked.length > 1
  }

  findHedge (eligible: readonly Upstream[], first: Upstream): Upstream | undefined {
    return this.#remaining(eligible).find(other => hasCapacity(other) && mayHedge(other, first, this.#requirements))
  }

  start (one: Upstream, signal = this.#signal): Promise<Attempt> {
    this.tried.push(one)
    this.#attempts.left--
    const isOneLeft = this.hasOthers && this.#attempts.left > 0 &&
      this.#ranked.some((other, at) => at > 0 && other !== one && isPromising(other, this.#requirements))
    return one.fetch(this.#request, this.#inspect, isOneLeft ? one.timeoutMs / 2 : undefined, signal)
  }

  /** Returns a response without a flaw, if there is one. */
  take (results: readonly Attempt[]): SourcedResponse | undefined {
    for (const attempt of results) {
      const { response, flaw } = attempt
      if (response === undefined) this.failures.push(attempt.error)
      else if (flaw === undefined) {
        discardBodies(this.flawed)
        return withSource(attempt, this.tried.length)
      } else if (flaw !== 'impossible') {
        this.#request.client?.bytes?.holdWaiting(response.body)
        this.flawed.push({ upstream: attempt.upstream, response, flaw })
      }
    }
    return undefined
  }

  #remaining (eligible: readonly Upstream[]): readonly Upstream[] {
    if (this.#attempts.left <= 0) return []
    const ranked = rankUpstreams(eligible, this.#requirements)
    // Returns the only upstream, whose choice needs no ranking.
    if (ranked.length === 1 && this.tried.length === 0) return ranked
    const untried = ranked.filter(candidate =>
      !this.tried.includes(candidate) && mayDoBetter(candidate, this.#requirements, this.flawed)
    )
    // Skips upstreams that said, within the last minute, that they serve no such reads.
    const reads = readsLike(this.#request)
    const serving = untried.filter(({ health }) => !health.isDisabled(reads))
    return serving.length > 0 || this.flawed.length > 0 ? serving : untried
  }
}

// Selects upstreams worth a second attempt, which halves the first one's timeout; one that is down would waste it.
function isPromising (upstream: Upstream, requirements: UpstreamRequirements): boolean {
  return (upstream.isUp || upstream.state === 'unknown') && upstream.health.isHealthy &&
    mayHaveVersion(upstream, requirements)
}

// Allows a hedge only to an upstream below half of its limits and with an empty queue.
function hasCapacity ({ isUp, limiter }: Upstream): boolean {
  return isUp && !limiter.isBusy()
}

function withSource (
  { response, upstream }: Pick<FlawedResponse, 'response' | 'upstream'>,
  attempts: number
): SourcedResponse {
  return Object.assign(response, { source: { upstream: upstream.name, attempts } })
}

/** True when the upstream may have pruned what was requested. */
function isMissingHistory ({ flaw }: Pick<FlawedResponse, 'flaw'>): boolean {
  return flaw === 'pruned' || flaw === 'partial' || flaw === 'partial_lagging'
}

/** True when the response reports the upstream's own trouble instead of answering the request. */
function isUpstreamFault ({ flaw }: Pick<FlawedResponse, 'flaw'>): boolean {
  return flaw === 'unhealthy' || flaw === 'backing_off'
}

/** Chooses the most informative response: a statement about the request beats one about the upstream's own state. */
export function chooseBest (
  flawed: readonly FlawedResponse[],
  { events }: Pick<UpstreamRequirements, 'events'>
): FlawedResponse | undefined {
  // Prefers a lagging response to a pruned one, because it still has some of the history.
  const lagging = flawed.find(({ flaw }) => flaw === 'lagging')
  // Believes that events from a number on are gone only from the longest history; else takes the fullest page.
  const longest = longestHistoryIn(flawed)
  const missingHistory = events !== 'last' && longest?.flaw === 'pruned' ? longest : fullestPageIn(flawed) ?? longest
  if (
    missingHistory !== undefined &&
    (lagging === undefined ||
      (missingHistory.flaw === 'partial' && lagging.response.body.length <= missingHistory.response.body.length))
  ) return missingHistory
  const others = flawed.filter(flawed => !isMissingHistory(flawed))
  return others.sort((a, b) => statusRank(a.response) - statusRank(b.response) || byHead(a.response, b.response))[0]
}

/** Finds the response of the upstream with the longest history among those that miss some. */
function longestHistoryIn (flawed: readonly FlawedResponse[]): FlawedResponse | undefined {
  const oldestOf = ({ upstream: { window } }: FlawedResponse): bigint => window?.oldest ?? 0n
  return flawed.filter(isMissingHistory).sort((a, b) =>
    compareBigInts(oldestOf(a), oldestOf(b)) || byHead(a.response, b.response)
  )[0]
}

/** Prefers the longest body, then the highest head. */
function fullestPageIn (flawed: readonly FlawedResponse[]): FlawedResponse | undefined {
  const pages = flawed.filter(({ flaw }) => flaw === 'partial' || flaw === 'partial_lagging')
  return pages.sort((a, b) => b.response.body.length - a.response.body.length || byHead(a.response, b.response))[0]
}

function statusRank ({ status }: UpstreamResponse): number {
  if (status < 400) return 0
  if (status !== 429 && status < 500) return 1
  return status === 429 ? 2 : 3
}

// Prefers the highest head, which is the least stale (law 5: a latest read is never older than its request).
function byHead (a: UpstreamResponse, b: UpstreamResponse): number {
  const [headA = -1n, headB = -1n] = [a, b].map(({ stamped }) => stamped?.position.head.version)
  return compareBigInts(headB, headA)
}

/** Frees the upstream slots of responses that no client gets. */
function discardBodies (flawed: ReadonlyArray<Pick<FlawedResponse, 'response'>>): void {
  for (const { response } of flawed) response.rest?.destroy()
}

/** After a pruned or partial response, tries only upstreams that may have more history. */
function mayDoBetter (
  candidate: Upstream,
  requirements: UpstreamRequirements,
  flawed: readonly FlawedResponse[]
): boolean {
  return flawed.every(each =>
    (each.flaw !== 'pruned' && each.flaw !== 'partial') || mayStillHave(candidate, requirements, each.upstream)
  )
}
