import { pollLimitsOf, type UpstreamLimits } from '../upstreams/polling-policy.js'

/** Returns each worker's share, rounded down, because a fraction of a request would exceed it within some second. */
export function workerUpstreamLimitsOf (limits: UpstreamLimits, pollMs: number, workers: number): UpstreamLimits {
  const polls = pollLimitsOf(limits, pollMs)
  return {
    maxConcurrent: Math.floor((limits.maxConcurrent - polls.maxConcurrent) / workers),
    requestsPerSecond: limits.requestsPerSecond &&
      Math.floor((limits.requestsPerSecond - (polls.requestsPerSecond ?? 0)) / workers)
  }
}

/** Returns true if each worker gets at least one slot and one request per second. */
export function leavesEachWorkerASlot (workers: number, limits: UpstreamLimits, pollMs: number): boolean {
  const { maxConcurrent, requestsPerSecond } = workerUpstreamLimitsOf(limits, pollMs, workers)
  return workers === 1 || (maxConcurrent >= 1 && (requestsPerSecond ?? 1) >= 1)
}
