import { type UpstreamResponse, headerOf, reportsUpstreamFault } from '../api/upstream-response.js'
import { type Flaw } from './best-response.js'
import { type Upstream } from './upstream.js'
import { type FailureReason, UpstreamFailure, isInconclusive } from './upstream-failure.js'
import { type UpstreamRequest } from './upstream-request.js'
import { readRetryAfterMs } from './retry-after.js'
import { type CancelSignal } from './cancel-signal.js'

/** Inspects a response before use; undefined accepts it. */
export type InspectResponse = (response: UpstreamResponse) => Exclude<Flaw, 'unhealthy' | 'backing_off'> | undefined

/** Sends the request of an attempt to one upstream. */
export type FetchFrom = (upstream: Upstream, timeoutMs?: number) => Promise<UpstreamResponse>

/** Response of one attempt; final where it has no flaw. */
export interface InspectedResponse {
  readonly response: UpstreamResponse
  readonly flaw: Flaw | undefined
}

// Caps a probe at 7 s: with a probe a second, at most eight hang at once. The first probe gets the full timeout.
const maxProbeMs = 7000

// Reasons that concern the whole upstream, not one read.
const unreachableReasons = new Set<FailureReason>(['refused', 'unreachable', 'unresolved'])

// Statuses that another upstream may answer better; a 4xx is final.
const failoverStatuses = new Set([500, 502, 503, 504])

/** Runs requests against an upstream and records the results in its health. */
export class AttemptRunner {
  readonly #wallClockMs: () => number
  readonly #onFinished: () => void
  readonly #lastRequest = new WeakMap<Upstream, UpstreamRequest>()
  readonly #retrying = new WeakSet<Upstream>()
  readonly #probed = new WeakSet<Upstream>()

  constructor (wallClockMs: () => number, onFinished: () => void) {
    this.#wallClockMs = wallClockMs
    this.#onFinished = onFinished
  }

  /** Runs an attempt with the given way of sending. */
  run (
    upstream: Upstream,
    inspect: InspectResponse,
    timeoutMs: number | undefined,
    fetchFrom: FetchFrom
  ): Promise<InspectedResponse> {
    return this.#record(upstream, fetchFrom(upstream, timeoutMs), inspect)
  }

  /** Fetches once, and remembers the request for a retry once the circuit is open. */
  fetch (
    upstream: Upstream,
    request: UpstreamRequest,
    inspect: InspectResponse,
    timeoutMs: number | undefined,
    signal: CancelSignal | undefined
  ): Promise<InspectedResponse> {
    if (!upstream.health.isCircuitOpen) this.#lastRequest.set(upstream, request)
    return this.#record(upstream, upstream.fetch(request, timeoutMs, signal), inspect)
  }

  /** Probes the upstream; success with an open circuit also retries the last read sent before it opened. */
  async probe (upstream: Upstream, request: UpstreamRequest): Promise<UpstreamResponse> {
    const timeoutMs = this.#probed.has(upstream) ? probeTimeoutMsOf(upstream) : upstream.client.timeoutMs
    this.#probed.add(upstream)
    const { response } = await this.#record(upstream, upstream.probe(request, timeoutMs), undefined)
    if (upstream.health.isCircuitOpen) this.#retryLastRequest(upstream).catch(() => {})
    return response
  }

  /** Probes may succeed while reads fail; only a read that succeeds closes the circuit then. */
  async #retryLastRequest (upstream: Upstream): Promise<void> {
    const request = this.#lastRequest.get(upstream)
    if (request === undefined || this.#retrying.has(upstream)) return
    this.#retrying.add(upstream)
    try {
      const response = await upstream.fetch({ ...request, isProbe: true }, probeTimeoutMsOf(upstream))
      response.rest?.destroy()
      if (!reportsUpstreamFault(response) && response.stamped !== undefined) upstream.health.recordSuccess()
    } finally {
      this.#retrying.delete(upstream)
    }
  }

  async #record (
    upstream: Upstream,
    pending: Promise<UpstreamResponse>,
    inspect: InspectResponse | undefined
  ): Promise<InspectedResponse> {
    const { health } = upstream
    health.recordStart()
    try {
      const response = await pending
      const flaw = this.#findFlaw(response, inspect)
      switch (flaw) {
        case 'backing_off':
          health.backOff(
            readRetryAfterMs(headerOf(response, 'retry-after'), headerOf(response, 'date'), this.#wallClockMs())
          )
          break
        case 'unhealthy':
          health.recordFailure(`status ${response.status}`, inspect === undefined)
          break
        case 'impossible':
          health.recordFailure('impossible response')
          response.rest?.destroy()
          break
        case 'lagging':
        case 'pruned':
        case 'partial':
        case 'partial_lagging':
        case undefined:
          if (inspect === undefined) health.recordProbeSuccess()
          else health.recordSuccess()
      }
      return { response, flaw }
    } catch (error) {
      if (error instanceof UpstreamFailure && !isInconclusive(error)) {
        health.recordFailure(error.description, inspect === undefined || unreachableReasons.has(error.reason))
      }
      throw error
    } finally {
      health.recordEnd()
      this.#onFinished()
    }
  }

  #findFlaw (response: UpstreamResponse, inspect: InspectResponse | undefined): Flaw | undefined {
    if (response.status === 429) return 'backing_off'
    const found = inspect?.(response)
    return failoverStatuses.has(response.status) && found !== 'impossible' && found !== 'pruned' ? 'unhealthy' : found
  }
}

function probeTimeoutMsOf ({ client }: Upstream): number {
  return Math.min(client.timeoutMs, maxProbeMs)
}
