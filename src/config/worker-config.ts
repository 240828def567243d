import { workerBoundsOf } from './upstream-shares.js'
import { type Config } from './schema.js'

// Memory is counted in whole bytes.
const bytesPerMb = 1024 * 1024

/** Returns the configuration of one worker, with its share of each limit of the process group. */
export function workerConfigOf (config: Config): Config {
  const { workers, upstreams, cache, hedge, limits, head: { pollMs } } = config
  return {
    ...config,
    upstreams: upstreams.map(upstream => ({ ...upstream, ...workerBoundsOf(upstream, pollMs, workers) })),
    limits: { ...limits, connections: limits.connections && Math.max(1, Math.floor(limits.connections / workers)) },
    hedge: { ...hedge, burst: Math.min(hedge.burst, Math.max(1, Math.floor(hedge.burst / workers))) },
    cache: { ...cache, memory: { maxMb: Math.floor(cache.memory.maxMb * bytesPerMb / workers) / bytesPerMb } }
  }
}
