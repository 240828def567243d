import { type Config } from '../config/schema.js'
import { type Tracker } from '../chain/tracker.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'
import { HeadPoll } from '../chain/head-poll.js'
import { type ChainVerifier } from '../chain/chain-verifier.js'
import { type Generations } from '../chain/generations.js'
import { Signal } from '../signal.js'
import { Upstream } from '../upstreams/upstream.js'
import { UpstreamClient, type UpstreamMetrics, type Transport } from '../upstreams/upstream-client.js'
import { type UpstreamEvents } from './events.js'

/** Parts that every monitored upstream needs. */
export interface MonitoredUpstreamOptions {
  readonly now: () => number
  readonly tracker: Tracker
  readonly pool: UpstreamPool
  readonly generations: Generations
  readonly chainVerifier: ChainVerifier
  readonly metrics: UpstreamMetrics
  readonly events: UpstreamEvents
  /** Sends polls through another process; absent, this process polls by itself. */
  readonly probeTransportOf?: ((upstream: NamedUpstream) => Transport) | undefined
}

/** Configured upstream after a name was assigned. */
export type NamedUpstream = Config['upstreams'][number] & { readonly name: string }

/** Configured upstream with its health polling. */
export interface MonitoredUpstream {
  readonly config: NamedUpstream
  readonly upstream: Upstream
  readonly poll: HeadPoll
}

const bytesPerMb = 1024 * 1024

/** Builds the client and the health polling of one upstream. */
export function monitorUpstream (
  config: NamedUpstream,
  { cache, head: { pollMs } }: Config,
  options: MonitoredUpstreamOptions
): MonitoredUpstream {
  const { now, tracker, pool, generations, chainVerifier, metrics, events } = options
  const connectionLost = new Signal()
  const client = new UpstreamClient({
    ...config,
    onConnectionLost: () => {
      connectionLost.publish()
    },
    maxBufferedBytes: cache.maxEntryMb * bytesPerMb,
    now,
    wallClockMs: () => performance.timeOrigin + now(),
    ...(options.probeTransportOf && { probeTransport: options.probeTransportOf(config) })
  }, metrics)
  const upstream = new Upstream(client, chainVerifier, now)
  const poll = new HeadPoll(async request => await pool.probe(upstream, request), tracker, {
    pollMs,
    now,
    // An upstream that rate limits us gets no polls either, until its backoff ends.
    isDue: () =>
      !upstream.health.isBackingOff &&
      (!upstream.isUp || !upstream.isVerified || upstream.windowTracker.ageMs >= pollMs),
    onState: state => {
      if (state === 'unanswered' && upstream.health.isUp && !upstream.health.isBackingOff) upstream.markSilent()
      events.polled.publish(upstream)
    },
    onRelease: release => {
      events.releaseSeen.publish({ upstream, release })
    },
    onTick: () => {
      upstream.reverifyIfDue().catch(() => {})
      const { stamped } = upstream.windowTracker
      if (upstream === pool.referenceUpstream && upstream.isVerified && stamped !== undefined) {
        generations.renewAnchors(stamped).catch(() => {})
      }
      events.polled.publish(upstream)
    }
  })
  connectionLost.subscribe(() => {
    if (upstream.recordConnectionLost() && chainVerifier.hasPeers()) poll.poll().catch(() => {})
  })
  return { config, upstream, poll }
}
