import { type ResponsePosition } from '../api/position.js'
import { type SpaceRecord } from '../chain/space.js'

/** Sign of life of a replica: a rising number, and the releases of its upstreams. */
export interface Heartbeat {
  readonly beat: number
  readonly releases: readonly string[]
}

/** Pub/sub messages between replicas: the shared records changed, or there is a new head. */
export type ReplicaMessage =
  | { readonly kind: 'changed', readonly chainId: number }
  | { readonly kind: 'head', readonly space: string, readonly stamped: ResponsePosition }

/** Space that an upstream last had. */
export type LastSpace = Pick<SpaceRecord, 'chainId' | 'name'>

/** Purge of one read, which each process applies in its own space. */
export interface Purge {
  readonly id: string
  /** Space in which the lower tier that replicas share was purged. */
  readonly space: string
  /** The read, in the form of the purge route. */
  readonly request: string
}
