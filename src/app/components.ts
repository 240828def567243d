import { setFlagsFromString } from 'node:v8'
import { type Logger } from 'pino'
import { Compressor } from '../cache/compressor.js'
import { MemoryTier } from '../cache/memory-tier.js'
import { type LowerTier } from '../cache/tier.js'
import { FreshCoalescer, Coalescer } from '../cache/coalescer.js'
import { LastKnownEvents } from '../proxy/last-known-events.js'
import { type TokenBuckets, LocalBuckets } from '../clients/token-buckets.js'
import { cipherListOf } from '../config/ciphers.js'
import { bytesPerMb } from '../config/units.js'
import { inFlightMbOf } from '../config/in-flight-memory.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { VersionWaits } from '../chain/version-waits.js'
import { LowestRecentRequest } from '../proxy/history-forecast.js'
import { ChainChanges } from '../chain/chain-changes.js'
import { Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { HeadPollers, WaiterPolls } from '../upstreams/head-pollers.js'
import { InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { UpstreamPool } from '../upstreams/upstream-pool.js'
import { AuditSampler } from '../proxy/audit-sampler.js'
import { LocalInvalidator } from '../proxy/local-invalidator.js'
import { isShareable } from '../proxy/outcomes.js'
import { type ProxyContext } from '../proxy/proxy-context.js'
import { PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { Spaces } from '../chain/spaces.js'
import { noCarrier, Peers } from '../peers/peers.js'
import { PeerSync } from '../peers/peer-sync.js'
import { referenceOf, ChainVerifier } from '../chain/chain-verifier.js'
import { Certificate } from '../http/certificate.js'
import { withTimeout } from '../with-timeout.js'
import { auditDifferenceListener } from './audit-differences.js'
import { EventBus } from './event-bus.js'
import { type FollowChannel, Following } from './following.js'
import { subscribeAll, type WorkerNotifier } from './subscribers.js'
import { UpstreamLifecycle } from './upstream-lifecycle.js'
import { type MonitoredUpstreamOptions } from './monitored-upstream.js'
import { type RedisBackend, type prepareRedisBackend } from './redis-backend.js'
import { type DiskBackend, type diskBackendOf } from './disk-backend.js'
import { type UsedFolder } from './local-disk-folder.js'
import { proxySettingsOf } from './part-settings.js'
import { versionOfProgram } from './version.js'

/** Connects a worker to the other processes; all absent when varve runs as one process. */
export interface WorkerHooks extends WorkerNotifier {
  readonly following?: FollowChannel
  readonly probeTransportOf?: MonitoredUpstreamOptions['probeTransportOf']
  /** Counts what clients consume for all workers; absent, this process counts alone. */
  readonly buckets?: TokenBuckets
  /** Names of upstreams that are out of service already. */
  readonly cordoned?: readonly string[]
  /** Folder of the disk tier, which all workers use. */
  readonly folder?: UsedFolder | undefined
}

/** Everything below the listeners. */
export interface Components {
  readonly proxy: ProxyContext
  readonly upstreamPool: UpstreamPool
  readonly headPollers: HeadPollers
  /** Names of upstreams that an operator took out of service; a reload keeps them, a restart does not. */
  readonly cordons: Set<string>
  readonly upstreamLifecycle: UpstreamLifecycle
  readonly following: Following
  readonly spaces: Spaces
  readonly peers: Peers
  readonly peerSync: PeerSync
  readonly redisBackend: RedisBackend | undefined
  readonly diskBackend: DiskBackend | undefined
  /** Counts client limits, across replicas with Redis. */
  readonly buckets: TokenBuckets
  /** Certificate of a public TLS listener; undefined without TLS. */
  readonly certificate: Certificate | undefined
}

const restoreChainAfterMs = 1000

/** Parts that are loaded and opened only if they are configured. */
export interface OptionalParts {
  readonly prepareRedis?: typeof prepareRedisBackend | undefined
  readonly disk?: DiskParts | undefined
}

/** Disk tier and its folder. */
export interface DiskParts {
  readonly folder: UsedFolder
  readonly diskBackendOf: typeof diskBackendOf
}

/** Builds every part that serves a read. */
export function buildComponents (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  metrics: Metrics,
  { prepareRedis, disk }: OptionalParts,
  hooks: WorkerHooks
): Components {
  const now = (): number => performance.now()
  const events = new EventBus()
  const certificate = certificateOf(config, now, log)
  const memory = new MemoryTier(config.cache.memory.maxMb * bytesPerMb, metrics, now, keepHeapLean)
  const inFlight = new InFlightBytes(inFlightMbOf({ ...config, workers: 1 }) * bytesPerMb, now)
  const lowestRequested = new LowestRecentRequest(now)
  const tracker = new Tracker(
    config.chainId ?? undefined,
    now,
    events.chain,
    prepareRedis !== undefined || disk !== undefined,
    new ChainChanges(now)
  )
  const headPollers = new HeadPollers(() => tracker.position !== undefined, now)
  const upstreamPool = new UpstreamPool({
    onOldest: oldest => {
      tracker.setOldest(oldest)
    },
    onAllQuarantined: async () => {
      await headPollers.pollQuarantined()
    }
  })
  const releases = new UpstreamSoftwareReleases(now, name => upstreamPool.isUp(name))
  const followParts = { tracker, upstreamPool, headPollers, memory, channel: hooks.following }
  const following = new Following(config, { ...followParts, metrics, log, now })
  const versionWaits = new VersionWaits(
    tracker,
    new WaiterPolls(() => {
      headPollers.pollForWaiters()
      following.follower?.catchUp()
    }, now)
  )
  const cordons = new Set(hooks.cordoned)
  const localBuckets = hooks.buckets ?? new LocalBuckets(now)
  const redis = prepareRedis?.(config.cache.redis, {
    maxEntryBytes: config.cache.maxEntryMb * bytesPerMb,
    rememberedUpstreams: () =>
      upstreamPool.upstreams.map(upstream => ({
        url: upstream.client.url,
        isOnChain: () => upstream.window !== undefined
      })),
    tracker,
    releases,
    localBuckets,
    inFlight,
    metrics,
    log,
    now
  })
  const peers = new Peers(redis?.carrier ?? noCarrier, () => ({ space: tracker.space?.name }))
  const places = [redis?.place, disk?.folder.spaces].filter(place => place !== undefined)
  const spaces = new Spaces({
    tracker,
    places,
    reference: referenceOf(upstreamPool),
    now,
    events: events.chain
  })
  const chainVerifier = new ChainVerifier({
    pool: upstreamPool,
    spaces,
    tracker,
    waitForEarlier: async client => {
      await headPollers.waitForEarlier(client)
    },
    now
  })
  const diskBackend = disk?.diskBackendOf(disk.folder, {
    maxEntryBytes: config.cache.maxEntryMb * bytesPerMb,
    tracker,
    spaces,
    metrics,
    inFlight,
    now
  })
  // No replica shares the disk, so it gets every purge; workers that share it repeat the work of the first.
  const invalidator = new LocalInvalidator(memory, diskBackend === undefined ? [] : [diskBackend.tier])
  const redisBackend = redis?.buildBackend(spaces, invalidator, peers)
  const peerSync = new PeerSync({
    spaces,
    places,
    tracker,
    notifyPeers: () => {
      peers.publish({ kind: 'changed' })
    },
    redis: redisBackend?.shared,
    now
  })
  const lowerTiers: LowerTier[] = [diskBackend?.tier, redisBackend?.tier].filter(tier => tier !== undefined)
  const proxy: ProxyContext = {
    now,
    tracker,
    versionWaits,
    lowestRequested,
    memory,
    compressor: new Compressor(memory),
    lowerTiers,
    invalidator,
    auditSampler: new AuditSampler(
      auditDifferenceListener({
        invalidator,
        sharedTier: redisBackend,
        purged: events.purged,
        log,
        now
      }),
      async upstream => {
        await headPollers.poll(upstream)
      }
    ),
    lastKnownEvents: new LastKnownEvents(),
    historyCoalescer: new Coalescer(isShareable),
    lowerTierCoalescer: new Coalescer(() => true),
    latestCoalescer: new FreshCoalescer(isShareable),
    upstreamPool,
    follower: following.follower,
    inFlight,
    releases,
    resolveChain: async () => {
      const polled = headPollers.resolveChain()
      // A lower tier may restore the chain when upstreams are slow; without one only an upstream can name it.
      await (lowerTiers.length === 0 ? polled : withTimeout(restoreChainAfterMs, polled))
      await spaces.waitUntilChosen()
      await spaces.restore()
      if (tracker.space !== undefined) await peerSync.sync().catch(() => {})
      if (tracker.space === undefined) await polled
    },
    prunedErrorBuilder: new PrunedErrorBuilder(),
    failedRefreshes: new WeakMap(),
    metrics,
    settings: proxySettingsOf(config)
  }
  subscribeAll(events, {
    log,
    metrics,
    tracker,
    upstreamPool,
    headPollers,
    spaces,
    versionWaits,
    invalidator,
    lowerTiers,
    lowestRequested,
    following,
    peers,
    peerSync,
    workers: hooks
  })
  // Fills the pool after everything that its upstreams report to is in place.
  const upstreamLifecycle = new UpstreamLifecycle(config, {
    pool: upstreamPool,
    headPollers,
    now,
    tracker,
    spaces,
    chainVerifier,
    releases,
    metrics,
    events,
    inFlight,
    cordons,
    probeTransportOf: hooks.probeTransportOf,
    sandbox
  })
  metrics.registerGauges({
    tracker,
    versionWaits,
    lowestRequested,
    tiers: [memory, ...lowerTiers],
    upstreamPool,
    inFlight,
    redis: redisBackend?.link,
    version: versionOfProgram(),
    isSandbox: sandbox !== undefined,
    certificate
  })
  return {
    proxy,
    upstreamPool,
    headPollers,
    cordons,
    upstreamLifecycle,
    following,
    spaces,
    peers,
    peerSync,
    redisBackend,
    diskBackend,
    buckets: redisBackend?.buckets ?? localBuckets,
    certificate
  }
}

/** Loads the certificate of the public listener; undefined without TLS. Throws if it is unusable. */
export function certificateOf (
  { tls: { certFile, keyFile, minVersion, ciphers } }: Config,
  now: () => number,
  log: Pick<Logger, 'info' | 'error'>
): Certificate | undefined {
  if (certFile === null || keyFile === null) return undefined
  const policy = { minVersion: minVersion === 1.3 ? 'TLSv1.3' : 'TLSv1.2', ciphers: cipherListOf(ciphers) } as const
  return new Certificate({ certFile, keyFile, policy, wallClockMs: () => performance.timeOrigin + now(), log })
}

/**
 * Lets the heap grow by 20 % before the next collection; V8 would allow it to double, so evicted entries would
 * accumulate. Hits pay nothing; misses pay (bench/NOTES.md).
 */
function keepHeapLean (): void {
  setFlagsFromString('--heap-growing-percent=20')
}
