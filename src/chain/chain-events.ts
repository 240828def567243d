import { type ResponsePosition } from '../api/position.js'
import { TypedEvent } from '../typed-event.js'

/** Events about the chain that keys name and about its head; `app/subscribers.ts` lists who reacts. */
export class ChainEvents {
  /** A response proved that another chain with the same chain id replaced ours. */
  readonly reset = new TypedEvent<ResponsePosition>()
  /** Another replica noticed a chain reset first. */
  readonly resetByReplica = new TypedEvent()
  /** Keys name this generation from now on. */
  readonly generationChanged = new TypedEvent<number>()
  /** Replicas that share this Redis read another chain with the same chain id as this generation. */
  readonly conflictingChain = new TypedEvent<number>()
  /** A response of an upstream moved the position forward. */
  readonly headAdvanced = new TypedEvent<ResponsePosition>()
  /** The served head moved forward, by a response or by another replica. */
  readonly servedHeadAdvanced = new TypedEvent()
}
