import { pollBoundsOf, type UpstreamLimits } from '../upstreams/polling-policy.js'

/** Returns each worker's share, rounded down, because a fraction of a request would exceed it within some second. */
export function perWorkerLimitsOf (bounds: UpstreamLimits, pollMs: number, workers: number): UpstreamLimits {
  const polls = pollBoundsOf(bounds, pollMs)
  return {
    maxConcurrent: Math.floor((bounds.maxConcurrent - polls.maxConcurrent) / workers),
    requestsPerSecond: bounds.requestsPerSecond &&
      Math.floor((bounds.requestsPerSecond - (polls.requestsPerSecond ?? 0)) / workers)
  }
}

/** Returns true if each worker gets at least one slot and one request per second. */
export function leavesEachWorkerASlot (workers: number, bounds: UpstreamLimits, pollMs: number): boolean {
  const { maxConcurrent, requestsPerSecond } = perWorkerLimitsOf(bounds, pollMs, workers)
  return workers === 1 || (maxConcurrent >= 1 && (requestsPerSecond ?? 1) >= 1)
}
