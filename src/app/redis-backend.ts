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
import { type Invalidator } from '../proxy/invalidator.js'
import { RedisHealth } from '../redis/health.js'
import { RedisLink } from '../redis/link.js'
import { RedisSubscriber } from '../redis/subscriber.js'
import { createClient, createSubscriberClient, type RedisConnectionOptions } from '../redis/connection-options.js'
import { ReplicaSync } from '../cluster/replica-sync.js'
import { ControlRecord, type RememberedUpstream } from '../cluster/control-record.js'
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
  readonly invalidator: Invalidator
  readonly metrics: Metrics
  readonly log: Logger
  readonly now: () => number
}

/** State that replicas share through Redis, with its synchronization. */
export interface RedisBackend {
  readonly tier: RedisTier
  readonly control: ControlRecord
  readonly link: RedisLink
  /** Problems for the status page, as readable sentences. */
  degradedReasons(): string[]
  /** Connects; resolves when it is known if Redis is up. */
  start(generations: Generations): Promise<void>
  /** Reads the state of the other replicas and publishes what they lack. */
  sync(): Promise<void>
  /** Restores the chain from Redis while no upstream responds. */
  restoreChain(): Promise<void>
  purge(chain: ChainGeneration, whatOf: (chain: ChainGeneration) => Invalidation): Promise<boolean>
  publishHead(): void
  /** Counts client limits across all replicas; `alone` counts while Redis is down. */
  bucketsWithFallback(alone: Buckets): Buckets
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

/** Builds every part that uses Redis. */
export function buildRedisBackend (config: RedisConfig, parts: RedisBackendOptions): RedisBackend {
  const { keyPrefix, timeoutMs, ttlSeconds } = config
  const { tracker, metrics, now, log, invalidator, releases, rememberedUpstreams } = parts
  const connectionOptions = redisConnectionOptionsOf(config, now)
  const prefix = redisKeyPrefix(keyPrefix)
  let replicaSync: ReplicaSync | undefined
  let generations: Generations | undefined
  let buckets: RedisBuckets | undefined
  // True after Redis was down: other replicas may have started generations meanwhile (law 7).
  let mayBeOutdated = false
  const sync = async (): Promise<void> => {
    await replicaSync?.sync()
  }
  const link = new RedisLink(createClient(connectionOptions), {
    timeoutMs,
    probeKey: `${prefix}probe`,
    now,
    metrics,
    onUp: () => {
      log.info('Redis is up')
      Promise.all([health.check(), sync()]).catch(() => {})
    },
    onDown: reason => {
      mayBeOutdated = true
      log.warn({ reason }, downMessages[link.fault])
    }
  })
  const health = new RedisHealth(link)
  const keys = new ExpiringKeys(link, prefix, ttlSeconds)
  const control = new ControlRecord(keys, rememberedUpstreams)
  const isAgreed = (): boolean => generations?.isAgreed === true && !mayBeOutdated && !purges.hasPending
  const tier = new RedisTier(link, { keyPrefix, ttlSeconds, metrics, now, isAgreed })
  const subscribeTo = (channel: string, onMessage: (text: string) => void): RedisSubscriber =>
    new RedisSubscriber(attempt => createSubscriberClient(connectionOptions, attempt), channel, onMessage)
  const news = new ReplicaChannel(link, prefix, subscribeTo, message => {
    replicaSync?.receive(message)
  })
  const purges = new Purges({
    store: tier,
    log: new PurgeLog(keys),
    local: invalidator,
    chain: () => generations?.isAgreed === true ? tracker.chain : undefined,
    notifyReplicas: async chainId => {
      await news.notifyChange(chainId)
    }
  })
  return {
    tier,
    control,
    link,
    degradedReasons: () =>
      link.isUp
        ? [
          ...health.warnings,
          ...(tier.writeError === undefined ? [] : [`Redis rejects writes: ${tier.writeError}`]),
          ...(buckets?.scriptError === undefined
            ? []
            : [`Redis does not count client limits, so each process counts alone: ${buckets.scriptError}`]),
          ...(purges.hasPending || generations?.isPurgeAllPending === true
            ? ['Redis tier not read: purges are not delivered yet']
            : [])
        ]
        : [`Redis ${link.fault}: ${link.lastError}`],
    start: async chosenGenerations => {
      generations = chosenGenerations
      replicaSync = new ReplicaSync({
        link,
        control,
        generations,
        purges,
        news,
        tracker,
        releases,
        now,
        onStateRead: () => {
          mayBeOutdated = false
        },
        onSyncEnd: () => {
          tier.resumeWrites()
        }
      })
      await link.start()
      news.start()
      health.start()
      replicaSync.start()
    },
    sync,
    restoreChain: async () => {
      await replicaSync?.restoreChain().catch(() => {})
    },
    purge: async (chain, whatOf) => await purges.purge(chain, whatOf),
    publishHead: () => {
      if (tracker.chain !== undefined && tracker.stamped !== undefined) {
        news.publishHead(tracker.chain.generation, tracker.stamped)
      }
    },
    bucketsWithFallback: fallback => (buckets = new RedisBuckets(link, prefix, fallback, now)),
    stop: async () => {
      replicaSync?.stop()
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
