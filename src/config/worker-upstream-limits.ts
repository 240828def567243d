/** Limits for requests to one upstream. */
export interface UpstreamLimits {
  readonly maxConcurrent: number
  readonly requestsPerSecond: number | null
}

/** Returns each worker's share, rounded down, because a fraction of a request would exceed it within some second. */
export function workerUpstreamLimitsOf (limits: UpstreamLimits, workers: number): UpstreamLimits {
  return {
    maxConcurrent: Math.floor(limits.maxConcurrent / workers),
    requestsPerSecond: limits.requestsPerSecond && Math.floor(limits.requestsPerSecond / workers)
  }
}

/** Returns true if each worker gets at least one slot and one request per second. */
export function leavesEachWorkerASlot (workers: number, limits: UpstreamLimits): boolean {
  const { maxConcurrent, requestsPerSecond } = workerUpstreamLimitsOf(limits, workers)
  return maxConcurrent >= 1 && (requestsPerSecond ?? 1) >= 1
}
