/** Limits for requests to one upstream. */
interface UpstreamBounds {
  readonly maxConcurrent: number
  readonly requestsPerSecond: number | null
}

// Concurrent polls of one upstream: a hanging poll must not delay later ones.
const maxPolls = 8

/** Returns the share of an upstream's limits for the process that polls it for all workers. */
export function pollBoundsOf ({ maxConcurrent, requestsPerSecond }: UpstreamBounds, pollMs: number): UpstreamBounds {
  return {
    maxConcurrent: Math.max(1, Math.min(maxPolls, Math.floor(maxConcurrent / 16))),
    // A poll needs one request, at times two, and a down upstream is polled every second.
    requestsPerSecond: requestsPerSecond &&
      Math.max(1, Math.min(Math.floor(requestsPerSecond / 2), Math.ceil(2000 / Math.min(pollMs, 1000))))
  }
}

/** Returns each worker's share, rounded down, because a fraction of a request would exceed it within some second. */
export function workerBoundsOf (bounds: UpstreamBounds, pollMs: number, workers: number): UpstreamBounds {
  const polls = pollBoundsOf(bounds, pollMs)
  return {
    maxConcurrent: Math.floor((bounds.maxConcurrent - polls.maxConcurrent) / workers),
    requestsPerSecond: bounds.requestsPerSecond &&
      Math.floor((bounds.requestsPerSecond - (polls.requestsPerSecond ?? 0)) / workers)
  }
}

/** Returns true if each worker gets at least one slot and one request per second. */
export function canShareAmong (workers: number, bounds: UpstreamBounds, pollMs: number): boolean {
  const { maxConcurrent, requestsPerSecond } = workerBoundsOf(bounds, pollMs, workers)
  return workers === 1 || (maxConcurrent >= 1 && (requestsPerSecond ?? 1) >= 1)
}
