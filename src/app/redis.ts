import { readFileSync } from 'node:fs'
import { type Logger } from 'pino'
import { redisKeyPrefix, RedisTier } from '../cache/redis-tier.js'
import { type Config } from '../config/schema.js'
import { hostAndPort } from '../config/value-checks.js'
import { RedisCarrier } from '../peers/redis-carrier.js'
import { createClient, createSubscriberClient, type RedisConnectionOptions } from '../redis/create-client.js'
import { RedisLink, type RedisMetrics } from '../redis/link.js'
import { RedisSubscriber } from '../redis/subscriber.js'
import { DnsCache } from '../upstreams/dns.js'
import { noBuckets, type TokenBuckets } from '../clients/token-buckets.js'
import { RedisBuckets } from '../clients/redis-buckets.js'
import { bytesPerMb } from '../config/units.js'
import { type LocalInvalidator } from '../proxy/local-invalidator.js'
import { RedisSettingsCheck } from '../redis/settings-check.js'
import { type Carrier, reachesRedis } from '../peers/peers.js'
import { RedisLeases } from '../peers/fetch-leases.js'
import { RedisTail } from '../peers/redis-tail.js'
import { Purges, PurgeState } from '../peers/purges.js'
import { type Records } from '../peers/records.js'
import { type Chain } from './chain.js'
import { type HostTailParts } from './following.js'
import { invalidationOfPurge } from './purger.js'
import { type BackendParts, type StoreBackend } from './store-backend.js'

type RedisConfig = Config['cache']['redis']

// Time limit for a DNS lookup of a Redis host.
const dnsTimeoutMs = 2000

/** Parts that the Redis backend needs. */
export interface RedisBackendParts extends BackendParts, Pick<Chain, 'peers' | 'releases'> {
  readonly invalidator: LocalInvalidator
  /** Counts client limits while Redis is down. */
  readonly localBuckets: TokenBuckets
  readonly log: Logger
}

const downMessages = {
  'authentication failed': 'Redis authentication failed: reads go on without it',
  unreachable: 'Redis unreachable: reads go on without it'
} as const

const scriptWarnings = {
  limit: 'Redis does not count limits, so each process counts alone',
  lease: 'Redis grants no leases, so each host fetches for itself',
  tail: 'Redis has no digests, so each host follows for itself'
} as const

/** Connection of a process to the configured Redis; this file is loaded only if Redis is configured. */
export class RedisConnection {
  readonly link: RedisLink
  readonly carrier: Carrier & { readonly redisRecords: Records }

  /** Does not connect yet; `ofHost` may carry messages and records for all processes of this host. */
  constructor (config: RedisConfig, metrics: RedisMetrics, now: () => number, ofHost: Carrier) {
    const options = redisConnectionOptionsOf(config, now)
    const prefix = redisKeyPrefix(config.keyPrefix)
    this.link = new RedisLink(createClient(options), {
      timeoutMs: config.timeoutMs,
      probeKey: `${prefix}probe`,
      now,
      metrics
    })
    this.carrier = reachesRedis(ofHost)
      ? ofHost
      : new RedisCarrier(
        this.link,
        prefix,
        config.ttlSeconds,
        channel => new RedisSubscriber(attempt => createSubscriberClient(options, attempt), channel)
      )
  }

  /** Builds what this process shares through Redis, with the parts that keep its entries right; connects nothing. */
  backendOf (parts: RedisBackendParts) {
    const { link, carrier } = this
    const { redisRecords: records } = carrier
    const { config, place, peers, spaces, invalidator, tracker, releases, inFlight, metrics, log, now } = parts
    const { maxEntryMb, redis: { keyPrefix, ttlSeconds } } = config.cache
    const prefix = redisKeyPrefix(keyPrefix)
    const settingsCheck = new RedisSettingsCheck(link)
    const buckets = new RedisBuckets(link, prefix, parts.localBuckets, now)
    const budgets = new RedisBuckets(link, prefix, noBuckets, now)
    const purgeState = new PurgeState()
    const tier = new RedisTier(link, {
      keyPrefix,
      ttlSeconds,
      maxEntryBytes: maxEntryMb * bytesPerMb,
      metrics,
      inFlight,
      now,
      space: () => spaces.isIn(place) && purgeState.isAppliedIn(tracker.space) ? tracker.space : undefined
    })
    const purges = new Purges({
      state: purgeState,
      store: tier,
      records,
      local: invalidator,
      invalidationOf: invalidationOfPurge,
      placedSpace: () => spaces.isIn(place) ? tracker.space : undefined,
      peers
    })
    const leases = new RedisLeases({
      link,
      prefix,
      peers,
      lastPurge: () => purges.last,
      hearsHosts: () => carrier.hearsHosts !== false,
      isReadable: () => tier.isReadable
    })
    const unreadReasons = (): readonly string[] => {
      const isIn = spaces.isIn(place)
      if (purges.hasPending || spaces.isPurgeAllPending || (isIn && !purgeState.isAppliedIn(tracker.space))) {
        return ['Redis tier not read: purges are not delivered yet']
      }
      if (tracker.space === undefined || isIn) return []
      if (spaces.isSuspended(place)) return ['Redis tier not read: what processes share cannot be read there']
      return place.error === undefined
        ? ['Redis tier not read: no upstream has proven yet that its entries are of this chain']
        : [`Redis tier not read: it rejects the state of the chain: ${place.error}`]
    }
    const backend: StoreBackend = {
      store: tier,
      warnings: () =>
        link.isUp
          ? [
            ...settingsCheck.warnings,
            ...Object.entries(scriptWarnings).flatMap(([operation, text]) => {
              const error = link.scriptErrorOf(operation as keyof typeof scriptWarnings)
              return error === undefined ? [] : [`${text}: ${error}`]
            }),
            ...unreadReasons()
          ]
          : [],
      start: async onUp => {
        await link.start({
          onUp: () => {
            log.info('Redis is up')
            Promise.all([settingsCheck.check(), onUp()]).catch(() => {})
          },
          onDown: reason => {
            spaces.suspend(place)
            log.warn({ reason }, downMessages[link.fault])
          }
        })
        settingsCheck.start()
      },
      stop: async () => {
        settingsCheck.stop()
        link.stop()
      }
    }
    return {
      ...backend,
      link,
      /** Stops the use of Redis until its records are read again, because another process has lost its connection. */
      onLost: () => {
        spaces.suspend(place)
        link.check().catch(() => {})
      },
      /** Leases of all hosts for fetches. */
      leases,
      /** Builds the tail that hosts share. */
      tailOf: (tail: HostTailParts) =>
        new RedisTail({
          ...tail,
          link,
          prefix,
          announce: source => peers.publish({ kind: 'digests', source }),
          now,
          leased: result => metrics.leased('tail', result)
        }),
      shared: { records, place, tier, purges, releases },
      /** Counts client limits across all replicas. */
      buckets,
      /** Counts what all replicas send to upstreams; a call rejects while Redis does not respond. */
      budgets,
      purge: async (...purge: Parameters<Purges['purge']>) => await purges.purge(...purge)
    }
  }
}

/** Returns the connection options of the configured Redis. */
export function redisConnectionOptionsOf (
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
