import { type Logger } from 'pino'
import { Compressor } from '../cache/compressor.js'
import { MemoryTier } from '../cache/memory-tier.js'
import { FreshCoalescer, Coalescer } from '../cache/coalescer.js'
import { ParsedRequestCache } from '../cache/parsed-request-cache.js'
import { StreamEnds } from '../proxy/events/stream-ends.js'
import { StreamNames } from '../proxy/events/stream-names.js'
import { type Buckets, LocalBuckets } from '../clients/buckets.js'
import { cipherListOf } from '../config/ciphers.js'
import { type Config } from '../config/schema.js'
import { VersionWaits } from '../chain/version-waits.js'
import { LowestRequestedVersion } from '../proxy/lowest-requested-version.js'
import { Tracker } from '../chain/tracker.js'
import { Metrics } from '../metrics/metrics.js'
import { LiveReleases } from '../upstreams/live-releases.js'
import { AuditSampler } from '../proxy/audit-sampler.js'
import { LocalInvalidator } from '../proxy/local-invalidator.js'
import { type RequestVariantCache } from '../proxy/request-variant-entry.js'
import { isHistoryShareable, isShareable } from '../proxy/outcomes.js'
import { type ProxyContext, type ProxySettings } from '../proxy/proxy-context.js'
import { PrunedErrors } from '../api/pruned-errors.js'
import { FailedRefreshes } from '../proxy/failed-refreshes.js'
import { Generations } from '../chain/generations.js'
import { chainSourceOf, ChainVerifier } from '../chain/chain-verifier.js'
import { Certificate } from '../http/certificate.js'
import { withTimeout } from '../with-timeout.js'
import { auditInvalidatorOf } from './invalidate-audited.js'
import { keepHeapLean } from './lean-heap.js'
import { Events } from './events.js'
import { subscribe, type WorkerSubscribers } from './subscribers.js'
import { UpstreamMonitor } from './upstream-monitor.js'
import { UpstreamLifecycle } from './upstream-lifecycle.js'
import { type MonitoredUpstreamOptions } from './monitored-upstream.js'
import { type RedisBackend, type prepareRedisBackend } from './redis-backend.js'
import { versionOfProgram } from './version.js'

/** Connects a worker to the other processes; all absent when varve runs as one process. */
export interface WorkerHooks extends WorkerSubscribers {
  readonly probeTransportOf?: MonitoredUpstreamOptions['probeTransportOf']
  /** Counts what clients consume for all workers; absent, this process counts alone. */
  readonly buckets?: Buckets
}

/** Everything below the listeners. */
export interface Components {
  readonly proxy: ProxyContext
  readonly metrics: Metrics
  readonly upstreams: UpstreamMonitor
  readonly upstreamLifecycle: UpstreamLifecycle
  readonly generations: Generations
  readonly redisBackend: RedisBackend | undefined
  /** Counts client limits, across replicas with Redis. */
  readonly buckets: Buckets
  /** Certificate of a public TLS listener; undefined without TLS. */
  readonly certificate: Certificate | undefined
}

const bytesPerMb = 1024 * 1024
const restoreChainAfterMs = 1000
// Memory for parsed requests, as a share of the memory tier and in addition to it.
const parsedRequestShare = 1 / 8
const minParsedRequestBytes = 4 * bytesPerMb

/** Builds every part that serves a read; uses Redis only if `prepareRedis` is given. */
export function buildComponents (
  config: Config,
  sandboxUrl: string | undefined,
  log: Logger,
  prepareRedis: typeof prepareRedisBackend | undefined,
  hooks: WorkerHooks
): Components {
  const metrics = new Metrics()
  const now = (): number => performance.now()
  const events = new Events()
  const certificate = certificateOf(config, now, log)
  const memory = new MemoryTier(config.cache.memory.maxMb * bytesPerMb, metrics, now, keepHeapLean)
  const streamNames = new StreamNames(now, () => {
    memory.dropMemos()
  })
  const invalidator = new LocalInvalidator(memory, streamNames)
  const lowestRequested = new LowestRequestedVersion(now)
  const tracker = new Tracker(config.chainId ?? undefined, now, events.chain, prepareRedis !== undefined)
  const upstreams = new UpstreamMonitor(tracker, now)
  const releases = new LiveReleases(now, name => upstreams.pool.isUp(name))
  const versionWaits = new VersionWaits(tracker, {
    now,
    requestPoll: () => {
      upstreams.pollHealthy()
    }
  })
  const localBuckets = hooks.buckets ?? new LocalBuckets(now)
  const redis = prepareRedis?.(config.cache.redis, {
    rememberedUpstreams: () => upstreams.rememberedUpstreams,
    tracker,
    releases,
    invalidator,
    localBuckets,
    metrics,
    log,
    now
  })
  const generations = new Generations({
    tracker,
    registry: redis?.registry,
    ...chainSourceOf(upstreams.pool),
    now,
    events: events.chain
  })
  const chainVerifier = new ChainVerifier({
    pool: upstreams.pool,
    generations,
    tracker,
    waitForEarlier: async upstream => {
      await upstreams.waitForEarlier(upstream)
    },
    now
  })
  const redisBackend = redis?.buildBackend(generations)
  const proxy: ProxyContext = {
    now,
    tracker,
    versionWaits,
    lowestRequested,
    memory,
    compressor: new Compressor(memory),
    redisTier: redisBackend?.tier,
    invalidator,
    auditSampler: new AuditSampler(
      auditInvalidatorOf({
        invalidator,
        redisBackend,
        purged: events.purged,
        log,
        now
      }),
      async upstream => {
        await upstreams.poll(upstream)
      }
    ),
    streamEnds: new StreamEnds(),
    streamNames,
    historyCoalescer: new Coalescer(isHistoryShareable),
    redisCoalescer: new Coalescer(() => true),
    latestCoalescer: new FreshCoalescer(isShareable),
    upstreamPool: upstreams.pool,
    releases,
    resolveChain: async () => {
      const polled = upstreams.resolveChain()
      // Redis may restore the chain when upstreams are slow; without Redis only an upstream can name it.
      await (redisBackend === undefined ? polled : withTimeout(restoreChainAfterMs, polled))
      await generations.waitUntilChosen()
      await redisBackend?.restoreChain()
      if (tracker.chain === undefined) await polled
    },
    prunedErrors: new PrunedErrors(),
    failedRefreshes: new FailedRefreshes(now),
    metrics,
    settings: proxySettingsOf(config)
  }
  subscribe(events, {
    log,
    metrics,
    upstreams,
    generations,
    versionWaits,
    invalidator,
    lowestRequested,
    releases,
    redisBackend,
    workers: hooks
  })
  // Fills the pool after everything that its upstreams report to is in place.
  const upstreamLifecycle = new UpstreamLifecycle(config, {
    monitor: upstreams,
    now,
    tracker,
    generations,
    chainVerifier,
    metrics,
    events,
    probeTransportOf: hooks.probeTransportOf,
    sandboxUrl
  })
  metrics.registerGauges({
    tracker,
    versionWaits,
    lowestRequested,
    memory,
    upstreamPool: upstreams.pool,
    redis: redisBackend?.link,
    version: versionOfProgram(),
    isSandbox: sandboxUrl !== undefined,
    certificate
  })
  return {
    proxy,
    metrics,
    upstreams,
    upstreamLifecycle,
    generations,
    redisBackend,
    buckets: redisBackend?.buckets ?? localBuckets,
    certificate
  }
}

function certificateOf (
  { tls: { certFile, keyFile, minVersion, ciphers } }: Config,
  now: () => number,
  log: Logger
): Certificate | undefined {
  if (certFile === null || keyFile === null) return undefined
  const policy = { minVersion: minVersion === 1.3 ? 'TLSv1.3' : 'TLSv1.2', ciphers: cipherListOf(ciphers) } as const
  return new Certificate({ certFile, keyFile, policy, wallClockMs: () => performance.timeOrigin + now(), log })
}

/** Builds the cache of parsed requests, sized as a share of the memory tier. */
export function parsedRequestCacheOf ({ cache }: Config): RequestVariantCache {
  return new ParsedRequestCache(Math.max(minParsedRequestBytes, cache.memory.maxMb * bytesPerMb * parsedRequestShare))
}

/** Picks the settings that decide how reads are served. */
export function proxySettingsOf (
  { mode, audit, waitForVersion, latest, pages, pruned, headers }: Config
): ProxySettings {
  return {
    isObserving: mode === 'observe',
    promoteLatest: latest.promote,
    auditShare: audit.share,
    stateMs: latest.stateMs,
    infoMs: latest.infoMs,
    indexMs: latest.indexMs,
    gasMs: latest.gasMs,
    waitMs: waitForVersion.ms,
    waitBlocks: waitForVersion.blocks,
    eventsTtlMs: pages.eventsTtlSeconds * 1000,
    eventsDefault: pages.eventsDefault,
    servePruned: pruned.serveCached,
    answerLocally: pruned.answerLocally,
    pinsPages: pages.pinned,
    emit: headers.emit
  }
}
