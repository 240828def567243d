import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { contradicts, type Tracker } from '../chain/tracker.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'
import { HeadPoll } from '../chain/head-poll.js'
import { type HedgeMetrics } from '../upstreams/hedger.js'
import { type LiveReleases } from '../upstreams/live-releases.js'
import { Upstream } from '../upstreams/upstream.js'
import { UpstreamClient, type UpstreamMetrics, type Transport } from '../upstreams/upstream-client.js'
import { type Generations } from '../chain/generations.js'
import { upstreamStateLoggerOf } from './upstream-state-log.js'
import { type ChainVerifier } from '../chain/chain-verifier.js'

/** Shared parts that every monitored upstream needs. */
export interface UpstreamMonitorOptions {
  readonly now: () => number
  readonly tracker: Tracker
  readonly releases: LiveReleases
  readonly metrics: UpstreamMetrics & HedgeMetrics
  readonly log: Logger
  /** Verifies chains against anchors; a function because generations are built after upstreams. */
  readonly generations: () => Generations
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
  /** Starts polling; resolves after the first poll, also if that failed. */
  start(): Promise<void>
  /** Resolves after the first poll; polls once if polling has not started. */
  firstPoll(): Promise<void>
}

/** Access to the other upstreams, which may be built later or replaced by a reload. */
export interface MonitorContext {
  readonly pool: () => UpstreamPool
  readonly chainVerifier: () => ChainVerifier
  /** All upstreams in configuration order. */
  readonly monitored: () => readonly MonitoredUpstream[]
}

const bytesPerMb = 1024 * 1024
// An upstream behind an open connection can change its chain, so it is verified again (law 7).
const recheckEveryMs = 10_000

/** Builds the client and the health polling of one upstream. */
export function monitorUpstream (
  config: NamedUpstream,
  { cache, head: { pollMs } }: Config,
  options: UpstreamMonitorOptions,
  context: MonitorContext
): MonitoredUpstream {
  const { now, tracker, releases, metrics, log, generations } = options
  const { name } = config
  const hasPeers = (): boolean => context.monitored().length > 1
  let firstPoll: Promise<void> | undefined
  const onConnectionLost = (): void => {
    if (upstream.recordConnectionLost() && hasPeers()) poll.poll().catch(() => {})
  }
  const client = new UpstreamClient({
    ...config,
    onConnectionLost,
    maxBufferedBytes: cache.maxEntryMb * bytesPerMb,
    now,
    wallClockMs: () => performance.timeOrigin + now(),
    ...(options.probeTransportOf && { probeTransport: options.probeTransportOf(config) })
  }, metrics)
  const upstream: Upstream = new Upstream(client, {
    now,
    hasPeers,
    isSameChain: async stamped => await context.chainVerifier().isSameChain(upstream, stamped, true),
    isOffChain: ({ position }) =>
      tracker.position !== undefined &&
      (position.chainId !== tracker.chainId || contradicts(position, tracker.position)),
    verifyChain: async (stamped, wasDown) => {
      const all = context.monitored()
      const earlier = all.slice(0, all.indexOf(monitored))
      // When upstreams disagree at the start, the first in configuration order that responds decides the chain.
      if (all.every(other => !other.upstream.isVerified)) {
        await Promise.all(earlier.map(async other => {
          if (other.upstream.isUnknown) await other.firstPoll()
        }))
      }
      return await context.chainVerifier().verifyChain(upstream, stamped, wasDown)
    }
  })
  const logState = upstreamStateLoggerOf(upstream, log)
  let recheckedAt = now()
  const poll = new HeadPoll(async question => await context.pool().probe(upstream, question), tracker, {
    pollMs,
    now,
    // An upstream that rate limits us gets no polls either, until its backoff ends.
    isDue: () =>
      !upstream.health.isBackingOff &&
      (!upstream.isUp || !upstream.isVerified || upstream.windowTracker.ageMs >= pollMs),
    onState: state => {
      if (state === 'unanswered' && upstream.health.isUp && !upstream.health.isBackingOff) upstream.markSilent()
      logState()
    },
    onRelease: release => {
      client.setRelease(release)
      releases.record(release, name)
    },
    onTick: () => {
      if (now() - recheckedAt >= recheckEveryMs) {
        recheckedAt = now()
        upstream.reverify().catch(() => {})
      }
      if (
        upstream === context.pool().referenceUpstream && upstream.isVerified &&
        upstream.windowTracker.stamped !== undefined
      ) {
        generations().renewAnchors(upstream.windowTracker.stamped).catch(() => {})
      }
      logState()
    }
  })
  const monitored: MonitoredUpstream = {
    config,
    upstream,
    poll,
    start: async () => {
      await (firstPoll = poll.start())
    },
    firstPoll: async () => {
      await (firstPoll ?? poll.poll())
    }
  }
  return monitored
}
