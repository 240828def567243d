import { type ResponsePosition } from '../api/position.js'
import { type Space } from './space.js'
import { TypedEvent } from '../typed-event.js'

/** Events about the chain that keys name and about its head; `app/subscribers.ts` lists who reacts. */
export class ChainEvents {
  /** Another chain with the same chain id replaced ours, in the space `from`; a response or another peer proved it. */
  readonly reset = new TypedEvent<{ readonly from: string | undefined, readonly by: 'response' | 'peer' }>()
  /** Keys name this space from now on. */
  readonly spaceChanged = new TypedEvent<Space>()
  /** Peers that share this Redis read another chain with the same chain id, in the space of this name. */
  readonly conflictingChain = new TypedEvent<string>()
  /** A response of an upstream moved the position forward. */
  readonly headAdvanced = new TypedEvent<ResponsePosition>()
  /** The served head moved forward, by a response or by another peer. */
  readonly servedHeadAdvanced = new TypedEvent()
}
