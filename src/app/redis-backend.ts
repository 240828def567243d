import { type Logger } from 'pino'
import { RedisTier, redisKeyPrefix } from '../cache/redis-tier.js'
import { type WriteBudget } from '../cache/write-queue.js'
import { type TokenBuckets } from '../clients/token-buckets.js'
import { RedisBuckets } from '../clients/redis-buckets.js'
import { type Config } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type LocalInvalidator } from '../proxy/local-invalidator.js'
import { RedisSettingsCheck } from '../redis/settings-check.js'
import { type RedisLink } from '../redis/link.js'
import { type Peers } from '../peers/peers.js'
import { FetchLeases } from '../peers/fetch-leases.js'
import { RedisTail } from '../peers/redis-tail.js'
import { Purges, PurgeState } from '../peers/purges.js'
import { type RecordedSpaces } from '../peers/recorded-spaces.js'
import { type RedisParts } from '../peers/peer-sync.js'
import { type Records } from '../peers/records.js'
import { type Spaces } from '../chain/spaces.js'
import { type HostTailParts } from './following.js'
import { invalidationOfPurge } from './purger.js'
import { type SharedBackend } from './store-backend.js'

/** Parts that the Redis backend needs. */
export interface RedisBackendOptions {
  readonly config: Config['cache']
  readonly link: RedisLink
  readonly records: Records
  /** Spaces in Redis. */
  readonly place: RecordedSpaces
  readonly peers: Peers
  readonly spaces: Spaces
  readonly invalidator: LocalInvalidator
  readonly tracker: Tracker
  readonly releases: UpstreamSoftwareReleases
  /** Counts client limits while Redis is down. */
  readonly localBuckets: TokenBuckets
  readonly inFlight: WriteBudget
  readonly metrics: Metrics
  readonly log: Logger
  readonly now: () => number
}

/** State that replicas share through Redis, with its synchronization. */
export interface RedisBackend extends SharedBackend {
  readonly link: RedisLink
  readonly shared: RedisParts
  readonly fetchLeases: FetchLeases
  /** Builds the tail that hosts share. */
  tailOf(parts: HostTailParts): RedisTail
  /** Counts client limits across all replicas. */
  readonly buckets: TokenBuckets
  /** Stops the use of Redis until its records are read again, because another process has lost it. */
  onLost(): void
}

const downMessages = {
  'authentication failed': 'Redis authentication failed: reads go on without it',
  unreachable: 'Redis unreachable: reads go on without it'
} as const

/** Builds what a process shares through Redis, without connecting. */
export function redisBackendOf (options: RedisBackendOptions): RedisBackend {
  const { link, records, place, peers, spaces, invalidator, tracker, releases, inFlight, metrics, log, now } = options
  const { maxEntryMb, redis: { keyPrefix, ttlSeconds } } = options.config
  const settingsCheck = new RedisSettingsCheck(link)
  const buckets = new RedisBuckets(link, redisKeyPrefix(keyPrefix), options.localBuckets, now)
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
  const fetchLeases = new FetchLeases({
    link,
    prefix: redisKeyPrefix(keyPrefix),
    peers,
    lastPurge: () => purges.last,
    isReadable: () => tier.isReadable,
    now,
    leased: result => {
      metrics.leased('fetch', result)
    }
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
  return {
    store: tier,
    link,
    onLost: () => {
      spaces.suspend(place)
      link.check().catch(() => {})
    },
    fetchLeases,
    tailOf: parts =>
      new RedisTail({
        ...parts,
        link,
        prefix: redisKeyPrefix(keyPrefix),
        announce: source => {
          peers.publish({ kind: 'digests', source })
        },
        now,
        leased: result => {
          metrics.leased('tail', result)
        }
      }),
    shared: { records, place, tier, purges, releases },
    buckets,
    warnings: () =>
      link.isUp
        ? [
          ...settingsCheck.warnings,
          ...(buckets.scriptError === undefined
            ? []
            : [`Redis does not count client limits, so each process counts alone: ${buckets.scriptError}`]),
          ...(fetchLeases.scriptError === undefined
            ? []
            : [`Redis grants no leases, so each host fetches for itself: ${fetchLeases.scriptError}`]),
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
    stop: async () => {
      settingsCheck.stop()
      link.stop()
    }
  }
}
