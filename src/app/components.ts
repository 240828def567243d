import { setFlagsFromString } from 'node:v8'
import { type Logger } from 'pino'
import { Compressor } from '../cache/compressor.js'
import { MemoryTier } from '../cache/memory-tier.js'
import { FreshCoalescer, Coalescer } from '../cache/coalescer.js'
import { LastKnownEvents } from '../proxy/last-known-events.js'
import { type TokenBuckets } from '../clients/token-buckets.js'
import { bytesPerMb } from '../config/units.js'
import { inFlightMbOf } from '../config/in-flight-memory.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { VersionWaits } from '../chain/version-waits.js'
import { LowestRecentRequest } from '../proxy/history-forecast.js'
import { ChainEvents } from '../chain/chain-events.js'
import { ChainChanges } from '../chain/chain-changes.js'
import { Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { HeadPollers, WaiterPolls } from '../upstreams/head-pollers.js'
import { InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { SharedProbes } from '../upstreams/shared-probes.js'
import { UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { UpstreamPool } from '../upstreams/upstream-pool.js'
import { AuditSampler } from '../proxy/audit-sampler.js'
import { LocalInvalidator } from '../proxy/local-invalidator.js'
import { isShareable } from '../proxy/outcomes.js'
import { type ProxyContext } from '../proxy/proxy-context.js'
import { PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { Spaces } from '../chain/spaces.js'
import { FetchLeases } from '../peers/fetch-leases.js'
import { Peers } from '../peers/peers.js'
import { PeerSync } from '../peers/peer-sync.js'
import { RecordedSpaces } from '../peers/recorded-spaces.js'
import { referenceOf, ChainVerifier } from '../chain/chain-verifier.js'
import { type Certificate, certificateOf } from '../http/certificate.js'
import { withTimeout } from '../with-timeout.js'
import { auditDifferenceListener } from './purger.js'
import { Following } from './following.js'
import { subscribeAll } from './subscribers.js'
import { UpstreamLifecycle } from './upstream-lifecycle.js'
import { type Host } from './host.js'
import { type RedisBackend, type RedisConnection } from './redis.js'
import { diskBackendOf, type StoreBackend } from './stores.js'
import { type HostLog } from '../peers/ipc-log.js'
import { versionOfProgram } from './io.js'

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
  readonly fetchLeases: FetchLeases | undefined
  readonly probes: SharedProbes
  readonly peerSync: PeerSync
  readonly redisBackend: RedisBackend | undefined
  /** Tiers below memory, in the order of look-ups. */
  readonly backends: readonly StoreBackend[]
  /** Counts client limits, across replicas with Redis. */
  readonly buckets: TokenBuckets
  /** Certificate of a public TLS listener; undefined without TLS. */
  readonly certificate: Certificate | undefined
}

const restoreChainAfterMs = 1000

/** Parts that are opened only if they are configured. */
export interface OptionalParts {
  readonly redis: RedisConnection | undefined
  readonly log: HostLog | undefined
}

/** Builds every part that serves a read. */
export function buildComponents (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  metrics: Metrics,
  { redis, log: diskLog }: OptionalParts,
  host: Host
): Components {
  const now = (): number => performance.now()
  const events = new ChainEvents()
  const certificate = certificateOf(config, now, log)
  const memory = new MemoryTier(config.cache.memory.maxMb * bytesPerMb, metrics, now, keepHeapLean)
  const inFlight = new InFlightBytes(inFlightMbOf({ ...config, workers: 1 }) * bytesPerMb, now)
  const lowestRequested = new LowestRecentRequest(now)
  const tracker = new Tracker(
    config.chainId ?? undefined,
    now,
    events,
    redis !== undefined || diskLog !== undefined || host.carrier.hostRecords !== undefined,
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
  const cordons = new Set(host.cordoned)
  const release = versionOfProgram()
  const peers: Peers = new Peers(
    redis?.carrier ?? host.carrier,
    () => ({ configuration: host.configuration, release, space: tracker.space?.name })
  )
  const probes = new SharedProbes({
    lease: async (...lease) => await host.lease(...lease),
    release: async name => await host.release(name),
    publish: result => {
      peers.publish({ kind: 'polled', ...result })
    }
  })
  const { hostRecords } = host.carrier
  const ofRedis = redis &&
    new RecordedSpaces(redis.carrier.redisRecords, () =>
      upstreamPool.upstreams.map(upstream => ({
        url: upstream.settings.url,
        isOnChain: () => upstream.window !== undefined
      })))
  const ofHost = hostRecords && new RecordedSpaces(hostRecords, () => [])
  const places = [ofRedis, ofHost, diskLog?.place].filter(place => place !== undefined)
  const spaces = new Spaces({
    tracker,
    places,
    reference: referenceOf(upstreamPool),
    now,
    events
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
  const diskBackend = diskLog && diskBackendOf(diskLog, {
    maxEntryBytes: config.cache.maxEntryMb * bytesPerMb,
    tracker,
    spaces,
    metrics,
    inFlight,
    now
  })
  // No other host shares the disk, so it gets every purge.
  const invalidator = new LocalInvalidator(memory, diskBackend === undefined ? [] : [diskBackend.store])
  const redisBackend = redis && ofRedis && redis.backendOf({
    config: config.cache,
    place: ofRedis,
    peers,
    spaces,
    invalidator,
    tracker,
    releases,
    localBuckets: host.buckets,
    inFlight,
    metrics,
    log,
    now
  })
  const leasePlaces = [redisBackend?.leases, host.leasesOf(peers)].filter(place => place !== undefined)
  const fetchLeases = leasePlaces.length === 0 ? undefined : new FetchLeases({
    places: leasePlaces,
    now,
    leased: result => {
      metrics.leased('fetch', result)
    }
  })
  const following: Following = new Following(config, {
    tracker,
    upstreamPool,
    headPollers,
    memory,
    metrics,
    log,
    now,
    channel: {
      demand: demand => {
        peers.publish({ kind: 'demand', demand })
        host.lease('tail', Infinity).then(isGranted => {
          if (!isGranted) return
          following.lead()
          following.onDemand(demand)
        }, () => {})
      },
      publish: event => {
        peers.publish({ kind: 'tail', event })
      }
    },
    hostTailOf: parts => redisBackend?.tailOf(parts)
  })
  const versionWaits = new VersionWaits(
    tracker,
    new WaiterPolls(() => {
      headPollers.pollForWaiters()
      following.follower?.catchUp()
    }, now)
  )
  const peerSync = new PeerSync({
    spaces,
    places,
    tracker,
    peers,
    redis: redisBackend?.shared,
    host: host.configuration,
    lease: async (...lease) => await host.lease(...lease),
    now
  })
  const backends: StoreBackend[] = [diskBackend, redisBackend].filter(backend => backend !== undefined)
  const lowerTiers = backends.map(({ store }) => store)
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
        shared: redisBackend,
        purgeOthers: body => {
          host.purgeOthers(body)
        },
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
    fetchLeases,
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
    settings: config
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
    lowestRequested,
    following,
    peers,
    peerSync
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
    log,
    metrics,
    inFlight,
    cordons,
    sendProbe: async (...probe) => await probes.fetch(...probe),
    peerHeadAgeMs: () => Math.min(tracker.peerHeadAgeMs, following.peerHeadAgeMs),
    shared: {
      buckets: redisBackend?.budgets ?? host.budgets,
      processes: () => config.workers * peerSync.hosts,
      hosts: () => peerSync.hosts
    },
    sandbox
  })
  metrics.registerGauges({
    tracker,
    peers: peerSync,
    versionWaits,
    lowestRequested,
    tiers: [memory, ...lowerTiers],
    upstreamPool,
    inFlight,
    redis: redisBackend?.link,
    version: release,
    isSandbox: sandbox !== undefined,
    prices: config.savings.pricePerMillion,
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
    fetchLeases,
    probes,
    peerSync,
    redisBackend,
    backends,
    buckets: redisBackend?.buckets ?? host.buckets,
    certificate
  }
}

/**
 * Lets the heap grow by 20 % before the next collection; V8 would allow it to double, so evicted entries would
 * accumulate. Hits pay nothing; misses pay (bench/NOTES.md).
 */
function keepHeapLean (): void {
  setFlagsFromString('--heap-growing-percent=20')
}
