import { type StampedPosition } from '../api/position.js'
import { type UpstreamResponse, reportsUpstreamFault } from '../api/upstream-response.js'
import { withTimeout } from '../with-timeout.js'
import { Health } from './health.js'
import { UpstreamFailure } from './upstream-failure.js'
import { type UpstreamClient } from './upstream-client.js'
import { type UpstreamRequest } from './upstream-request.js'
import { type Candidate } from './ranking.js'
import { WindowTracker } from './window-tracker.js'
import { type CancelSignal } from './cancel-signal.js'
import { QuarantinedError, type QuarantineReason } from './quarantine.js'

// Verifies at most this often, so an upstream that closes each connection is not verified for every response.
const minVerifyIntervalMs = 250
// An upstream behind an open connection can change its chain, so it is verified again (law 7: chains never mix).
const reverifyEveryMs = 10_000

/** Checks that an upstream serves our chain. */
export interface ChainVerification {
  /**
   * Verifies the chain before any response is used; resolves to a reason to quarantine the upstream.
   */
  verifyChain(upstream: Upstream, stamped: StampedPosition, wasDown: boolean): Promise<QuarantineReason | undefined>
  /** Confirms a verified upstream without deciding anything; rejects where it cannot check now. */
  isSameChain(upstream: Upstream, stamped: StampedPosition): Promise<boolean>
  /** True when a position contradicts our chain, so that even a verified upstream is verified again. */
  isOffChain(stamped: StampedPosition): boolean
  /** True when another upstream can serve while one is verified again. */
  hasPeers(): boolean
}

/** One configured upstream: its health, its window of history, and its chain verification. */
export class Upstream implements Candidate {
  readonly client: UpstreamClient
  readonly health: Health
  readonly windowTracker: WindowTracker
  readonly #verification: ChainVerification
  readonly #now: () => number
  #isVerified = false
  #quarantine: { readonly reason: QuarantineReason, readonly chainId: number } | undefined
  #verifying: Promise<void> | undefined
  #unverifiedAtMs = -Infinity
  #reverifiedAtMs: number
  #hasLostConnection = false
  #wasDown = true
  #isSilent = false

  constructor (client: UpstreamClient, verification: ChainVerification, now: () => number) {
    this.client = client
    this.#verification = verification
    this.#now = now
    this.health = new Health(now)
    this.windowTracker = new WindowTracker(now)
    this.#reverifiedAtMs = now()
  }

  /** True once its chain was verified, until it fails, loses a connection, or the chain is reset. */
  get isVerified (): boolean {
    return this.#isVerified
  }

  get isFull (): boolean {
    return this.client.budget.isFull
  }

  /** First and last version that it has, as last stamped; undefined before the first stamp and while quarantined. */
  get window (): Candidate['window'] {
    return this.#quarantine === undefined ? this.windowTracker.window : undefined
  }

  /** Says why it gets no data requests; undefined unless quarantined. */
  get quarantineReason (): QuarantineReason | undefined {
    return this.#quarantine?.reason
  }

  /** Chain id that a quarantined upstream serves. */
  get quarantinedChainId (): number | undefined {
    return this.#quarantine?.chainId
  }

  /** True when its last stamp belongs to our chain. */
  get isOnChain (): boolean {
    return this.windowTracker.stamped !== undefined && this.#quarantine === undefined
  }

  /** True when it responds, sends position headers, and is not quarantined. */
  get isUp (): boolean {
    return this.health.isUp && !this.#isSilent && this.#quarantine === undefined
  }

  /** True before its first response and first failure. */
  get isUnknown (): boolean {
    return !this.health.isUp && !this.#isSilent && this.health.lastFailure === undefined
  }

  /** Fetches; verifies the chain before the response is used, and throws QuarantinedError for another chain (law 7). */
  async fetch (
    request: UpstreamRequest,
    timeoutMs = this.client.timeoutMs,
    signal?: CancelSignal
  ): Promise<UpstreamResponse> {
    return this.#requireVerified(
      await this.#verifyAndLearn(this.client.fetch(request, timeoutMs, signal), timeoutMs, true)
    )
  }

  /** Fetches with the body streamed. */
  async forward (
    request: UpstreamRequest,
    signal: AbortSignal,
    timeoutMs = this.client.timeoutMs
  ): Promise<UpstreamResponse> {
    return this.#requireVerified(await this.#verifyAndLearn(this.client.forward(request, signal, timeoutMs), timeoutMs))
  }

  /** Probes its own state; a response without position headers is accepted. */
  async probe (request: UpstreamRequest, timeoutMs: number): Promise<UpstreamResponse> {
    return await this.#verifyAndLearn(this.client.probe(request, timeoutMs), timeoutMs)
  }

  /** Records a poll that was answered without position headers; it counts as down until the next stamp. */
  markSilent (): void {
    this.#isSilent = true
  }

  /** Verifies again as a routine check every 10 s; a check that fails to run changes nothing. */
  async reverifyIfDue (): Promise<void> {
    if (this.#now() - this.#reverifiedAtMs < reverifyEveryMs) return
    this.#reverifiedAtMs = this.#now()
    const { stamped } = this.windowTracker
    if (stamped === undefined || !this.#isVerified || this.#verifying !== undefined) return
    if (!await this.#verification.isSameChain(this, stamped).catch(() => true)) this.#isVerified = false
  }

  /** Forces a new verification before its next response is used. */
  markUnverified (): void {
    this.#isVerified = false
  }

  /** Drops all it reported, which belongs to the previous chain. */
  resetChain (chainId: number | undefined): void {
    // Lifts the quarantine where its chain id became ours; an upstream with another id stays quarantined.
    if (this.#quarantine?.chainId === chainId) this.#quarantine = undefined
    this.#isVerified = false
    this.windowTracker.clear()
  }

  /** Treats a lost connection as a possible restart on another chain. Returns true where verification is now needed. */
  recordConnectionLost (): boolean {
    this.#hasLostConnection = true
    if (this.#verification.hasPeers()) this.#markUnverifiedIfLost()
    return !this.#isVerified
  }

  async #verifyAndLearn (
    pending: Promise<UpstreamResponse>,
    timeoutMs: number,
    isRead = false
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
      this.#isVerified &&= this.client.lastFetchSucceeded
      this.#wasDown ||= !this.client.lastFetchSucceeded
    }
    try {
      if (response.stamped !== undefined) {
        if (this.#needsVerification(response.stamped)) {
          await this.#awaitVerification(response.stamped, timeoutMs - (now() - startedMs))
        }
        this.#learn(response.stamped)
      }
      if (this.#quarantine !== undefined) throw new QuarantinedError(`${this.client.name}: ${this.#quarantine.reason}`)
      return response
    } catch (error) {
      response.rest?.destroy()
      throw error
    }
  }

  // Rejects a response without position headers from an unverified upstream: it may be of any chain (law 7).
  #requireVerified (response: UpstreamResponse): UpstreamResponse {
    if (
      this.#isVerified || response.stamped !== undefined || !this.#verification.hasPeers() ||
      reportsUpstreamFault(response)
    ) {
      return response
    }
    response.rest?.destroy()
    throw new UpstreamFailure(this.client.name, 'invalid_response', undefined)
  }

  #needsVerification (stamped: StampedPosition): boolean {
    this.#markUnverifiedIfLost()
    return !this.#isVerified || this.#verification.isOffChain(stamped)
  }

  // Limits the wait for verification to the rest of the request's own timeout.
  async #awaitVerification (stamped: StampedPosition, leftMs: number): Promise<void> {
    this.#verifying ??= this.#verify(stamped).finally(() => {
      this.#verifying = undefined
    })
    const done = await withTimeout(Math.max(0, leftMs), this.#verifying.then(() => 'compared'))
    if (done === undefined) throw new UpstreamFailure(this.client.name, 'timeout', undefined)
  }

  #learn (stamped: StampedPosition): void {
    if (this.#quarantine !== undefined) return
    this.#isSilent = false
    this.windowTracker.learn(stamped)
  }

  #markUnverifiedIfLost (): void {
    const now = this.#now()
    if (!this.#hasLostConnection || now - this.#unverifiedAtMs < minVerifyIntervalMs) return
    this.#unverifiedAtMs = now
    this.#isVerified = false
  }

  async #verify (stamped: StampedPosition): Promise<void> {
    this.#hasLostConnection = false
    const reason = await this.#verification.verifyChain(this, stamped, this.#wasDown)
    // Stays marked as down while quarantined, so its return is verified as one after an outage.
    this.#wasDown &&= reason !== undefined
    this.#quarantine = reason === undefined ? undefined : { reason, chainId: stamped.position.chainId }
    this.#isVerified = reason === undefined
  }
}
