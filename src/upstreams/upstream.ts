import { type ResponseHeaders, PositionReader, type ResponsePosition } from '../api/position.js'
import { headerOf, reportsUpstreamFault, type UpstreamResponse } from '../api/upstream-response.js'
import { onTimeout, withTimeout } from '../with-timeout.js'
import { type ChainGuard, type QuarantineReason, UnprovenPositionError } from './chain-guard.js'
import { ConnectionPool, type UpstreamConnectionOptions } from './connection-pool.js'
import { bytesOf, Exchange, isFramed, isTransferCoded, type ReceivedResponse } from './exchange.js'
import { Health, readRetryAfterMs, readUnitsLeft } from './health.js'
import { pollTimeoutMs } from './polling-policy.js'
import {
  type FailureReason,
  isInconclusive,
  UpstreamFailure,
  type Flaw,
  flawOf,
  type InspectResponse
} from './upstream-failure.js'
import { type SharedLimits, type TokenSource, type UnitBudget, unitCostOf } from './shared-rate.js'
import { NoSlotError, UpstreamLimiter } from './upstream-limiter.js'
import { type CancelSignal, readsLike, type UpstreamRequest } from './upstream-request.js'

/** Closed list of upstream states, as in /status.json and the label `state` of varve_upstream_state. */
export const upstreamStates = ['unknown', 'up', 'backing_off', 'down', 'quarantined'] as const

/** State of an upstream. */
export type UpstreamState = typeof upstreamStates[number]

/** Sends a probe, from this process or another one. */
export type SendProbe = (upstream: Upstream, request: UpstreamRequest, timeoutMs: number) => Promise<UpstreamResponse>

/** Versions that an upstream has, first and last. */
export interface VersionWindow {
  readonly oldest: bigint
  readonly head: bigint
}

/** Settings of one upstream. */
export interface UpstreamOptions extends UpstreamConnectionOptions {
  readonly name: string
  /** Stores history although a gateway in front of the node sends `no-store`. */
  readonly ignoreCacheControl?: boolean
  readonly requestsPerSecond?: number | null
  readonly budget?: UnitBudget | null
  readonly shared?: SharedLimits
  /** False for a timestamp that no chain can have reached; its position is not believed. */
  readonly acceptsTimestamp?: (timestampUsec: bigint) => boolean
  /** Ledger time behind the newest upstream from which it counts as lagging. */
  readonly maxLagSeconds: number
  /** Higher numbers get reads only while no lower one can answer. */
  readonly priority: number
  /** Weight by which upstreams of one priority share the reads in flight. */
  readonly weight: number
  /** Returns true while an operator has taken the upstream out of service. */
  readonly isCordoned: () => boolean
}

/** Counts finished upstream requests for metrics; `status` is a status code or a failure reason. */
export interface UpstreamMetrics {
  fetched(upstream: string, endpoint: string, status: string, seconds: number, bytes?: number): void
  brokeOffStream?(upstream: string): void
  tookTokens?(upstream: string, source: TokenSource, count: number): void
}

// Reasons that concern the whole upstream, not one read.
const unreachableReasons = new Set<FailureReason>(['refused', 'unreachable', 'unresolved'])

/**
 * Purpose of a request. Only a `read` ranks the upstream by its latency. A `write` is not sent again, so its response
 * is used even if its position is not proven, but without that position. A `probe` may lack a position.
 */
type Purpose = 'read' | 'other' | 'write' | 'probe'

/** Attempt at an upstream: its response, which is final if it has no flaw, or the error that ended the attempt. */
export type Attempt =
  | { readonly upstream: Upstream, readonly response: UpstreamResponse, readonly flaw: Flaw | undefined }
  | { readonly upstream: Upstream, readonly response: undefined, readonly flaw: undefined, readonly error: unknown }

/** One full node: its connections and slots, its health, its window of history, and the guard of its chain. */
export class Upstream {
  readonly settings: UpstreamOptions
  readonly limiter: UpstreamLimiter
  readonly health: Health
  readonly guard: ChainGuard
  /** Release from the last response to `GET /v1`. */
  release: string | undefined
  /** True when the last request got a response with position headers or a status below 500. */
  lastFetchSucceeded = false
  readonly #metrics: UpstreamMetrics
  readonly #connections: ConnectionPool
  readonly #positions = new PositionReader()
  readonly #now: () => number
  #respondedAtMs = -Infinity
  #isSilent = false
  #hasProbed = false
  #isRetrying = false
  // Last read that was sent before the circuit opened.
  #lastRead: UpstreamRequest | undefined
  // Only responses of our chain are learned.
  #stamped: ResponsePosition | undefined
  #stampedAtMs = -Infinity
  #resetAtMs = -Infinity
  #window: VersionWindow | undefined
  #highestVersion = -1n

  constructor (settings: UpstreamOptions, metrics: UpstreamMetrics, guardOf: (upstream: Upstream) => ChainGuard) {
    const { name, now } = settings
    this.settings = settings
    this.#metrics = metrics
    this.#now = now
    this.#connections = new ConnectionPool(settings)
    this.limiter = new UpstreamLimiter({
      ...settings,
      onBrokenOff: () => metrics.brokeOffStream?.(name),
      tookTokens: (...took) => metrics.tookTokens?.(name, ...took)
    })
    this.health = new Health(now)
    this.guard = guardOf(this)
  }

  get name (): string {
    return this.settings.name
  }

  get timeoutMs (): number {
    return this.settings.timeoutMs
  }

  /** True while an operator has taken the upstream out of service: it is polled, and gets no reads. */
  get isCordoned (): boolean {
    return this.settings.isCordoned()
  }

  /** Single state from which everything that names or counts upstreams is derived. */
  get state (): UpstreamState {
    if (this.quarantineReason !== undefined) return 'quarantined'
    return this.#isSilent ? 'down' : this.health.state
  }

  /** Reason of a state other than `up` and `unknown`. */
  get stateReason (): string | undefined {
    switch (this.state) {
      case 'quarantined':
        return this.quarantineReason
      case 'down':
        return this.health.lastFailure ?? 'no position headers'
      case 'backing_off':
        return 'status 429'
      case 'up':
      case 'unknown':
        return undefined
    }
  }

  /** True when it responds, sends position headers, and is not quarantined. */
  get isUp (): boolean {
    const { state } = this
    return state === 'up' || state === 'backing_off'
  }

  /** True once its chain was verified, until it fails, loses a connection, or the chain is reset. */
  get isVerified (): boolean {
    return this.guard.isVerified
  }

  /** First and last version that it has, as last stamped; undefined before the first stamp and while quarantined. */
  get window (): VersionWindow | undefined {
    return this.quarantineReason === undefined ? this.#window : undefined
  }

  /** Last stamped position; undefined before the first and after a chain reset. */
  get stamped (): ResponsePosition | undefined {
    return this.#stamped
  }

  /** Time since the last stamp. */
  get stampAgeMs (): number {
    return this.#now() - this.#stampedAtMs
  }

  /** Highest version ever stamped, which not each of several nodes behind one address may have reached. */
  get highestVersion (): bigint {
    return this.#highestVersion
  }

  /** Says why it gets no data requests; undefined unless quarantined. */
  get quarantineReason (): QuarantineReason | undefined {
    return this.guard.quarantineReason
  }

  /** Chain id that a quarantined upstream serves. */
  get quarantinedChainId (): number | undefined {
    return this.guard.quarantinedChainId
  }

  /** Sends a request once and judges the response. Remembers a read for a retry once the circuit is open. */
  async fetch (
    request: UpstreamRequest,
    inspect: InspectResponse,
    timeoutMs = this.timeoutMs,
    signal?: CancelSignal
  ): Promise<Attempt> {
    const { isStreamed, isIdempotent, client } = request
    const name = signal?.isHedge === true ? 'hedge' : 'attempt'
    const span = client?.span?.child(name, { 'varve.upstream': this.name }, 'client')
    const purpose = isStreamed !== true ? 'read' : isIdempotent ? 'other' : 'write'
    if (purpose === 'read' && !this.health.isCircuitOpen) this.#lastRead = request
    // A streamed response would keep the slot that its own verification may need.
    const sent = isStreamed === true && this.guard.isVerificationDue ? { ...request, isStreamed: false } : request
    this.health.inFlight++
    try {
      const response = await this.#use(sent, timeoutMs, purpose, signal)
      const flaw = this.#judge(request, response, inspect)
      span?.end({ 'http.response.status_code': response.status, 'varve.flaw': flaw })
      return { upstream: this, response, flaw }
    } catch (error) {
      this.#recordError(error)
      span?.end({}, String((error as Error).message))
      return { upstream: this, response: undefined, flaw: undefined, error }
    } finally {
      this.health.inFlight--
    }
  }

  /**
   * Fetches for work beside reads; undefined if no response came. Failures say nothing about the circuit of reads; a
   * 429 concerns every request.
   */
  async fetchAside (request: UpstreamRequest): Promise<UpstreamResponse | undefined> {
    const response = await this.#use(request, this.timeoutMs, 'other').catch(() => undefined)
    if (response?.status === 429) this.#backOff(response)
    return response
  }

  /** Probes its own state; success with an open circuit also retries the last read sent before it opened. */
  async probe (request: UpstreamRequest, send?: SendProbe): Promise<UpstreamResponse> {
    const timeoutMs = pollTimeoutMs(this.timeoutMs, !this.#hasProbed)
    this.#hasProbed = true
    this.health.inFlight++
    try {
      const response = await this.#use(request, timeoutMs, 'probe', undefined, send)
      this.#judge(request, response)
      if (this.health.isCircuitOpen) this.#retryLastRead().catch(() => {})
      return response
    } catch (error) {
      this.#recordError(error, true)
      throw error
    } finally {
      this.health.inFlight--
    }
  }

  /** Records a poll that was answered without position headers; it counts as down until the next stamp. */
  markSilent (): void {
    this.#isSilent = true
  }

  /** Drops all that the upstream has reported, which belongs to the previous chain. */
  resetChain (chainId: number | undefined): void {
    this.guard.resetChain(chainId)
    this.#resetAtMs = this.#now()
    this.#stamped = undefined
    this.#window = undefined
    this.#highestVersion = -1n
  }

  /**
   * Sends a request in a slot of its own, and judges nothing; buffers the body up to the limit unless it is to be
   * streamed. Rejects with UpstreamFailure.
   */
  async send (request: UpstreamRequest, timeoutMs = this.timeoutMs, signal?: CancelSignal): Promise<UpstreamResponse> {
    const { client, isProbe = false } = request
    const startedMs = this.#now()
    let leftMs = timeoutMs
    let clearTimer: (() => void) | undefined
    try {
      if (isAborted(signal)) throw signal?.reason
      const units = unitCostOf(this.settings.budget, request.endpoint)
      let slot = this.limiter.tryAcquire(isProbe, client?.id, units)
      if (slot === undefined) {
        slot = await this.limiter.acquire({ clientId: client?.id, isProbe, units, timeoutMs, signal })
        leftMs -= this.#now() - startedMs
      }
      // Reads the release before sending: an upgrade in between makes an entry look older, never newer.
      const { release } = this
      const exchange = new Exchange(this.#connections, request, slot, signal)
      clearTimer = onTimeout(leftMs, () => {
        exchange.cancel(new DOMException('timed out', 'TimeoutError'))
        // Treats silence as a lost connection: the node may have restarted on another chain.
        this.settings.onConnectionLost?.()
      })
      const response = this.responseOf(await exchange.received, release)
      this.#count(request, String(response.status), startedMs, bytesOf(response))
      return response
    } catch (error) {
      const failure = this.#failureOf(error, leftMs, timeoutMs)
      // Ignores a time-out that began before another response came, a cancelled request, and a request never sent: none
      // proves a fault.
      const isOld = failure.reason === 'timeout' && startedMs < this.#respondedAtMs
      if (!isAborted(signal) && !isOld) this.recordFailure(failure)
      this.#count(request, failure.reason, startedMs)
      throw failure
    } finally {
      clearTimer?.()
    }
  }

  #count ({ endpoint }: UpstreamRequest, status: string, startedMs: number, bytes = 0): void {
    this.#metrics.fetched(this.name, endpoint, status, (this.#now() - startedMs) / 1000, bytes)
  }

  /** Reads the position of a response that any process received; rejects a body of an unknown coding. */
  responseOf (
    { status, headers, body, rest, isOverBudget }: ReceivedResponse,
    release: string | undefined
  ): UpstreamResponse {
    // Rejects transfer codings other than chunked: their bytes are not the body (RFC 9112, section 7).
    if (isTransferCoded(headers)) {
      rest?.destroy()
      throw new UpstreamFailure(this.name, 'invalid_response', undefined)
    }
    const stamped = this.#positionIn(headers)
    this.lastFetchSucceeded = stamped !== undefined || status < 500
    this.#respondedAtMs = this.#now()
    return {
      status,
      headers,
      body,
      rest,
      isOverBudget,
      isFramed: isFramed(headers),
      stamped,
      release,
      ignoresCacheControl: this.settings.ignoreCacheControl
    }
  }

  /** Records that this process or another one got no response. */
  recordFailure (failure: UpstreamFailure): void {
    if (!isInconclusive(failure)) this.lastFetchSucceeded = false
  }

  /** Resolves when requests in flight have ended and the connections are closed. */
  async drain (): Promise<void> {
    await this.limiter.waitUntilIdle()
    await this.#connections.drain()
  }

  /** Closes every connection; pending requests fail. */
  async close (): Promise<void> {
    this.limiter.close()
    await this.#connections.close()
  }
  /** Judges a response, and records its result in the health; a probe is not inspected. */
  #judge (request: UpstreamRequest, response: UpstreamResponse, inspect?: InspectResponse): Flaw | undefined {
    const { health } = this
    const flaw = flawOf(response, inspect, request.endpoint)
    switch (flaw) {
      case 'backing_off':
        this.#backOff(response)
        break
      case 'unhealthy':
        health.recordFailure(`status ${response.status}`, inspect === undefined)
        break
      case 'impossible':
        health.recordFailure('impossible response')
        response.rest?.destroy()
        break
      case 'disabled':
        health.recordDisabled(readsLike(request))
        break
      case 'lagging':
      case 'pruned':
      case 'partial':
      case 'partial_lagging':
      case undefined:
        if (inspect === undefined) health.recordProbeSuccess()
        else health.recordSuccess()
    }
    return flaw
  }

  #recordError (error: unknown, isProbe = false): void {
    if (!(error instanceof UpstreamFailure) || isInconclusive(error)) return
    this.health.recordFailure(error.description, isProbe || unreachableReasons.has(error.reason))
  }

  #backOff (response: UpstreamResponse): void {
    this.health.backOff(readRetryAfterMs(headerOf(response, 'retry-after'), headerOf(response, 'date')))
    const left = readUnitsLeft(response)
    if (left !== undefined) this.limiter.budget?.correct(left)
  }

  /** Probes may succeed while reads fail; only a read that succeeds closes the circuit then. */
  async #retryLastRead (): Promise<void> {
    if (this.#lastRead === undefined || this.#isRetrying) return
    this.#isRetrying = true
    const request = { ...this.#lastRead, isProbe: true, client: undefined }
    const timeoutMs = pollTimeoutMs(this.timeoutMs)
    try {
      // A failure adds nothing to the failures that opened the circuit.
      const response = await this.#use(request, timeoutMs, 'read')
      response.rest?.destroy()
      if (response.stamped !== undefined && !reportsUpstreamFault(response)) this.health.recordSuccess()
    } finally {
      this.#isRetrying = false
    }
  }

  /**
   * Fetches a response and learns its latency and position; verifies the chain before the response is used, and throws
   * QuarantinedError for another chain (law 7: chains never mix).
   */
  async #use (
    request: UpstreamRequest,
    timeoutMs: number,
    purpose: Purpose,
    signal?: CancelSignal,
    send?: SendProbe
  ): Promise<UpstreamResponse> {
    const now = this.#now
    const startedMs = now()
    const leftMs = (): number => timeoutMs - (now() - startedMs)
    const isRead = purpose === 'read'
    let response: UpstreamResponse
    try {
      response = await (send?.(this, request, timeoutMs) ?? this.send(request, timeoutMs, signal))
      if (!reportsUpstreamFault(response)) this.health.recordLatency(now() - startedMs, isRead)
    } catch (error) {
      // Counts time-outs and cancelled reads as a minimum latency, else a hanging upstream would rank as fast.
      if (
        error instanceof UpstreamFailure && (error.reason === 'timeout' || (isRead && error.reason === 'cancelled'))
      ) {
        this.health.recordMinLatency(now() - startedMs, isRead)
      }
      throw error
    } finally {
      this.guard.recordFetch(this.lastFetchSucceeded)
    }
    try {
      if (response.stamped !== undefined) {
        let isCompared = false
        if (this.guard.needsVerification(response.stamped)) {
          const { rest } = response
          // Discards a large response and sends the request again, because verification may need the slot.
          const isRepeated = rest !== undefined && purpose !== 'write' && !this.limiter.hasFreeSlot
          if (isRepeated) rest.destroy()
          request.client?.bytes?.holdWaiting(response.body)
          // Limits the wait to the rest of the request's own timeout.
          const verified = await withTimeout(Math.max(0, leftMs()), this.guard.verify(response.stamped, startedMs))
          if (verified === undefined) throw new UpstreamFailure(this.name, 'timeout', undefined)
          isCompared = verified
          this.guard.rejectIfUnproven(response.stamped)
          if (isRepeated) return await this.#use(request, leftMs(), purpose, signal, send)
        }
        // A response that was sent for before a reset may be of the old chain.
        if (isCompared || startedMs > this.#resetAtMs) this.#learn(response.stamped)
      }
      this.guard.rejectIfQuarantined()
    } catch (error) {
      if (purpose !== 'write' || !(error instanceof UnprovenPositionError)) {
        response.rest?.destroy()
        throw error
      }
      response = { ...response, stamped: undefined }
    }
    // An unverified upstream's response without position headers may be of any chain (law 7: chains never mix).
    const mayBeUnstamped = purpose === 'probe' || this.guard.acceptsUnstamped || reportsUpstreamFault(response)
    if (response.stamped !== undefined || mayBeUnstamped) return response
    response.rest?.destroy()
    throw new UpstreamFailure(this.name, 'invalid_response', undefined)
  }

  #learn (stamped: ResponsePosition): void {
    if (this.quarantineReason !== undefined) return
    const { head, oldest } = stamped.position
    this.#isSilent = false
    this.#stamped = stamped
    this.#stampedAtMs = this.#now()
    this.#window = { oldest: oldest.version, head: head.version }
    if (head.version > this.#highestVersion) this.#highestVersion = head.version
  }

  #positionIn (headers: ResponseHeaders): ResponsePosition | undefined {
    const stamped = this.#positions.read(headers)
    if (stamped === undefined) return undefined
    return this.settings.acceptsTimestamp?.(stamped.position.head.timestampUsec) === false ? undefined : stamped
  }

  // Counts a time-out as no_slot when queueing took over half of the time: the upstream had too little left to respond.
  #failureOf (error: unknown, leftMs: number, timeoutMs: number): UpstreamFailure {
    const failure = UpstreamFailure.of(this.name, error)
    return failure.reason === 'timeout' && leftMs < timeoutMs / 2
      ? UpstreamFailure.of(this.name, new NoSlotError('upstream slot came too late'))
      : failure
  }
}

function isAborted (signal: CancelSignal | undefined): boolean {
  return signal?.aborted === true
}
