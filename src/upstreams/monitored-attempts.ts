import { type UpstreamResponse, headerOf, reportsUpstreamFault } from '../api/upstream-response.js'
import { type Span } from '../tracing/span.js'
import { type Flaw } from './best-response.js'
import { pollTimeoutMs } from './polling-policy.js'
import { type Upstream } from './upstream.js'
import { type FailureReason, UpstreamFailure, isInconclusive } from './upstream-failure.js'
import { type UpstreamRequest } from './upstream-request.js'
import { readRetryAfterMs } from './retry-after.js'
import { type CancelSignal } from './cancel-signal.js'

/** Result of inspecting a response; no flaw accepts it. Callers extend it with what they found. */
export interface Inspection {
  readonly flaw: Exclude<Flaw, 'unhealthy' | 'backing_off'> | undefined
}

/** Inspects a response before use. */
export type InspectResponse<I extends Inspection = Inspection> = (response: UpstreamResponse) => I

/** Sends the request of an attempt to one upstream. */
export type FetchFrom = (upstream: Upstream, timeoutMs?: number) => Promise<UpstreamResponse>

/** Response of one attempt; final where it has no flaw. A 429 is not inspected. */
export interface InspectedResponse<I extends Inspection = Inspection> {
  readonly response: UpstreamResponse
  readonly flaw: Flaw | undefined
  readonly inspection: I | undefined
}

/** Response that was accepted, or is the best of those with flaws. */
export type FetchedResponse<I extends Inspection> = Pick<InspectedResponse<I>, 'response' | 'inspection'>

// Reasons that concern the whole upstream, not one read.
const unreachableReasons = new Set<FailureReason>(['refused', 'unreachable', 'unresolved'])

// Statuses that another upstream may answer better; a 4xx is final.
const failoverStatuses = new Set([500, 502, 503, 504])

/** Runs requests against an upstream and records the results in its health. */
export class MonitoredAttempts {
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
  run<I extends Inspection> (
    upstream: Upstream,
    inspect: InspectResponse<I>,
    timeoutMs: number | undefined,
    fetchFrom: FetchFrom,
    span?: Span
  ): Promise<InspectedResponse<I>> {
    return traceAttempt(
      span,
      upstream.client.name,
      false,
      () => this.#record(upstream, fetchFrom(upstream, timeoutMs), inspect)
    )
  }

  /** Fetches once, and remembers the request for a retry once the circuit is open. */
  fetch<I extends Inspection> (
    upstream: Upstream,
    request: UpstreamRequest,
    inspect: InspectResponse<I>,
    timeoutMs: number | undefined,
    signal: CancelSignal | undefined
  ): Promise<InspectedResponse<I>> {
    if (!upstream.health.isCircuitOpen) this.#lastRequest.set(upstream, request)
    return traceAttempt(
      request.span,
      upstream.client.name,
      signal?.isHedge === true,
      () => this.#record(upstream, upstream.fetch(request, timeoutMs, signal), inspect)
    )
  }

  /**
   * Fetches for work beside reads from one healthy upstream after another; returns the last fault, or undefined where
   * none responds. Failures say nothing about the circuit of reads; a 429 concerns every request.
   */
  async fetchAside (upstreams: readonly Upstream[], request: UpstreamRequest): Promise<UpstreamResponse | undefined> {
    let fault: UpstreamResponse | undefined
    for (const upstream of upstreams) {
      if (!upstream.health.isHealthy) continue
      const response = await upstream.fetchAside(request).catch(() => undefined)
      this.#onFinished()
      if (response === undefined) continue
      if (response.status === 429) this.#backOff(upstream, response)
      fault?.rest?.destroy()
      if (!reportsUpstreamFault(response)) return response
      fault = response
    }
    return fault
  }

  /** Probes the upstream; success with an open circuit also retries the last read sent before it opened. */
  async probe (upstream: Upstream, request: UpstreamRequest): Promise<UpstreamResponse> {
    const timeoutMs = pollTimeoutMs(upstream.client.timeoutMs, !this.#probed.has(upstream))
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
      const response = await upstream.fetch({ ...request, isProbe: true }, pollTimeoutMs(upstream.client.timeoutMs))
      response.rest?.destroy()
      if (!reportsUpstreamFault(response) && response.stamped !== undefined) upstream.health.recordSuccess()
    } finally {
      this.#retrying.delete(upstream)
    }
  }

  #backOff ({ health }: Upstream, response: UpstreamResponse): void {
    health.backOff(readRetryAfterMs(headerOf(response, 'retry-after'), headerOf(response, 'date'), this.#wallClockMs()))
  }

  async #record<I extends Inspection> (
    upstream: Upstream,
    pending: Promise<UpstreamResponse>,
    inspect: InspectResponse<I> | undefined
  ): Promise<InspectedResponse<I>> {
    const { health } = upstream
    health.recordStart()
    try {
      const response = await pending
      const inspection = response.status === 429 ? undefined : inspect?.(response)
      const flaw = flawOf(response, inspection)
      switch (flaw) {
        case 'backing_off':
          this.#backOff(upstream, response)
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
      return { response, flaw, inspection }
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
}

function flawOf ({ status }: UpstreamResponse, inspection: Inspection | undefined): Flaw | undefined {
  if (status === 429) return 'backing_off'
  const flaw = inspection?.flaw
  return failoverStatuses.has(status) && flaw !== 'impossible' && flaw !== 'pruned' ? 'unhealthy' : flaw
}

/** Adds to a response who sent it, for the access log. */
export function withSource<I extends Inspection> (
  { response, inspection }: FetchedResponse<I>,
  { client }: Upstream,
  attempts: number
): FetchedResponse<I> {
  return { response: { ...response, source: { upstream: client.name, attempts } }, inspection }
}

/** Runs an attempt within a span of a traced request; others cost nothing. */
function traceAttempt<I extends Inspection> (
  span: Span | undefined,
  upstream: string,
  isHedge: boolean,
  run: () => Promise<InspectedResponse<I>>
): Promise<InspectedResponse<I>> {
  if (span === undefined) return run()
  return span.child(isHedge ? 'hedge' : 'attempt', { 'varve.upstream': upstream }, 'client').run(
    run,
    ({ response, flaw }) => ({ 'http.response.status_code': response.status, 'varve.flaw': flaw })
  )
}
