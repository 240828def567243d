import { type ResponsePosition } from '../api/position.js'
import {
  type ChainGuard,
  QuarantinedError,
  type QuarantineReason,
  UnprovenPositionError
} from '../upstreams/chain-guard.js'
import { type Upstream } from '../upstreams/upstream.js'
import { contradicts, isNear } from './tracker.js'

// Verifies at most this often, so an upstream that closes each connection is not verified for every response.
const minVerifyIntervalMs = 250
// An upstream behind an open connection can change its chain, so it is verified again (law 7: chains never mix).
const reverifyEveryMs = 10_000

/** Earlier statements of an upstream about its position. */
export interface EarlierStatements {
  /** Last position that was not believed, until one is believed; the same position again is a second statement. */
  readonly doubted: ResponsePosition | undefined
  /**
   * Records that the upstream contradicts itself; returns true if that quarantines it, so that its chain is not
   * followed.
   */
  recordContradiction(): boolean
  /** Records that the chain was changed to this upstream's. */
  recordChange(): void
}

/** Checks that an upstream serves our chain. */
export interface ChainVerification {
  /**
   * Resolves with a reason to quarantine the upstream, or undefined if it is on our chain. Rejects when that is
   * unknown now.
   */
  verifyChain(
    upstream: Upstream,
    stamped: ResponsePosition,
    wasDown: boolean,
    earlier: EarlierStatements
  ): Promise<QuarantineReason | undefined>
  /** Checks a verified upstream again and never changes our chain; rejects if it cannot check now. */
  isSameChain(upstream: Upstream, stamped: ResponsePosition): Promise<boolean>
  /** True when a position contradicts our chain or jumps ahead of it; even a verified upstream is verified again. */
  isOffChain(stamped: ResponsePosition): boolean
  /** True when another upstream can serve while one is verified again. */
  hasPeers(): boolean
}

/** Verification and quarantine of one upstream (law 7: chains never mix). */
export class Quarantine implements ChainGuard {
  readonly #upstream: Upstream
  readonly #verification: ChainVerification
  readonly #now: () => number
  #isVerified = false
  readonly #contradictions: SelfContradictions
  #doubted: ResponsePosition | undefined
  #quarantined: { readonly reason: QuarantineReason, readonly chainId: number } | undefined
  #verifying: Promise<void> | undefined
  #unverifiedAtMs = -Infinity
  #verifiedAtMs = -Infinity
  #reverifiedAtMs: number
  #hasLostConnection = false
  #wasDown = true

  constructor (upstream: Upstream, verification: ChainVerification, now: () => number) {
    this.#upstream = upstream
    this.#verification = verification
    this.#now = now
    this.#reverifiedAtMs = now()
    this.#contradictions = new SelfContradictions(now)
  }

  get isVerified (): boolean {
    return this.#isVerified
  }

  get isVerificationDue (): boolean {
    return !this.#isVerified || this.#hasLostConnection
  }

  get quarantineReason (): QuarantineReason | undefined {
    return this.#contradictions.isOngoing ? selfContradictionReason : this.#quarantined?.reason
  }

  get quarantinedChainId (): number | undefined {
    return this.#quarantined?.chainId
  }

  // Accepts responses without a position from a single upstream, because no other upstream's chain can mix with its
  // chain.
  get acceptsUnstamped (): boolean {
    return this.#isVerified || !this.#verification.hasPeers()
  }

  recordFetch (hasSucceeded: boolean): void {
    this.#isVerified &&= hasSucceeded
    this.#wasDown ||= !hasSucceeded
  }

  needsVerification (stamped: ResponsePosition): boolean {
    this.#markUnverifiedIfLost()
    // A quarantine for contradictions ends by time, not by a verification.
    if (this.#contradictions.isOngoing) {
      if (this.#doubted !== undefined && !mayBeSameChain(this.#doubted, stamped)) this.#contradictions.quarantine()
      this.#doubted = stamped
      return false
    }
    if (!this.#isVerified || this.#verification.isOffChain(stamped)) return true
    this.#doubted = undefined
    return false
  }

  async verify (stamped: ResponsePosition, sentAtMs: number): Promise<boolean> {
    // Ignores a response to a request sent before the last verification: it says nothing new about the upstream.
    if (this.#isVerified && sentAtMs < this.#verifiedAtMs) return false
    const isCompared = this.#verifying === undefined
    this.#verifying ??= this.#verifyOnce(stamped).finally(() => {
      this.#verifying = undefined
    })
    await this.#verifying
    return isCompared
  }

  rejectIfQuarantined (): void {
    const { quarantineReason } = this
    if (quarantineReason !== undefined) throw new QuarantinedError(`${this.#upstream.name}: ${quarantineReason}`)
  }

  rejectIfUnproven (stamped: ResponsePosition): void {
    this.rejectIfQuarantined()
    if (this.#verification.isOffChain(stamped)) throw new UnprovenPositionError(this.#upstream.name)
  }

  quarantine (): void {
    this.#contradictions.quarantine()
    this.#isVerified = false
  }

  async reverifyIfDue (stamped: ResponsePosition | undefined): Promise<void> {
    if (this.#now() - this.#reverifiedAtMs < reverifyEveryMs) return
    this.#reverifiedAtMs = this.#now()
    if (stamped === undefined || !this.#isVerified || this.#verifying !== undefined) return
    if (!await this.#verification.isSameChain(this.#upstream, stamped).catch(() => true)) this.#isVerified = false
  }

  recordSameChain (): void {
    this.#reverifiedAtMs = this.#now()
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
    const doubted = this.#doubted
    this.#doubted = this.#verification.isOffChain(stamped) ? stamped : undefined
    // An upstream that stays on another chain has contradicted itself once, not at each verification.
    const isNew = doubted === undefined || !isNear(doubted.position, stamped.position)
    let isRecorded = false
    const record = (): void => {
      if (!isRecorded) this.#contradictions.record()
      isRecorded = true
    }
    const reason = await this.#verification.verifyChain(this.#upstream, stamped, this.#wasDown, {
      doubted,
      recordContradiction: () => {
        if (isNew) record()
        return this.#contradictions.isOngoing
      },
      recordChange: record
    })
    this.#verifiedAtMs = this.#now()
    if (!this.#verification.isOffChain(stamped)) this.#doubted = undefined
    // Keeps a quarantined upstream marked as down, so that its return is verified like a return after an outage.
    this.#wasDown &&= reason !== undefined
    this.#quarantined = reason === undefined ? undefined : { reason, chainId: stamped.position.chainId }
    this.#isVerified = reason === undefined && !this.#contradictions.isOngoing
  }
}

function mayBeSameChain ({ position: a }: ResponsePosition, { position: b }: ResponsePosition): boolean {
  return a.chainId === b.chainId && !contradicts(a, b)
}

// A chain reset causes one contradiction, and a single false header another. A third within seconds has neither cause.
const maxContradictions = 3
// An upstream is trusted again after this long without a contradiction. The time doubles while contradictions go on,
// and stays below the 30 s within which an upstream recovers.
const quietMs = { first: 5000, longest: 20_000 } as const
// Forgets earlier quarantines when the last contradiction is this long ago: the next quarantine is short again.
const forgottenAfterMs = 60_000

/** Reason of the quarantine of an upstream that contradicts itself. */
export const selfContradictionReason =
  'it contradicts itself: its responses are of two chains with one chain id, or their positions are false'

/** Contradictions of one upstream with itself, which end its use for a time (law 7: chains never mix). */
export class SelfContradictions {
  readonly #now: () => number
  #atMs: readonly number[] = []
  #quietMs: number = quietMs.first
  #isOngoing = false

  constructor (now: () => number) {
    this.#now = now
  }

  /** True until the upstream has not contradicted itself for some seconds. */
  get isOngoing (): boolean {
    if (this.#isOngoing && this.#sinceLastMs >= this.#quietMs) {
      this.#isOngoing = false
      this.#quietMs = Math.min(quietMs.longest, 2 * this.#quietMs)
    }
    return this.#isOngoing
  }

  /** Records a contradiction; the third within seconds, or the next soon after a quarantine, quarantines. */
  record (): void {
    const now = this.#now()
    if (this.#sinceLastMs >= forgottenAfterMs) this.#quietMs = quietMs.first
    this.#atMs = [...this.#atMs.filter(atMs => now - atMs < quietMs.first), now]
    if (this.#quietMs > quietMs.first || this.#atMs.length >= maxContradictions) this.quarantine()
  }

  /** Quarantines at once; a quarantine in progress begins again. */
  quarantine (): void {
    this.#isOngoing = true
    this.#atMs = [this.#now()]
  }

  get #sinceLastMs (): number {
    return this.#now() - (this.#atMs.at(-1) ?? -Infinity)
  }
}

// Tolerates this difference between our clock and the chain's.
const maxClockSkewUsec = 3_600_000_000n
// Believes a timestamp in the future only once the upstream repeats it for this long.
const acceptedAfterMs = 2000

/**
 * Rejects single timestamps from the future: believing one would make every later true position look like an older
 * chain (law 7: chains never mix).
 */
export class FutureTimestampGuard {
  readonly #now: () => number
  readonly #wallClockMs: () => number
  #latestUsec: bigint | undefined
  #aheadSinceMs: number | undefined

  constructor (now: () => number, wallClockMs: () => number) {
    this.#now = now
    this.#wallClockMs = wallClockMs
  }

  /** Accepts future timestamps once they persist for 2 s: then it is our clock that is wrong. */
  accepts (timestampUsec: bigint): boolean {
    if (this.#isAhead(timestampUsec)) {
      this.#aheadSinceMs ??= this.#now()
      if (this.#now() - this.#aheadSinceMs < acceptedAfterMs) return false
    }
    this.#aheadSinceMs = undefined
    if (this.#latestUsec === undefined || timestampUsec > this.#latestUsec) this.#latestUsec = timestampUsec
    return true
  }

  #isAhead (timestampUsec: bigint): boolean {
    // Accepts the first timestamp, since nothing is known to compare it with.
    return this.#latestUsec !== undefined && timestampUsec > this.#latestUsec + maxClockSkewUsec &&
      Number(timestampUsec - maxClockSkewUsec) > this.#wallClockMs() * 1000
  }
}
