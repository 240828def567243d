import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { type DiskParts } from './components.js'
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

/** Opens the folder of the disk tier, if one is configured; no other process may use it meanwhile. */
export async function openDisk (
  { cache: { disk } }: Config,
  log: Logger,
  metrics: Metrics
): Promise<DiskParts | undefined> {
  if (disk.path === null) return undefined
  const [{ openFolder }, { diskBackendOf }, { combineRegistries }] = await Promise.all([
    import('./disk-folder.js'),
    import('./disk-backend.js'),
    import('../cluster/combined-registry.js')
  ])
  return { folder: await openFolder(disk.path, log, metrics), diskBackendOf, combineRegistries }
}
