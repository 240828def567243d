import { type ResponsePosition } from '../api/position.js'
import { type ChainGuard, QuarantinedError, type QuarantineReason } from '../upstreams/chain-guard.js'
import { type UpstreamClient } from '../upstreams/upstream-client.js'

// Verifies at most this often, so an upstream that closes each connection is not verified for every response.
const minVerifyIntervalMs = 250
// An upstream behind an open connection can change its chain, so it is verified again (law 7: chains never mix).
const reverifyEveryMs = 10_000

/** Checks that an upstream serves our chain. */
export interface ChainVerification {
  /** Resolves with a reason to quarantine the upstream, or undefined if it is on our chain. */
  verifyChain(
    client: UpstreamClient,
    stamped: ResponsePosition,
    wasDown: boolean
  ): Promise<QuarantineReason | undefined>
  /** Confirms a verified upstream without deciding anything; rejects where it cannot check now. */
  isSameChain(client: UpstreamClient, stamped: ResponsePosition): Promise<boolean>
  /** True when a position contradicts our chain, so that even a verified upstream is verified again. */
  isOffChain(stamped: ResponsePosition): boolean
  /** True when another upstream can serve while one is verified again. */
  hasPeers(): boolean
}

/** Verification and quarantine of one upstream (law 7: chains never mix). */
export class Quarantine implements ChainGuard {
  readonly #client: UpstreamClient
  readonly #verification: ChainVerification
  readonly #now: () => number
  #isVerified = false
  #quarantined: { readonly reason: QuarantineReason, readonly chainId: number } | undefined
  #verifying: Promise<void> | undefined
  #unverifiedAtMs = -Infinity
  #reverifiedAtMs: number
  #hasLostConnection = false
  #wasDown = true

  constructor (client: UpstreamClient, verification: ChainVerification, now: () => number) {
    this.#client = client
    this.#verification = verification
    this.#now = now
    this.#reverifiedAtMs = now()
  }

  get isVerified (): boolean {
    return this.#isVerified
  }

  get quarantineReason (): QuarantineReason | undefined {
    return this.#quarantined?.reason
  }

  get quarantinedChainId (): number | undefined {
    return this.#quarantined?.chainId
  }

  // A single upstream has no other to be confused with.
  get acceptsUnstamped (): boolean {
    return this.#isVerified || !this.#verification.hasPeers()
  }

  recordFetch (hasSucceeded: boolean): void {
    this.#isVerified &&= hasSucceeded
    this.#wasDown ||= !hasSucceeded
  }

  needsVerification (stamped: ResponsePosition): boolean {
    this.#markUnverifiedIfLost()
    return !this.#isVerified || this.#verification.isOffChain(stamped)
  }

  async verify (stamped: ResponsePosition): Promise<void> {
    this.#verifying ??= this.#verifyOnce(stamped).finally(() => {
      this.#verifying = undefined
    })
    await this.#verifying
  }

  rejectIfQuarantined (): void {
    if (this.#quarantined !== undefined) {
      throw new QuarantinedError(`${this.#client.name}: ${this.#quarantined.reason}`)
    }
  }

  async reverifyIfDue (stamped: ResponsePosition | undefined): Promise<void> {
    if (this.#now() - this.#reverifiedAtMs < reverifyEveryMs) return
    this.#reverifiedAtMs = this.#now()
    if (stamped === undefined || !this.#isVerified || this.#verifying !== undefined) return
    if (!await this.#verification.isSameChain(this.#client, stamped).catch(() => true)) this.#isVerified = false
  }

  markUnverified (): void {
    this.#isVerified = false
  }

  recordConnectionLost (): boolean {
    this.#hasLostConnection = true
    if (!this.#verification.hasPeers()) return false
    this.#markUnverifiedIfLost()
    return !this.#isVerified
  }

  resetChain (chainId: number | undefined): void {
    // An upstream with another chain id stays quarantined.
    if (this.#quarantined?.chainId === chainId) this.#quarantined = undefined
    this.#isVerified = false
  }

  #markUnverifiedIfLost (): void {
    const now = this.#now()
    if (!this.#hasLostConnection || now - this.#unverifiedAtMs < minVerifyIntervalMs) return
    this.#unverifiedAtMs = now
    this.#isVerified = false
  }

  async #verifyOnce (stamped: ResponsePosition): Promise<void> {
    this.#hasLostConnection = false
    const reason = await this.#verification.verifyChain(this.#client, stamped, this.#wasDown)
    // Stays marked as down while quarantined, so its return is verified as one after an outage.
    this.#wasDown &&= reason !== undefined
    this.#quarantined = reason === undefined ? undefined : { reason, chainId: stamped.position.chainId }
    this.#isVerified = reason === undefined
  }
}
