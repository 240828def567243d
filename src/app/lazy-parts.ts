import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { type DiskToWorker } from '../peers/disk-messages.js'
import { type Carrier, reachesRedis } from '../peers/peers.js'
import { type DiskParts, type RedisConnection } from './components.js'
import { type UsedFolder } from './local-disk-folder.js'
import { type PrimaryDiskFolder } from './primary-disk-folder.js'
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

/** Opens the folder of the disk tier, if one is configured; a worker uses the folder that the primary process has. */
export async function openDisk (
  { cache: { disk: { path, maxGb } } }: Config,
  log: Logger,
  metrics: Metrics,
  ofPrimary: UsedFolder | undefined
): Promise<DiskParts | undefined> {
  if (path === null) return undefined
  const [{ openFolder }, { LocalDiskFolder }, { diskBackendOf }] = await Promise.all([
    import('./disk-folder.js'),
    import('./local-disk-folder.js'),
    import('./disk-backend.js')
  ])
  const folder = ofPrimary ?? new LocalDiskFolder(await openFolder(path, log, metrics), maxGb, metrics)
  return { folder, diskBackendOf }
}

/** Opens the folder of the disk tier for all workers; undefined if none is configured. */
export async function openSharedFolder (
  { cache: { disk: { path, maxGb } } }: Config,
  log: Logger,
  metrics: Metrics,
  broadcast: (message: DiskToWorker) => void
): Promise<PrimaryDiskFolder | undefined> {
  if (path === null) return undefined
  const [{ openFolder }, { LocalDiskFolder }, { PrimaryDiskFolder }] = await Promise.all([
    import('./disk-folder.js'),
    import('./local-disk-folder.js'),
    import('./primary-disk-folder.js')
  ])
  const folder = new PrimaryDiskFolder(
    new LocalDiskFolder(await openFolder(path, log, metrics), maxGb, metrics),
    broadcast
  )
  metrics.addTiers([folder])
  return folder
}
