import { setFlagsFromString } from 'node:v8'
import { type Logger } from 'pino'
import { MemoryTier } from '../cache/memory-tier.js'
import { bytesPerMb, inFlightMbOf } from '../config/units.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { hasRedis } from '../config/value-checks.js'
import { VersionWaits } from '../chain/version-waits.js'
import { LowestRecentRequest } from '../proxy/pruned-reads.js'
import { type Metrics } from '../metrics/metrics.js'
import { InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { SharedProbes } from '../upstreams/shared-probes.js'
import { AuditSampler } from '../proxy/audit.js'
import { LocalInvalidator } from '../proxy/local-invalidator.js'
import { readState } from '../proxy/serve-read.js'
import { FetchLeases } from '../peers/fetch-leases.js'
import { type EntryLog } from '../peers/ipc-carrier.js'
import { PeerSync } from '../peers/peer-sync.js'
import { certificateOf } from '../http/certificate.js'
import { type ProxyParts } from '../http/send-response.js'
import { withTimeout } from '../with-timeout.js'
import { type Carrier } from '../peers/peers.js'
import { buildChain, type Host } from './chain.js'
import { auditDifferenceListener } from './purger.js'
import { Following } from './following.js'
import { UpstreamLifecycle } from './upstream-lifecycle.js'
import { type RedisConnection } from './redis.js'
import { diskBackendOf } from './disk-backend.js'
import { type StoreBackend } from './store-backend.js'
import { versionOfProgram } from './io.js'

const restoreChainAfterMs = 1000

/** Builds the connection to Redis, if one is configured; `ofHost` may reach Redis for all processes of this host. */
export async function openRedis (
  config: Config,
  metrics: Metrics,
  ofHost: Carrier
): Promise<RedisConnection | undefined> {
  return hasRedis(config.cache.redis)
    ? new (await import('./redis.js')).RedisConnection(config.cache.redis, metrics, () => performance.now(), ofHost)
    : undefined
}

/** Everything below the listeners. */
export type Components = ReturnType<typeof buildComponents>

/** Builds every part that serves a read. */
export function buildComponents (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  metrics: Metrics,
  redis: RedisConnection | undefined,
  entryLog: EntryLog | undefined,
  host: Host
) {
  const chain = buildChain(config, host, redis?.carrier, entryLog)
  const { now, tracker, headPollers, upstreamPool, releases, peers, ofRedis, ofLog, spaces } = chain
  const certificate = certificateOf(config, now, log)
  const memory = new MemoryTier(config.cache.memory.maxMb * bytesPerMb, metrics, now, keepHeapLean)
  const inFlight = new InFlightBytes(inFlightMbOf({ ...config, workers: 1 }) * bytesPerMb, now)
  const lowestRequested = new LowestRecentRequest(now)
  const parts = { ...chain, config, memory, inFlight, log, metrics }
  const diskBackend = entryLog && ofLog && diskBackendOf(entryLog, { ...parts, place: ofLog })
  // The disk gets every purge, because it belongs to this host and no other host purges it.
  const invalidator = new LocalInvalidator(memory, diskBackend === undefined ? [] : [diskBackend.store])
  const redisBackend = redis && ofRedis && redis.backendOf({
    ...parts,
    place: ofRedis,
    invalidator,
    localBuckets: host.buckets
  })
  const backends: StoreBackend[] = [diskBackend, redisBackend].filter(backend => backend !== undefined)
  const lowerTiers = backends.map(({ store }) => store)
  const leasePlaces = [redisBackend?.leases, host.leasesOf(peers)].filter(place => place !== undefined)
  const fetchLeases = leasePlaces.length === 0 ? undefined : new FetchLeases({
    places: leasePlaces,
    now,
    leased: result => metrics.leased('fetch', result)
  })
  const following = new Following(config, {
    ...parts,
    lease: host.lease,
    hostTailOf: parts => redisBackend?.tailOf(parts)
  })
  const versionWaits = new VersionWaits(tracker, () => {
    headPollers.pollForWaiters()
    following.follower?.catchUp()
  }, now)
  const peerSync = new PeerSync({
    ...chain,
    redis: redisBackend?.shared,
    host: host.configuration,
    lease: host.lease
  })
  const probes = new SharedProbes({
    lease: host.lease,
    release: host.release,
    publish: result => peers.publish({ kind: 'polled', ...result })
  })
  const proxy: ProxyParts = {
    ...readState(memory),
    now,
    tracker,
    versionWaits,
    lowestRequested,
    memory,
    lowerTiers,
    invalidator,
    auditSampler: new AuditSampler(
      auditDifferenceListener({ ...parts, invalidator, redisBackend, purgeOthers: host.purgeOthers }),
      async upstream => await headPollers.poll(upstream)
    ),
    fetchLeases,
    upstreamPool,
    follower: following.follower,
    inFlight,
    releases,
    resolveChain: async () => {
      const polled = headPollers.resolveChain()
      // A lower tier may restore the chain when upstreams are slow; without such a tier only an upstream can name the
      // chain.
      await (lowerTiers.length === 0 ? polled : withTimeout(restoreChainAfterMs, polled))
      await spaces.waitUntilChosen()
      await spaces.restore()
      if (tracker.space !== undefined) await peerSync.sync().catch(() => {})
      if (tracker.space === undefined) await polled
    },
    metrics,
    settings: config
  }
  const cordons = new Set(host.cordoned)
  const upstreamLifecycle = new UpstreamLifecycle(config, {
    ...parts,
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
  const tiers = [memory, ...lowerTiers]
  const isSandbox = sandbox !== undefined
  metrics.registerGauges({
    ...parts,
    peers: peerSync,
    versionWaits,
    lowestRequested,
    tiers,
    redis: redisBackend?.link,
    version: versionOfProgram(),
    isSandbox,
    prices: config.savings.pricePerMillion,
    certificate
  })
  return {
    ...parts,
    proxy,
    tiers,
    isSandbox,
    cordons,
    upstreamLifecycle,
    following,
    versionWaits,
    lowestRequested,
    invalidator,
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
 * accumulate. The cost falls on misses, not on hits (bench/NOTES.md).
 */
function keepHeapLean (): void {
  setFlagsFromString('--heap-growing-percent=20')
}
