import { type ResponsePosition } from '../api/position.js'

/** Message for operators: why an upstream cannot be on our chain (law 7: chains never mix). */
export type QuarantineReason = string

/** Error for a response of a quarantined upstream, which is never used. */
export class QuarantinedError extends Error {}

/**
 * Error for a response whose position, without a proof, contradicts our chain or jumps ahead of it; the response is
 * never used.
 */
export class UnprovenPositionError extends Error {
  constructor (upstream: string) {
    super(`${upstream} sent a position that nothing proves`)
  }
}

/**
 * Guards one upstream's responses, so that none of another chain is used (law 7: chains never mix); `chain/` decides.
 */
export interface ChainGuard {
  /**
   * True once the upstream's chain was verified, until the upstream fails, loses a connection, or the chain is reset.
   */
  readonly isVerified: boolean
  /** True if the next response with a position is verified before it is used. */
  readonly isVerificationDue: boolean
  /** Says why the upstream gets no data requests; undefined unless quarantined. */
  readonly quarantineReason: QuarantineReason | undefined
  /** Chain id that a quarantined upstream serves. */
  readonly quarantinedChainId: number | undefined
  /** True if a response without position headers may be used, although it may be of any chain. */
  readonly acceptsUnstamped: boolean
  /** Records the end of a request; after a failure the upstream is verified again. */
  recordFetch(hasSucceeded: boolean): void
  /** True if the upstream must be verified before a response with this position is used. */
  needsVerification(stamped: ResponsePosition): boolean
  /**
   * Verifies the upstream; concurrent callers share one verification. Resolves with true if the verification compared
   * this position. Rejects while the result cannot be known.
   */
  verify(stamped: ResponsePosition, sentAtMs: number): Promise<boolean>
  /** Throws if the position is still not believed after a verification. */
  rejectIfUnproven(stamped: ResponsePosition): void
  /** Quarantines the upstream for some seconds, because it contradicts itself. */
  quarantine(): void
  /** Throws QuarantinedError if the upstream is quarantined. */
  rejectIfQuarantined(): void
  /** Verifies again if a routine check is due; a check that cannot run changes nothing. */
  reverifyIfDue(stamped: ResponsePosition | undefined): Promise<void>
  /** Records that another read has just shown our chain, so that no routine check is due. */
  recordSameChain(): void
  /** Forces a new verification before the next response is used. */
  markUnverified(): void
  /** Treats a lost connection as a possible restart on another chain; returns true if a poll should verify it now. */
  recordConnectionLost(): boolean
  /** Follows a chain reset; a quarantine ends if its chain id has become ours. */
  resetChain(chainId: number | undefined): void
}
