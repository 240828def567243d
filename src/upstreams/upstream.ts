import { type ResponsePosition } from '../api/position.js'
import { type UpstreamResponse, reportsUpstreamFault } from '../api/upstream-response.js'
import { withTimeout } from '../with-timeout.js'
import { Health } from './health.js'
import { UpstreamFailure } from './upstream-failure.js'
import { type UpstreamClient } from './upstream-client.js'
import { type UpstreamRequest } from './upstream-request.js'
import { type Candidate } from './ranking.js'
import { WindowTracker } from './window-tracker.js'
import { type CancelSignal } from './cancel-signal.js'
import { type ChainGuard, type QuarantineReason, UnprovenPositionError } from './chain-guard.js'

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

/** One configured upstream: its health, its window of history, and the guard of its chain. */
export class Upstream implements Candidate {
  readonly client: UpstreamClient
  readonly health: Health
  readonly windowTracker: WindowTracker
  readonly maxLagSeconds: number
  readonly priority: number
  readonly weight: number
  readonly #isCordoned: () => boolean
  readonly #guard: ChainGuard
  readonly #now: () => number
  #isSilent = false

  constructor (client: UpstreamClient, guard: ChainGuard, now: () => number, ranking: Partial<RankingSettings> = {}) {
    this.maxLagSeconds = ranking.maxLagSeconds ?? Infinity
    this.priority = ranking.priority ?? 0
    this.weight = ranking.weight ?? 1
    this.#isCordoned = ranking.isCordoned ?? (() => false)
    this.client = client
    this.#guard = guard
    this.#now = now
    this.health = new Health(now)
    this.windowTracker = new WindowTracker(now)
  }

  /** True once its chain was verified, until it fails, loses a connection, or the chain is reset. */
  get isVerified (): boolean {
    return this.#guard.isVerified
  }

  /** True while an operator keeps it out of service: it is polled, and gets no reads. */
  get isCordoned (): boolean {
    return this.#isCordoned()
  }

  get isFull (): boolean {
    return this.client.limiter.isFull
  }

  /** First and last version that it has, as last stamped; undefined before the first stamp and while quarantined. */
  get window (): Candidate['window'] {
    return this.#isQuarantined ? undefined : this.windowTracker.window
  }

  /** Says why it gets no data requests; undefined unless quarantined. */
  get quarantineReason (): QuarantineReason | undefined {
    return this.#guard.quarantineReason
  }

  /** Chain id that a quarantined upstream serves. */
  get quarantinedChainId (): number | undefined {
    return this.#guard.quarantinedChainId
  }

  /** True when its last stamp belongs to our chain. */
  get isOnChain (): boolean {
    return this.windowTracker.stamped !== undefined && !this.#isQuarantined
  }

  /** True when it responds, sends position headers, and is not quarantined. */
  get isUp (): boolean {
    return this.health.isUp && !this.#isSilent && !this.#isQuarantined
  }

  /** True before its first response and first failure. */
  get isUnknown (): boolean {
    return !this.health.isUp && !this.#isSilent && this.health.lastFailure === undefined
  }

  /**
   * Fetches; verifies the chain before the response is used, and throws QuarantinedError for another chain (law 7:
   * chains never mix).
   */
  async fetch (
    request: UpstreamRequest,
    timeoutMs = this.client.timeoutMs,
    signal?: CancelSignal
  ): Promise<UpstreamResponse> {
    return this.#requireVerified(
      await this.#verifyAndLearn(this.client.fetch(request, timeoutMs, signal), timeoutMs, true)
    )
  }

  /** Fetches for work beside reads, whose latency ranks no upstream. */
  async fetchAside (request: UpstreamRequest): Promise<UpstreamResponse> {
    const { timeoutMs } = this.client
    return this.#requireVerified(await this.#verifyAndLearn(this.client.fetch(request, timeoutMs), timeoutMs))
  }

  /** Fetches with the body streamed. */
  async forward (
    request: UpstreamRequest,
    signal: AbortSignal,
    timeoutMs = this.client.timeoutMs
  ): Promise<UpstreamResponse> {
    const pending = this.client.forward(request, signal, timeoutMs)
    return this.#requireVerified(
      // A request that may have written is not sent again, so its response is used without a position.
      await this.#verifyAndLearn(pending, timeoutMs, false, !request.isIdempotent)
    )
  }

  /** Probes its own state; a response without position headers is accepted. */
  async probe (request: UpstreamRequest, timeoutMs: number): Promise<UpstreamResponse> {
    return await this.#verifyAndLearn(this.client.probe(request, timeoutMs), timeoutMs)
  }

  /** Records a poll that was answered without position headers; it counts as down until the next stamp. */
  markSilent (): void {
    this.#isSilent = true
  }

  /** Verifies again as a routine check where one is due. */
  async reverifyIfDue (): Promise<void> {
    await this.#guard.reverifyIfDue(this.windowTracker.stamped)
  }

  /** Forces a new verification before its next response is used. */
  markUnverified (): void {
    this.#guard.markUnverified()
  }

  /** Quarantines it for some seconds, because it contradicts itself. */
  quarantine (): void {
    this.#guard.quarantine()
  }

  /** Drops all it reported, which belongs to the previous chain. */
  resetChain (chainId: number | undefined): void {
    this.#guard.resetChain(chainId)
    this.windowTracker.clear()
  }

  get #isQuarantined (): boolean {
    return this.#guard.quarantineReason !== undefined
  }

  async #verifyAndLearn (
    pending: Promise<UpstreamResponse>,
    timeoutMs: number,
    isRead = false,
    mayDropPosition = false
  ): Promise<UpstreamResponse> {
    const now = this.#now
    const startedMs = now()
    let response: UpstreamResponse
    try {
      response = await pending
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
      this.#guard.recordFetch(this.client.lastFetchSucceeded)
    }
    try {
      if (response.stamped !== undefined) {
        if (this.#guard.needsVerification(response.stamped)) {
          await this.#awaitVerification(response.stamped, startedMs, timeoutMs - (now() - startedMs))
          this.#guard.rejectIfUnproven(response.stamped)
        }
        this.#learn(response.stamped)
      }
      this.#guard.rejectIfQuarantined()
      return response
    } catch (error) {
      if (mayDropPosition && error instanceof UnprovenPositionError) return { ...response, stamped: undefined }
      response.rest?.destroy()
      throw error
    }
  }

  // Rejects a response without position headers from an unverified upstream: it may be of any chain (law 7: chains
  // never mix).
  #requireVerified (response: UpstreamResponse): UpstreamResponse {
    const isStamped = response.stamped !== undefined
    if (isStamped || this.#guard.acceptsUnstamped || reportsUpstreamFault(response)) return response
    response.rest?.destroy()
    throw new UpstreamFailure(this.client.name, 'invalid_response', undefined)
  }

  // Limits the wait for verification to the rest of the request's own timeout.
  async #awaitVerification (stamped: ResponsePosition, sentAtMs: number, leftMs: number): Promise<void> {
    const done = await withTimeout(Math.max(0, leftMs), this.#guard.verify(stamped, sentAtMs).then(() => 'compared'))
    if (done === undefined) throw new UpstreamFailure(this.client.name, 'timeout', undefined)
  }

  #learn (stamped: ResponsePosition): void {
    if (this.#isQuarantined) return
    this.#isSilent = false
    this.windowTracker.learn(stamped)
  }
}
