import { type Anchor } from './anchors.js'
import { type StampedPosition } from '../api/position.js'
import { type Tracker } from './tracker.js'
import { type Control } from '../cluster/control.js'

/** What is told of the chain's generations. */
export interface GenerationEvents {
  /** Keys are of another generation from now on. */
  onGeneration(generation: number): void
  /** Another replica was the first to notice that the chain is another one. */
  onReplaced(): void
  /** Replicas that share this Redis read another chain of the same name. */
  onRival(generation: number): void
}

/** A node that is to be believed or not: what it says of its chain, and whether it is the last one to ask. */
export interface Newcomer {
  readonly stamped: StampedPosition
  readonly readBlock: (height: bigint) => Promise<Anchor | undefined>
  /** The same of another node, which is believed; undefined where there is none. */
  readonly readPeerBlock: ((height: bigint) => Promise<Anchor | undefined>) | undefined
  /** Whether no node that answers is left on the chain that is keyed by. */
  readonly isAlone: () => Promise<boolean>
}

/** What deciding between generations needs. */
export interface GenerationOptions {
  readonly tracker: Tracker
  /** Undefined where nothing is shared. */
  readonly control: Control | undefined
  /** The final block of a height, as a node that is believed has it now; fails where that one does. */
  readonly readBlock: (height: bigint) => Promise<Anchor | undefined>
  /** Where such a node stands now; undefined where none answers. */
  readonly readHead: () => Promise<StampedPosition | undefined>
  readonly now: () => number
  readonly events: GenerationEvents
}
