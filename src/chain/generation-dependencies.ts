import { type Anchor } from './anchors.js'
import { type ResponsePosition } from '../api/position.js'
import { type ChainEvents } from './chain-events.js'
import { type Tracker } from './tracker.js'
import { type GenerationRegistry } from './generation-registry.js'

/** An upstream to compare: its position, and reads of its chain. */
export interface ComparedUpstream {
  readonly stamped: ResponsePosition
  readonly readBlock: (height: bigint) => Promise<Anchor | undefined>
  /** Reads blocks from a verified peer; undefined where there is none. */
  readonly readPeerBlock: ((height: bigint) => Promise<Anchor | undefined>) | undefined
}

/** An upstream to verify, which another chain may come from. */
export interface UnverifiedUpstream extends ComparedUpstream {
  /** Resolves with true if no other upstream responds that may be on our chain. */
  readonly isLastReachable: () => Promise<boolean>
  /** Returns true if the upstream contradicts itself too often to follow it to another chain. */
  readonly recordContradiction: () => boolean
  /** Records that the chain was changed to the upstream's. */
  readonly recordChange: () => void
}

/** Parts that choosing a generation needs. */
export interface GenerationDependencies {
  readonly tracker: Tracker
  /** Undefined without replicas: the tracker then takes the new number itself at a reset. */
  readonly registry: GenerationRegistry | undefined
  /** Reads the final block of a height from a verified upstream; rejects when the read fails. */
  readonly readBlock: (height: bigint) => Promise<Anchor | undefined>
  /** Reads the head of a verified upstream; undefined where none responds. */
  readonly readHead: () => Promise<ResponsePosition | undefined>
  readonly now: () => number
  readonly events: ChainEvents
}
