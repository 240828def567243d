import { readFileSync } from 'node:fs'
import { type Logger } from 'pino'
import { SharedStore, storePrefix, type ToForget } from '../cache/shared-store.js'
import { type Buckets } from '../clients/buckets.js'
import { SharedBuckets } from '../clients/shared-buckets.js'
import { type Config, hostAndPort } from '../config/schema.js'
import { type Chain, type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { Names } from '../upstreams/names.js'
import { type LiveReleases } from '../upstreams/live-releases.js'
import { type Forgetting } from '../proxy/forgetting.js'
import { RedisHealth } from '../redis/health.js'
import { RedisLink } from '../redis/link.js'
import { RedisListener } from '../redis/listener.js'
import { clientFor, listenerFor, type RedisPlace } from '../redis/place.js'
import { Agreement } from '../cluster/agreement.js'
import { Control, type Upstream } from '../cluster/control.js'
import { type Generations } from '../chain/generations.js'
import { News } from '../cluster/news.js'
import { PurgeLog } from '../cluster/purge-log.js'
import { Purges } from '../cluster/purges.js'
import { SharedKeys } from '../cluster/shared-keys.js'
import { within } from '../within.js'

type RedisConfig = Config['cache']['redis']

/** What sharing is built from. */
export interface SharingParts {
  readonly upstreams: () => readonly Upstream[]
  readonly tracker: Tracker
  readonly releases: LiveReleases
  readonly forgetting: Forgetting
  readonly metrics: Metrics
  readonly log: Logger
  readonly now: () => number
}

/** What replicas share through Redis, and how they come to agree on it. */
export interface Sharing {
  readonly store: SharedStore
  readonly control: Control
  readonly link: RedisLink
  /** What an operator should know of it. */
  degraded(): string[]
  /** Begins, with who decides on generations; resolves when it is known whether Redis answers. */
  start(generations: Generations): Promise<void>
  /** Looks at what the others say now, and publishes what they lack. */
  look(): Promise<void>
  /** Where no node answers: finds out from Redis which chain it is. */
  recall(): Promise<void>
  purge(chain: Chain, whatOf: (chain: Chain) => ToForget): Promise<boolean>
  tellHead(): void
  /** Counts what clients take for all replicas together; `alone` does so while Redis is away. */
  countWith(alone: Buckets): Buckets
  stop(): Promise<void>
}

// How long a process that stops still writes what others may want to read.
const lastWritesMs = 1000
const downMessages = {
  'authentication failed': 'Redis authentication failed: reads go on without it',
  'does not answer': 'Redis does not answer: reads go on without it'
} as const
// How long who connects to Redis may take.
const connectMs = 2000

/** Builds everything that has to do with Redis. */
export function sharingOf (config: RedisConfig, parts: SharingParts): Sharing {
  const { keyPrefix, timeoutMs, ttlSeconds } = config
  const { tracker, metrics, now, log, forgetting, releases, upstreams } = parts
  const place = placeOf(config, now)
  const prefix = storePrefix(keyPrefix)
  let agreement: Agreement | undefined
  let generations: Generations | undefined
  let buckets: SharedBuckets | undefined
  // Whether Redis was away since the others were heard: they may have begun anew meanwhile.
  let isInDoubt = false
  const look = async (): Promise<void> => {
    await agreement?.look()
  }
  const link = new RedisLink(clientFor(place), {
    timeoutMs,
    probeKey: `${prefix}probe`,
    now,
    tally: metrics,
    onUp: () => {
      log.info('Redis answers')
      Promise.all([health.look(), look()]).catch(() => {})
    },
    onDown: reason => {
      isInDoubt = true
      log.warn({ reason }, downMessages[link.fault])
    }
  })
  const health = new RedisHealth(link)
  const keys = new SharedKeys(link, prefix, ttlSeconds)
  const control = new Control(keys, upstreams)
  const isAgreed = (): boolean => generations?.isAgreed === true && !isInDoubt && !purges.hasPending
  const store = new SharedStore(link, { keyPrefix, ttlSeconds, tally: metrics, now, isAgreed })
  const listenTo = (channel: string, onMessage: (text: string) => void): RedisListener =>
    new RedisListener(attempt => listenerFor(place, attempt), channel, onMessage)
  const news = new News(link, prefix, listenTo, message => {
    agreement?.hear(message)
  })
  const purges = new Purges({
    store,
    log: new PurgeLog(keys),
    local: forgetting,
    chain: () => generations?.isAgreed === true ? tracker.chain : undefined,
    tell: async chainId => {
      await news.tell(chainId)
    }
  })
  return {
    store,
    control,
    link,
    degraded: () =>
      link.isUp
        ? [
          ...health.warnings,
          ...(store.refusal === undefined ? [] : [`Redis refuses writes: ${store.refusal}`]),
          ...(buckets?.refusal === undefined
            ? []
            : [`Redis does not count for clients' limits, which hold for each process alone: ${buckets.refusal}`]),
          ...(purges.hasPending || generations?.isLeaving === true
            ? ['Redis is not read: it could not be told of all purges yet']
            : [])
        ]
        : [`Redis ${link.fault}: ${link.lastError}`],
    start: async whoDecides => {
      generations = whoDecides
      agreement = new Agreement({
        link,
        control,
        generations,
        purges,
        news,
        tracker,
        releases,
        now,
        onHeard: () => {
          isInDoubt = false
        },
        onLooked: () => {
          store.resume()
        }
      })
      await link.start()
      news.start()
      health.start()
      agreement.start()
    },
    look,
    recall: async () => {
      await agreement?.recall().catch(() => {})
    },
    purge: async (chain, whatOf) => await purges.purge(chain, whatOf),
    tellHead: () => {
      if (tracker.chain !== undefined && tracker.stamped !== undefined) {
        news.tellHead(tracker.chain.generation, tracker.stamped)
      }
    },
    countWith: alone => (buckets = new SharedBuckets(link, prefix, alone, now)),
    stop: async () => {
      agreement?.stop()
      health.stop()
      await within(lastWritesMs, store.idle())
      store.stop()
      news.stop()
      link.stop()
    }
  }
}

/** Where a configuration says that Redis is. */
export function placeOf ({ cluster, sentinel, caFile, ...rest }: RedisConfig, now: () => number): RedisPlace {
  return {
    ...rest,
    cluster: cluster.map(hostAndPort),
    sentinel: { ...sentinel, hosts: sentinel.hosts.map(hostAndPort) },
    ca: caFile === null ? undefined : readFileSync(caFile, 'utf8'),
    lookup: new Names({ now, timeoutMs: connectMs }).lookup
  }
}
