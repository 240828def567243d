import { type Invalidation } from '../cache/invalidation.js'
import { type ResponsePosition } from '../api/position.js'

/** Sign of life of a replica: a rising number, and the releases of its upstreams. */
export interface Heartbeat {
  readonly beat: number
  readonly releases: readonly string[]
}

/** Pub/sub messages between replicas: the shared records changed, or there is a new head. */
export type ReplicaMessage =
  | { readonly kind: 'changed', readonly chainId: number }
  | { readonly kind: 'head', readonly generation: number, readonly stamped: ResponsePosition }

/** An invalidation with a unique id. */
export interface Purge extends Invalidation {
  readonly id: string
}
