import { type ResponsePosition } from '../api/position.js'
import { type Space } from './space.js'
import { TypedEvent } from '../typed-event.js'

/** Events about the chain that keys name and about its head; `app/subscribers.ts` lists who reacts. */
export class ChainEvents {
  /** A response proved that another chain with the same chain id replaced ours, in the space of this name. */
  readonly reset = new TypedEvent<string | undefined>()
  /** Another peer noticed first that another chain replaced ours, in the space of this name. */
  readonly resetByPeer = new TypedEvent<string>()
  /** Keys name this space from now on. */
  readonly spaceChanged = new TypedEvent<Space>()
  /** Peers that share this Redis read another chain with the same chain id, in the space of this name. */
  readonly conflictingChain = new TypedEvent<string>()
  /** A response of an upstream moved the position forward. */
  readonly headAdvanced = new TypedEvent<ResponsePosition>()
  /** The served head moved forward, by a response or by another peer. */
  readonly servedHeadAdvanced = new TypedEvent()
}
