import { type ToForget } from '../cache/shared-store.js'
import { type Anchor } from './anchors.js'
import { type StampedPosition } from '../api/position.js'

/** What replicas know of a generation of a chain. */
export interface KnownGeneration {
  readonly anchors: readonly Anchor[]
  readonly head: StampedPosition | undefined
  /**
   * Whether its entries came in by a file, and no node has been held against its anchors yet: it counts only with
   * proof.
   */
  readonly isUnproven?: true
}

/** What is known of a generation that nobody has told of. */
export const nothingKnown: KnownGeneration = { anchors: [], head: undefined }

/**
 * What a replica says of itself: a number that rises, so that the others see that it lives, and the releases that its
 * nodes run.
 */
export interface Sign {
  readonly beat: number
  readonly releases: readonly string[]
}

/**
 * Which chain and generation an upstream had, and what that chain is known by should everything else that was known of
 * it be lost.
 */
export interface UpstreamChain extends KnownGeneration {
  readonly chainId: number
  readonly generation: number
}

/** What replicas tell each other at once: that there is something to look at, or where the chain stands. */
export type Message =
  | { readonly kind: 'look', readonly chainId: number }
  | { readonly kind: 'head', readonly generation: number, readonly stamped: StampedPosition }

/** A purge, by a name of its own. */
export interface Purge extends ToForget {
  readonly id: string
}
