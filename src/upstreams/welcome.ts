import { type StampedPosition } from '../api/position.js'

/** Why a node is not asked for data: what it says cannot be of the chain that is served (law 7). */
export type FenceReason = string

/** A node's word was not taken, since it is fenced. */
export class Fenced extends Error {}

/** What the chain that is served makes of a node. */
export interface Welcoming {
  /**
   * Told of where a node stands that was away, or has lost a connection, before anything that it says is believed; a
   * reason where it is to be fenced.
   */
  readonly welcome: (stamped: StampedPosition, wasAway: boolean) => Promise<FenceReason | undefined>
  /** Whether a node that was believed is surely of the chain still; fails where that cannot be told now. */
  readonly recognises: (stamped: StampedPosition) => Promise<boolean>
  /**
   * Whether a position cannot be of the chain that is served, so that it is looked at again whatever was thought of it.
   */
  readonly isStrange: (stamped: StampedPosition) => boolean
}
