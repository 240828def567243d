import { type Logger } from 'pino'
import { type Generations } from '../chain/generations.js'
import { type VersionWaits } from '../chain/version-waits.js'
import { type Metrics } from '../metrics/metrics.js'
import { type LocalInvalidator } from '../proxy/local-invalidator.js'
import { type LowestRequestedVersion } from '../proxy/lowest-requested-version.js'
import { type LiveReleases } from '../upstreams/live-releases.js'
import { type Events } from './events.js'
import { type RedisBackend } from './redis-backend.js'
import { type UpstreamMonitor } from './upstream-monitor.js'
import { upstreamStateLogger } from './upstream-state-log.js'

/** Parts that react to events. */
export interface Subscribers {
  readonly log: Logger
  readonly metrics: Metrics
  readonly upstreams: UpstreamMonitor
  readonly generations: Generations
  readonly versionWaits: VersionWaits
  readonly invalidator: LocalInvalidator
  readonly lowestRequested: LowestRequestedVersion
  readonly releases: LiveReleases
  readonly redisBackend: RedisBackend | undefined
  /** Reactions of the worker pool; absent when varve runs as one process. */
  readonly workers: WorkerSubscribers
}

/** Notifications for the other processes of this varve. */
export interface WorkerSubscribers {
  /** Runs after a response moved the position forward. */
  readonly onAdvanced?: () => void
  /** Runs after the upstreams turned out to serve another chain (law 7: chains never mix). */
  readonly onChainReset?: () => void
  /** Publishes a purge that the other processes have to follow, because the cached bytes are wrong. */
  readonly onInvalidated?: (purge: Buffer) => void
}

/** Registers every reaction to an event; within an event the order below is the order of the calls. */
export function subscribe (events: Events, parts: Subscribers): void {
  subscribeToChain(events, parts)
  subscribeToUpstreams(events, parts)
  // Other workers follow after Redis, or they could read the wrong entry from it again.
  events.purged.subscribe(purge => parts.workers.onInvalidated?.(purge))
}

function subscribeToChain (
  { chain }: Events,
  { log, metrics, upstreams, generations, versionWaits, invalidator, lowestRequested, redisBackend, workers }:
    Subscribers
): void {
  // Counts and logs first, so that a reset shows even if a later reaction fails.
  chain.reset.subscribe(() => {
    metrics.chainReset()
    log.warn('chain reset: a new key generation starts')
  })
  // Windows and verification belong to the old chain, and the choice of a generation reads upstreams.
  chain.reset.subscribe(() => {
    upstreams.resetChain()
  })
  // Drops the anchors of the old chain, and changes the generation, which invalidates everything cached.
  chain.reset.subscribe(stamped => {
    generations.recordReset(stamped)
  })
  // Workers count resets before they get the first head of the new chain.
  chain.reset.subscribe(() => workers.onChainReset?.())

  // Upstreams reset one after another, so some may still serve the old chain.
  chain.resetByReplica.subscribe(() => {
    upstreams.resetChain()
  })
  chain.resetByReplica.subscribe(() => {
    metrics.chainReset()
    log.warn('chain reset reported by another replica')
  })
  chain.resetByReplica.subscribe(() => workers.onChainReset?.())

  // Nothing of the old generation may be served from now on.
  chain.generationChanged.subscribe(() => {
    invalidator.invalidateAll()
  })
  // Versions of the old chain say nothing about the new one.
  chain.generationChanged.subscribe(() => {
    lowestRequested.clear()
  })
  // Queued writes carry the previous generation, which may belong to another chain (law 7: chains never mix).
  chain.generationChanged.subscribe(() => redisBackend?.tier.dropAllQueued())
  chain.generationChanged.subscribe(generation => {
    log.info({ generation }, 'key generation changed')
  })
  // Other replicas learn of the generation last, once this one has switched.
  chain.generationChanged.subscribe(() => {
    redisBackend?.sync().catch(() => {})
  })

  chain.conflictingChain.subscribe(generation => {
    log.error(
      { generation },
      'another chain with the same chain id uses this Redis and this keyPrefix: give each chain its own keyPrefix'
    )
  })

  // Replicas and workers share heads, so that none serves an older one than another did.
  chain.headAdvanced.subscribe(() => redisBackend?.publishHead())
  chain.headAdvanced.subscribe(() => workers.onAdvanced?.())
  chain.servedHeadAdvanced.subscribe(() => {
    versionWaits.finishReached()
  })
}

function subscribeToUpstreams ({ polled, releaseSeen }: Events, { log, releases }: Subscribers): void {
  polled.subscribe(upstreamStateLogger(log))
  // Entries name the release that rendered them, so the client has it before the first comparison.
  releaseSeen.subscribe(({ upstream, release }) => {
    upstream.client.setRelease(release)
  })
  releaseSeen.subscribe(({ upstream, release }) => {
    releases.record(release, upstream.client.name)
  })
}
