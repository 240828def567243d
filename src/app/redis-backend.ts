import { readFileSync } from 'node:fs'
import { type Logger } from 'pino'
import { RedisTier, redisKeyPrefix, type Invalidation } from '../cache/redis-tier.js'
import { type Buckets } from '../clients/buckets.js'
import { RedisBuckets } from '../clients/redis-buckets.js'
import { type Config, hostAndPort } from '../config/schema.js'
import { type ChainGeneration, type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { DnsCache } from '../upstreams/dns-cache.js'
import { type LiveReleases } from '../upstreams/live-releases.js'
import { type LocalInvalidator } from '../proxy/local-invalidator.js'
import { RedisHealth } from '../redis/health.js'
import { RedisLink } from '../redis/link.js'
import { RedisSubscriber } from '../redis/subscriber.js'
import { createClient, createSubscriberClient, type RedisConnectionOptions } from '../redis/connection-options.js'
import { ReplicaSync } from '../cluster/replica-sync.js'
import { ControlRecord, type RememberedUpstream } from '../cluster/control-record.js'
import { Agreement } from '../cluster/agreement.js'
import { type GenerationRegistry } from '../chain/generation-registry.js'
import { type Generations } from '../chain/generations.js'
import { ReplicaChannel } from '../cluster/replica-channel.js'
import { PurgeLog } from '../cluster/purge-log.js'
import { Purges } from '../cluster/purges.js'
import { ExpiringKeys } from '../cluster/expiring-keys.js'
import { withTimeout } from '../with-timeout.js'

type RedisConfig = Config['cache']['redis']

/** Parts that the Redis backend needs. */
export interface RedisBackendOptions {
  readonly rememberedUpstreams: () => readonly RememberedUpstream[]
  readonly tracker: Tracker
  readonly releases: LiveReleases
  readonly invalidator: LocalInvalidator
  /** Counts client limits of this process alone, while Redis is down. */
  readonly localBuckets: Buckets
  readonly metrics: Metrics
  readonly log: Logger
  readonly now: () => number
}

/** Redis before its backend is built: generations are chosen with the registry, and the backend needs them. */
export interface PreparedRedis {
  readonly registry: GenerationRegistry
  buildBackend(generations: Generations): RedisBackend
}

/** State that replicas share through Redis, with its synchronization. */
export interface RedisBackend {
  readonly tier: RedisTier
  readonly link: RedisLink
  /** Counts client limits across all replicas. */
  readonly buckets: Buckets
  /** Problems for the status page, as readable sentences. */
  degradedReasons(): string[]
  /** Connects; resolves when it is known if Redis is up. */
  start(): Promise<void>
  /** Reads the state of the other replicas and publishes what they lack. */
  sync(): Promise<void>
  /** Restores the chain from Redis while no upstream responds. */
  restoreChain(): Promise<void>
  purge(chain: ChainGeneration, whatOf: (chain: ChainGeneration) => Invalidation): Promise<boolean>
  publishHead(): void
  stop(): Promise<void>
}

// Time limit for pending writes of a stopping process, which other replicas can use.
const finalWritesMs = 1000
const downMessages = {
  'authentication failed': 'Redis authentication failed: reads go on without it',
  unreachable: 'Redis unreachable: reads go on without it'
} as const
// Time limit for a DNS lookup of a Redis host.
const dnsTimeoutMs = 2000

/** Builds the link to Redis and the registry of generations, without connecting. */
export function prepareRedisBackend (config: RedisConfig, options: RedisBackendOptions): PreparedRedis {
  const { keyPrefix, timeoutMs, ttlSeconds } = config
  const { metrics, now, rememberedUpstreams } = options
  const connectionOptions = redisConnectionOptionsOf(config, now)
  const prefix = redisKeyPrefix(keyPrefix)
  const link = new RedisLink(createClient(connectionOptions), { timeoutMs, probeKey: `${prefix}probe`, now, metrics })
  const keys = new ExpiringKeys(link, prefix, ttlSeconds)
  const control = new ControlRecord(keys, rememberedUpstreams)
  const channel = new ReplicaChannel(
    link,
    prefix,
    channel => new RedisSubscriber(attempt => createSubscriberClient(connectionOptions, attempt), channel)
  )
  return {
    registry: control,
    buildBackend: generations =>
      redisBackendOf(config, options, { link, prefix, keys, control, news: channel, generations })
  }
}

/** Parts that the backend is built on. */
interface BackendParts {
  readonly link: RedisLink
  readonly prefix: string
  readonly keys: ExpiringKeys
  readonly control: ControlRecord
  readonly news: ReplicaChannel
  readonly generations: Generations
}

function redisBackendOf (
  { keyPrefix, ttlSeconds }: RedisConfig,
  { tracker, metrics, now, log, invalidator, releases, localBuckets }: RedisBackendOptions,
  { link, prefix, keys, control, news, generations }: BackendParts
): RedisBackend {
  const health = new RedisHealth(link)
  const buckets = new RedisBuckets(link, prefix, localBuckets, now)
  const agreement = new Agreement(generations, tracker)
  const tier = new RedisTier(link, { keyPrefix, ttlSeconds, metrics, now, isAgreed: () => agreement.isReached })
  const purges = new Purges({
    store: tier,
    log: new PurgeLog(keys),
    local: invalidator,
    agreement,
    notifyReplicas: async chainId => {
      await news.notifyChange(chainId)
    }
  })
  const replicaSync = new ReplicaSync({
    link,
    control,
    generations,
    agreement,
    tier,
    purges,
    news,
    tracker,
    releases,
    now
  })
  return {
    tier,
    link,
    buckets,
    degradedReasons: () =>
      link.isUp
        ? [
          ...health.warnings,
          ...(tier.writeError === undefined ? [] : [`Redis rejects writes: ${tier.writeError}`]),
          ...(buckets.scriptError === undefined
            ? []
            : [`Redis does not count client limits, so each process counts alone: ${buckets.scriptError}`]),
          ...(purges.hasPending || generations.isPurgeAllPending
            ? ['Redis tier not read: purges are not delivered yet']
            : [])
        ]
        : [`Redis ${link.fault}: ${link.lastError}`],
    start: async () => {
      await link.start({
        onUp: () => {
          log.info('Redis is up')
          Promise.all([health.check(), replicaSync.sync()]).catch(() => {})
        },
        onDown: reason => {
          agreement.suspend()
          log.warn({ reason }, downMessages[link.fault])
        }
      })
      news.start(message => {
        replicaSync.receive(message)
      })
      health.start()
      replicaSync.start()
    },
    sync: async () => {
      await replicaSync.sync()
    },
    restoreChain: async () => {
      await replicaSync.restoreChain().catch(() => {})
    },
    purge: async (chain, whatOf) => await purges.purge(chain, whatOf),
    publishHead: () => {
      if (tracker.chain !== undefined && tracker.stamped !== undefined) {
        news.publishHead(tracker.chain.generation, tracker.stamped)
      }
    },
    stop: async () => {
      replicaSync.stop()
      health.stop()
      await withTimeout(finalWritesMs, tier.waitUntilIdle())
      tier.close()
      news.stop()
      link.stop()
    }
  }
}

function redisConnectionOptionsOf (
  { cluster, sentinel, caFile, ...rest }: RedisConfig,
  now: () => number
): RedisConnectionOptions {
  return {
    ...rest,
    cluster: cluster.map(hostAndPort),
    sentinel: { ...sentinel, hosts: sentinel.hosts.map(hostAndPort) },
    ca: caFile === null ? undefined : readFileSync(caFile, 'utf8'),
    lookup: new DnsCache({ now, timeoutMs: dnsTimeoutMs }).lookup
  }
}
