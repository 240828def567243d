import { type ResponsePosition } from '../api/position.js'
import { type SpaceRecord } from '../chain/space.js'

/** Sign of life of a peer: a rising number, and the releases of its upstreams. */
export interface Heartbeat {
  readonly id: string
  readonly beat: number
  readonly releases: readonly string[]
}

/** Message to the other peers. */
export type PeerMessage =
  /** Announces that shared records changed. */
  | { readonly kind: 'changed' }
  /** Brings a position to which a response moved the sender. */
  | { readonly kind: 'head', readonly stamped: ResponsePosition }

/** Subject of a message: a peer drops what is of another configuration, release or space. */
export interface PeerScope {
  readonly configuration?: string | undefined
  readonly release?: string | undefined
  readonly space?: string | undefined
}

/** Message with its subject. */
export type SentMessage = PeerMessage & PeerScope

/** Space that an upstream last had. */
export type LastSpace = Pick<SpaceRecord, 'chainId' | 'name'>

/** Purge of one read, which each process applies in its own space. */
export interface Purge {
  readonly id: string
  /** Space in which the tier that peers share was purged. */
  readonly space: string
  /** The read, in the form of the purge route. */
  readonly request: string
}
