import { workerBoundsOf } from './upstream-shares.js'
import { type Config } from './schema.js'

// Whole bytes are what memory is counted in.
const bytesPerMb = 1024 * 1024

/** What one of several workers is configured with: of all that an operator has given a bound, its share. */
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
