import { ChainEvents } from '../chain/chain-events.js'
import { Signal } from '../signal.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type UpstreamHealthState } from '../upstreams/upstream-health-state.js'

/** Events about upstreams. */
export interface UpstreamEvents {
  /** A poll, or the time since one, changed the state of an upstream. */
  readonly stateChanged: Signal<{
    readonly upstream: Upstream,
    readonly state: UpstreamHealthState,
    readonly reason: string | undefined
  }>
  /** A poll found the upstream running another release than before, or its first one. */
  readonly releaseChanged: Signal<{ readonly upstream: Upstream, readonly release: string }>
}

/** Every event between the parts of varve; `subscribers.ts` lists who reacts, in order. */
export class Events implements UpstreamEvents {
  readonly chain = new ChainEvents()
  readonly stateChanged: UpstreamEvents['stateChanged'] = new Signal()
  readonly releaseChanged: UpstreamEvents['releaseChanged'] = new Signal()
  /** An audit invalidated a wrong entry: the other processes of this varve must follow. */
  readonly purged = new Signal<Buffer>()
}
