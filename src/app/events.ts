import { ChainEvents } from '../chain/chain-events.js'
import { Signal } from '../signal.js'
import { type Upstream } from '../upstreams/upstream.js'

/** Events about upstreams. */
export interface UpstreamEvents {
  /** A poll ended, or its interval passed: the upstream's state may have changed. */
  readonly polled: Signal<Upstream>
  /** A poll reported the release that the upstream runs; published for every such poll. */
  readonly releaseSeen: Signal<{ readonly upstream: Upstream, readonly release: string }>
}

/** Every event between the parts of varve; `subscribers.ts` lists who reacts, in order. */
export class Events implements UpstreamEvents {
  readonly chain = new ChainEvents()
  readonly polled: UpstreamEvents['polled'] = new Signal()
  readonly releaseSeen: UpstreamEvents['releaseSeen'] = new Signal()
  /** An audit invalidated a wrong entry: the other processes of this varve must follow. */
  readonly purged = new Signal<Buffer>()
}
