import { type StampedPosition } from '../api/position.js'
import { type Upstream } from './upstream.js'

/** Message for operators: why an upstream cannot be on our chain (law 7: chains never mix). */
export type QuarantineReason = string

/** Error for a response of a quarantined upstream, which is never used. */
export class QuarantinedError extends Error {}

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
