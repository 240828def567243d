import { type StampedPosition } from '../api/position.js'

/** Message for operators: why an upstream cannot be on our chain (law 7: chains never mix). */
export type QuarantineReason = string

/** Error for a response of a quarantined upstream, which is never used. */
export class QuarantinedError extends Error {}

/** Checks that an upstream serves our chain. */
export interface ChainVerification {
  /**
   * Verifies the chain before any response is used; resolves to a reason to quarantine the upstream.
   */
  readonly verifyChain: (stamped: StampedPosition, wasDown: boolean) => Promise<QuarantineReason | undefined>
  /** Confirms a verified upstream without deciding anything; rejects where it cannot check now. */
  readonly isSameChain: (stamped: StampedPosition) => Promise<boolean>
  /** True when a position contradicts our chain, so that even a verified upstream is verified again. */
  readonly isOffChain: (stamped: StampedPosition) => boolean
}
