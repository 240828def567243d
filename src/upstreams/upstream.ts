import { type ResponsePosition } from '../api/position.js'
import { headerOf, reportsUpstreamFault, type UpstreamResponse } from '../api/upstream-response.js'
import { withTimeout } from '../with-timeout.js'
import { Health, readRetryAfterMs } from './health.js'
import { pollTimeoutMs } from './polling-policy.js'
import { type UpstreamClient } from './upstream-client.js'
import {
  type FailureReason,
  isInconclusive,
  UpstreamFailure,
  type Flaw,
  flawOf,
  type InspectResponse
} from './upstream-failure.js'
import { type CancelSignal, type UpstreamRequest } from './upstream-request.js'

/** Message for operators: why an upstream cannot be on our chain (law 7: chains never mix). */
export type QuarantineReason = string

/** Error for a response of a quarantined upstream, which is never used. */
export class QuarantinedError extends Error {}

/** Error for a response whose position contradicts or jumps ahead of our chain, without a proof; it is never used. */
export class UnprovenPositionError extends Error {
  constructor (upstream: string) {
    super(`${upstream} sent a position that nothing proves`)
  }
}

/**
 * Guards one upstream's responses, so that none of another chain is used (law 7: chains never mix); `chain/` decides.
 */
export interface ChainGuard {
  /** True once its chain was verified, until it fails, loses a connection, or the chain is reset. */
  readonly isVerified: boolean
  /** True if the next response with a position is verified before it is used. */
  readonly isVerificationDue: boolean
  /** Says why it gets no data requests; undefined unless quarantined. */
  readonly quarantineReason: QuarantineReason | undefined
  /** Chain id that a quarantined upstream serves. */
  readonly quarantinedChainId: number | undefined
  /** True if a response without position headers may be used; it may be of any chain. */
  readonly acceptsUnstamped: boolean
  /** Records the end of a request; after a failure the upstream is verified again. */
  recordFetch(hasSucceeded: boolean): void
  /** True if the upstream must be verified before a response with this position is used. */
  needsVerification(stamped: ResponsePosition): boolean
  /**
   * Verifies the upstream; concurrent callers share one verification. Resolves with true if it compared this position.
   * Rejects when the result is unknown now.
   */
  verify(stamped: ResponsePosition, sentAtMs: number): Promise<boolean>
  /** Throws if the position is still not believed after a verification. */
  rejectIfUnproven(stamped: ResponsePosition): void
  /** Quarantines it for some seconds, because it contradicts itself. */
  quarantine(): void
  /** Throws QuarantinedError if the upstream is quarantined. */
  rejectIfQuarantined(): void
  /** Verifies again as a routine check where one is due; a check that fails to run changes nothing. */
  reverifyIfDue(stamped: ResponsePosition | undefined): Promise<void>
  /** Forces a new verification before the next response is used. */
  markUnverified(): void
  /** Treats a lost connection as a possible restart on another chain; returns true if a poll should verify it now. */
  recordConnectionLost(): boolean
  /** Follows a chain reset; a quarantine ends where its chain id became ours. */
  resetChain(chainId: number | undefined): void
}

/** Closed list of upstream states, as in /status.json and the label `state` of varve_upstream_state. */
export const upstreamStates = ['unknown', 'up', 'backing_off', 'down', 'quarantined'] as const

/** One state of the closed list. */
export type UpstreamState = typeof upstreamStates[number]

/** Sends a probe, from this process or another one. */
export type SendProbe = (
  client: UpstreamClient,
  request: UpstreamRequest,
  timeoutMs: number
) => Promise<UpstreamResponse>

/** Versions that an upstream has, first and last. */
export interface VersionWindow {
  readonly oldest: bigint
  readonly head: bigint
}

/** Settings that decide which reads an upstream gets. */
export interface RankingSettings {
  /** Ledger time behind the newest upstream from which it counts as lagging. */
  readonly maxLagSeconds: number
  /** Higher numbers get reads only while no lower one can answer. */
  readonly priority: number
  /** Share of reads in flight among upstreams of one priority. */
  readonly weight: number
  /** Returns true while an operator keeps it out of service. */
  readonly isCordoned: () => boolean
}

// Reasons that concern the whole upstream, not one read.
const unreachableReasons = new Set<FailureReason>(['refused', 'unreachable', 'unresolved'])

/**
 * Purpose of a request. Only a `read` ranks the upstream by its latency; a `write` is not sent again, so its response
 * is used without a position that is not proven; a `probe` may lack a position.
 */
type Purpose = 'read' | 'other' | 'write' | 'probe'

/** Attempt at an upstream: its response, final where it has no flaw, or the error that it ended with. */
export type Attempt =
  | { readonly upstream: Upstream, readonly response: UpstreamResponse, readonly flaw: Flaw | undefined }
  | { readonly upstream: Upstream, readonly response: undefined, readonly flaw: undefined, readonly error: unknown }

/** One configured upstream: connections, health, window of history, and the guard of its chain. */
export class Upstream {
  readonly client: UpstreamClient
  readonly health: Health
  readonly settings: RankingSettings
  readonly guard: ChainGuard
  readonly #now: () => number
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

  constructor (client: UpstreamClient, guard: ChainGuard, now: () => number, settings: RankingSettings) {
    this.client = client
    this.settings = settings
    this.guard = guard
    this.#now = now
    this.health = new Health(now)
  }

  /** True while an operator keeps it out of service: it is polled, and gets no reads. */
  get isCordoned (): boolean {
    return this.settings.isCordoned()
  }

  /** The one state, from which everything that names or counts upstreams is derived. */
  get state (): UpstreamState {
    if (this.#isQuarantined) return 'quarantined'
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
    return this.#isQuarantined ? undefined : this.#window
  }

  /** Last stamped position; undefined before the first and after a chain reset. */
  get stamped (): ResponsePosition | undefined {
    return this.#stamped
  }

  /** Time since the last stamp. */
  get stampAgeMs (): number {
    return this.#now() - this.#stampedAtMs
  }

  /** Highest version ever stamped; several nodes behind one address may be behind it. */
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
    timeoutMs = this.client.timeoutMs,
    signal?: CancelSignal
  ): Promise<Attempt> {
    const { isStreamed, isIdempotent, client } = request
    const span = client?.span
    const purpose = isStreamed !== true ? 'read' : isIdempotent ? 'other' : 'write'
    if (purpose === 'read' && !this.health.isCircuitOpen) this.#lastRead = request
    // A streamed response would keep the slot that its own verification may need.
    const sent = isStreamed === true && this.guard.isVerificationDue ? { ...request, isStreamed: false } : request
    const run = (): Promise<Attempt> => this.#record(this.#use(sent, timeoutMs, purpose, signal), inspect)
    try {
      if (span === undefined) return await run()
      const name = signal?.isHedge === true ? 'hedge' : 'attempt'
      return await span.child(name, { 'varve.upstream': this.client.name }, 'client').run(
        run,
        ({ response, flaw }) => ({ 'http.response.status_code': response?.status, 'varve.flaw': flaw })
      )
    } catch (error) {
      return { upstream: this, response: undefined, flaw: undefined, error }
    }
  }

  /**
   * Fetches for work beside reads; undefined where no response came. Failures say nothing about the circuit of reads; a
   * 429 concerns every request.
   */
  async fetchAside (request: UpstreamRequest): Promise<UpstreamResponse | undefined> {
    const { timeoutMs } = this.client
    const response = await this.#use(request, timeoutMs, 'other').catch(() => undefined)
    if (response?.status === 429) this.#backOff(response)
    return response
  }

  /** Probes its own state; success with an open circuit also retries the last read sent before it opened. */
  async probe (request: UpstreamRequest, send?: SendProbe): Promise<UpstreamResponse> {
    const timeoutMs = pollTimeoutMs(this.client.timeoutMs, !this.#hasProbed)
    this.#hasProbed = true
    const { response } = await this.#record(this.#use(request, timeoutMs, 'probe', undefined, send), undefined)
    if (this.health.isCircuitOpen) this.#retryLastRead().catch(() => {})
    return response
  }

  /** Records a poll that was answered without position headers; it counts as down until the next stamp. */
  markSilent (): void {
    this.#isSilent = true
  }

  /** Drops all it reported, which belongs to the previous chain. */
  resetChain (chainId: number | undefined): void {
    this.guard.resetChain(chainId)
    this.#resetAtMs = this.#now()
    this.#stamped = undefined
    this.#window = undefined
    this.#highestVersion = -1n
  }

  get #isQuarantined (): boolean {
    return this.guard.quarantineReason !== undefined
  }

  /** Judges a response, and records its result in the health; a probe is not inspected. */
  async #record (
    pending: Promise<UpstreamResponse>,
    inspect: InspectResponse | undefined
  ): Promise<Extract<Attempt, { response: UpstreamResponse }>> {
    const { health } = this
    health.inFlight++
    try {
      const response = await pending
      const flaw = flawOf(response, inspect)
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
        case 'lagging':
        case 'pruned':
        case 'partial':
        case 'partial_lagging':
        case undefined:
          if (inspect === undefined) health.recordProbeSuccess()
          else health.recordSuccess()
      }
      return { upstream: this, response, flaw }
    } catch (error) {
      if (error instanceof UpstreamFailure && !isInconclusive(error)) {
        health.recordFailure(error.description, inspect === undefined || unreachableReasons.has(error.reason))
      }
      throw error
    } finally {
      health.inFlight--
    }
  }

  #backOff (response: UpstreamResponse): void {
    this.health.backOff(readRetryAfterMs(headerOf(response, 'retry-after'), headerOf(response, 'date')))
  }

  /** Probes may succeed while reads fail; only a read that succeeds closes the circuit then. */
  async #retryLastRead (): Promise<void> {
    if (this.#lastRead === undefined || this.#isRetrying) return
    this.#isRetrying = true
    const request = { ...this.#lastRead, isProbe: true, client: undefined }
    const timeoutMs = pollTimeoutMs(this.client.timeoutMs)
    try {
      // A failure adds nothing to what opened the circuit.
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
      response = await (send?.(this.client, request, timeoutMs) ?? this.client.fetch(request, timeoutMs, signal))
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
      this.guard.recordFetch(this.client.lastFetchSucceeded)
    }
    try {
      if (response.stamped !== undefined) {
        let isCompared = false
        if (this.guard.needsVerification(response.stamped)) {
          const { rest } = response
          // Verification may need the slot that a large response keeps, so that is asked for again.
          const isRepeated = rest !== undefined && purpose !== 'write' && !this.client.limiter.hasFreeSlot
          if (isRepeated) rest.destroy()
          request.client?.bytes?.holdWaiting(response.body)
          isCompared = await this.#awaitVerification(response.stamped, startedMs, leftMs())
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
    throw new UpstreamFailure(this.client.name, 'invalid_response', undefined)
  }

  // Limits the wait for verification to the rest of the request's own timeout.
  async #awaitVerification (stamped: ResponsePosition, sentAtMs: number, leftMs: number): Promise<boolean> {
    const isCompared = await withTimeout(Math.max(0, leftMs), this.guard.verify(stamped, sentAtMs))
    if (isCompared === undefined) throw new UpstreamFailure(this.client.name, 'timeout', undefined)
    return isCompared
  }

  #learn (stamped: ResponsePosition): void {
    if (this.#isQuarantined) return
    const { head, oldest } = stamped.position
    this.#isSilent = false
    this.#stamped = stamped
    this.#stampedAtMs = this.#now()
    this.#window = { oldest: oldest.version, head: head.version }
    if (head.version > this.#highestVersion) this.#highestVersion = head.version
  }
}
