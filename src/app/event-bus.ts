import { ChainEvents } from '../chain/chain-events.js'
import { TypedEvent } from '../typed-event.js'
import { type Upstream, type UpstreamState } from '../upstreams/upstream.js'

/** Events about upstreams. */
export interface UpstreamEvents {
  /** A poll, or the time since one, changed the state of an upstream. */
  readonly stateChanged: TypedEvent<{
    readonly upstream: Upstream,
    readonly state: UpstreamState,
    readonly reason: string | undefined
  }>
  /** A poll found the upstream running another release than before, or its first one. */
  readonly releaseChanged: TypedEvent<{ readonly upstream: Upstream, readonly release: string }>
}

/** Every event between the parts of varve; `subscribers.ts` lists who reacts, in order. */
export class EventBus implements UpstreamEvents {
  readonly chain = new ChainEvents()
  readonly stateChanged: UpstreamEvents['stateChanged'] = new TypedEvent()
  readonly releaseChanged: UpstreamEvents['releaseChanged'] = new TypedEvent()
}
