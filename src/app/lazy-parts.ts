import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { type Carrier, reachesRedis } from '../peers/peers.js'
import { type HostLog } from '../peers/ipc-log.js'
import { type LoadedDisk, type RedisConnection } from './components.js'
import { type OwnedLog } from './owned-log.js'
import { type startTracing, type Tracing } from './tracing.js'

/** Starts tracing, if a collector is configured; else loads nothing. */
export async function openTracing (
  { tracing }: Config,
  parts: Parameters<typeof startTracing>[2]
): Promise<Tracing | undefined> {
  return tracing.otlpUrl === null
    ? undefined
    : (await import('./tracing.js')).startTracing(tracing, tracing.otlpUrl, parts)
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
  if (!hasRedis(config)) return undefined
  const [{ redisCarrierOf, redisLinkOf }, { redisBackendOf }] = await Promise.all([
    import('./redis-connection.js'),
    import('./redis-backend.js')
  ])
  const { redis } = config.cache
  const link = redisLinkOf(redis, metrics, now)
  return { link, carrier: reachesRedis(ofHost) ? ofHost : redisCarrierOf(redis, link, now), redisBackendOf }
}

/** Opens the log of this host for the disk tier, if one is configured; a worker reaches that of the primary process. */
export async function openLog (config: Config, log: Logger, metrics: Metrics): Promise<OwnedLog | undefined> {
  return config.cache.disk.path === null
    ? undefined
    : await (await import('./owned-log.js')).OwnedLog.open(config, log, metrics)
}

/** Loads the disk tier on the log of this host, if there is one. */
export async function loadDisk (log: HostLog | undefined): Promise<LoadedDisk | undefined> {
  if (log === undefined) return undefined
  const { diskBackendOf } = await import('./disk-backend.js')
  return { place: log.place, backendOf: options => diskBackendOf(log, options) }
}
