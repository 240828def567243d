import { randomUUID } from 'node:crypto'
import { type TokenBuckets, LocalBuckets } from '../clients/token-buckets.js'
import { type LeasePlace } from '../peers/fetch-leases.js'
import { type Carrier, noCarrier, type Peers } from '../peers/peers.js'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { type RedisConnection } from './redis.js'
import { type HostLog } from '../peers/ipc-log.js'

/** Host of a process, with the processes beside it. */
export interface Host {
  /** Names this host, as one that has this configuration: its processes are one peer of other hosts. */
  readonly configuration: string
  readonly carrier: Carrier
  /** Counts what clients consume in all processes. */
  readonly buckets: TokenBuckets
  /** Counts what all processes send to upstreams; rejects while it cannot. Undefined for a process that runs alone. */
  readonly budgets: TokenBuckets | undefined
  /** Names of upstreams that are out of service already. */
  readonly cordoned: readonly string[]
  /** Log of all processes, if another one keeps it. */
  readonly log: HostLog | undefined
  /** Returns the place of leases for fetches of the processes of this host, if it has several. */
  leasesOf(peers: Peers): LeasePlace | undefined
  /** Resolves with true if this process may do for all what the lease names, for a time; rejects if that is unknown. */
  lease(name: string, ms: number): Promise<boolean>
  /** Gives a lease back; resolves with true if no other process has taken it meanwhile. */
  release(name: string): Promise<boolean>
  /** Purges in the other processes what this one has found to be wrong. */
  purgeOthers(body: Buffer): void
}

/** Returns the host of a process that runs alone. */
export function hostOfOne (now: () => number): Host {
  return {
    configuration: randomUUID(),
    carrier: noCarrier,
    buckets: new LocalBuckets(now),
    budgets: undefined,
    cordoned: [],
    log: undefined,
    leasesOf: () => undefined,
    lease: async () => true,
    release: async () => true,
    purgeOthers: () => {}
  }
}

/** Returns true if a Redis server, a cluster or sentinels are configured. */
export function hasRedis ({ cache: { redis: { url, cluster, sentinel } } }: Config): boolean {
  return url !== null || cluster.length > 0 || sentinel.name !== null
}

/** Builds the connection to Redis, if one is configured; `ofHost` may reach Redis for all processes of this host. */
export async function openRedis (
  config: Config,
  metrics: Metrics,
  now: () => number,
  ofHost: Carrier
): Promise<RedisConnection | undefined> {
  return hasRedis(config)
    ? new (await import('./redis.js')).RedisConnection(config.cache.redis, metrics, now, ofHost)
    : undefined
}
