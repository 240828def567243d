import { readFileSync } from 'node:fs'
import { type Logger } from 'pino'
import { RedisTier, redisKeyPrefix, type WriteBudget } from '../cache/redis-tier.js'
import { type TokenBuckets } from '../clients/token-buckets.js'
import { RedisBuckets } from '../clients/redis-buckets.js'
import { type Config } from '../config/schema.js'
import { hostAndPort } from '../config/value-checks.js'
import { type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { DnsCache } from '../upstreams/dns.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type LocalInvalidator } from '../proxy/local-invalidator.js'
import { RedisSettingsCheck } from '../redis/settings-check.js'
import { RedisLink } from '../redis/link.js'
import { RedisSubscriber } from '../redis/subscriber.js'
import { createClient, createSubscriberClient, type RedisConnectionOptions } from '../redis/create-client.js'
import { type Carrier, type Peers } from '../peers/peers.js'
import { Purges, PurgeState } from '../peers/purges.js'
import { RecordedSpaces, type RememberedUpstream } from '../peers/recorded-spaces.js'
import { RedisCarrier } from '../peers/redis-carrier.js'
import { type RedisParts } from '../peers/peer-sync.js'
import { type Records } from '../peers/records.js'
import { type Spaces } from '../chain/spaces.js'
import { invalidationOfPurge } from './purger.js'
import { type SharedTier } from './purger.js'

type RedisConfig = Config['cache']['redis']

/** Parts that the Redis backend needs. */
export interface RedisBackendOptions {
  readonly maxEntryBytes: number
  readonly rememberedUpstreams: () => readonly RememberedUpstream[]
  readonly tracker: Tracker
  readonly releases: UpstreamSoftwareReleases
  /** Counts client limits of this process alone, while Redis is down. */
  readonly localBuckets: TokenBuckets
  readonly inFlight: WriteBudget
  readonly metrics: Metrics
  readonly log: Logger
  readonly now: () => number
}

/** Redis before its backend is built: spaces are chosen with what it has, and the backend needs them. */
export interface RedisBackendBuilder {
  readonly place: RecordedSpaces
  readonly carrier: Carrier
  buildBackend(spaces: Spaces, invalidator: LocalInvalidator, peers: Peers): RedisBackend
}

/** State that replicas share through Redis, with its synchronization. */
export interface RedisBackend extends SharedTier {
  readonly link: RedisLink
  readonly shared: RedisParts
  /** Counts client limits across all replicas. */
  readonly buckets: TokenBuckets
  /** Problems beside those of the tier, as readable sentences. */
  warnings(): readonly string[]
  /** Connects; resolves when it is known if Redis is up. `onUp` runs whenever it is. */
  start(onUp: () => Promise<void>): Promise<void>
  /** Disconnects, after the tier has been closed. */
  stop(): void
}

const downMessages = {
  'authentication failed': 'Redis authentication failed: reads go on without it',
  unreachable: 'Redis unreachable: reads go on without it'
} as const
// Time limit for a DNS lookup of a Redis host.
const dnsTimeoutMs = 2000

/** Builds the link to Redis and the spaces there, without connecting. */
export function prepareRedisBackend (config: RedisConfig, options: RedisBackendOptions): RedisBackendBuilder {
  const { keyPrefix, timeoutMs, ttlSeconds } = config
  const { metrics, now, rememberedUpstreams } = options
  const connectionOptions = redisConnectionOptionsOf(config, now)
  const prefix = redisKeyPrefix(keyPrefix)
  const link = new RedisLink(createClient(connectionOptions), { timeoutMs, probeKey: `${prefix}probe`, now, metrics })
  const carrier = new RedisCarrier(
    link,
    prefix,
    ttlSeconds,
    channel => new RedisSubscriber(attempt => createSubscriberClient(connectionOptions, attempt), channel)
  )
  const records = carrier.redisRecords
  const place = new RecordedSpaces(records, rememberedUpstreams)
  return {
    place,
    carrier,
    buildBackend: (spaces, invalidator, peers) =>
      redisBackendOf(config, options, { link, prefix, records, place, peers, spaces, invalidator })
  }
}

/** Parts that the backend is built on. */
interface BackendParts {
  readonly link: RedisLink
  readonly prefix: string
  readonly records: Records
  readonly place: RecordedSpaces
  readonly peers: Peers
  readonly spaces: Spaces
  readonly invalidator: LocalInvalidator
}

function redisBackendOf (
  { keyPrefix, ttlSeconds }: RedisConfig,
  { maxEntryBytes, tracker, metrics, now, log, releases, localBuckets, inFlight }: RedisBackendOptions,
  { link, prefix, records, place, peers, spaces, invalidator }: BackendParts
): RedisBackend {
  const settingsCheck = new RedisSettingsCheck(link)
  const buckets = new RedisBuckets(link, prefix, localBuckets, now)
  const purgeState = new PurgeState()
  const tier = new RedisTier(link, {
    keyPrefix,
    ttlSeconds,
    maxEntryBytes,
    metrics,
    inFlight,
    now,
    isAgreed: () => spaces.isIn(place) && purgeState.isAppliedIn(tracker.space)
  })
  const purges = new Purges({
    state: purgeState,
    store: tier,
    records,
    local: invalidator,
    invalidationOf: invalidationOfPurge,
    placedSpace: () => spaces.isIn(place) ? tracker.space : undefined,
    notifyPeers: () => {
      peers.publish({ kind: 'changed' })
    }
  })
  const unreadReasons = (): readonly string[] => {
    const isIn = spaces.isIn(place)
    if (purges.hasPending || spaces.isPurgeAllPending || (isIn && !purgeState.isAppliedIn(tracker.space))) {
      return ['Redis tier not read: purges are not delivered yet']
    }
    if (tracker.space === undefined || isIn) return []
    return place.error === undefined
      ? ['Redis tier not read: no upstream has proven yet that its entries are of this chain']
      : [`Redis tier not read: it rejects the state of the chain: ${place.error}`]
  }
  return {
    tier,
    link,
    shared: { records, place, tier, purges, releases },
    buckets,
    warnings: () =>
      link.isUp
        ? [
          ...settingsCheck.warnings,
          ...(buckets.scriptError === undefined
            ? []
            : [`Redis does not count client limits, so each process counts alone: ${buckets.scriptError}`]),
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
    purge: async (...purge) => await purges.purge(...purge),
    stop: () => {
      settingsCheck.stop()
      link.stop()
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
