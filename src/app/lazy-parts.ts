import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { type Carrier, reachesRedis } from '../peers/peers.js'
import { type WorkerSlot } from '../peers/messages.js'
import { type RedisConnection } from './components.js'
import { type OpenDiskSlot } from './disk-backend.js'
import { type startTracing, type Tracing } from './tracing.js'
import { type WorkerSlots } from './worker-slots.js'

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

/** Opens the slot of this process for the disk tier, if one is configured; a worker gets its own from the primary. */
export async function openDisk (
  { cache: { disk: { path, maxGb } } }: Config,
  log: Logger,
  metrics: Metrics,
  ofWorker: WorkerSlot | undefined
): Promise<OpenDiskSlot | undefined> {
  if (path === null) return undefined
  const [{ openFolder, slotOf }, { OpenDiskSlot }] = await Promise.all([
    import('./disk-folder.js'),
    import('./disk-backend.js')
  ])
  if (ofWorker !== undefined) return await OpenDiskSlot.open(ofWorker, log, metrics)
  const folder = await openFolder(path, 1, log)
  return await OpenDiskSlot.open(slotOf(folder, 1, maxGb, 1), log, metrics, folder.close)
}

/** Opens the folder of the disk tier for workers; undefined if none is configured. */
export async function openWorkerSlots (
  { cache: { disk: { path, maxGb } }, workers }: Config,
  log: Logger
): Promise<WorkerSlots | undefined> {
  if (path === null) return undefined
  const [{ openFolder }, { WorkerSlots }] = await Promise.all([import('./disk-folder.js'), import('./worker-slots.js')])
  return new WorkerSlots(await openFolder(path, workers, log), maxGb)
}
