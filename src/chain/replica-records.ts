import { type Invalidation } from '../cache/redis-tier.js'
import { type Anchor } from './anchors.js'
import { type StampedPosition } from '../api/position.js'

/** Anchors and head of a generation. */
export interface KnownGeneration {
  readonly anchors: readonly Anchor[]
  readonly head: StampedPosition | undefined
}

/** Record of a generation without known anchors or head. */
export const nothingKnown: KnownGeneration = { anchors: [], head: undefined }

/** Sign of life of a replica: a rising number, and the releases of its upstreams. */
export interface Heartbeat {
  readonly beat: number
  readonly releases: readonly string[]
}

/** Chain and generation that an upstream last had, with anchors that prove it after the control record is lost. */
export interface UpstreamChain extends KnownGeneration {
  readonly chainId: number
  readonly generation: number
}

/** Pub/sub messages between replicas: read the shared records again, or a new head. */
export type Message =
  | { readonly kind: 'look', readonly chainId: number }
  | { readonly kind: 'head', readonly generation: number, readonly stamped: StampedPosition }

/** An invalidation with a unique id. */
export interface Purge extends Invalidation {
  readonly id: string
}
