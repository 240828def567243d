/** How much may be asked of a node. */
interface UpstreamBounds {
  readonly maxConcurrent: number
  readonly requestsPerSecond: number | null
}

// A node that hangs is asked where it stands beside what hangs, so many times at once.
const maxPolls = 8

/** What is left for the process that asks a node where it stands, for all workers. */
export function pollBoundsOf ({ maxConcurrent, requestsPerSecond }: UpstreamBounds, pollMs: number): UpstreamBounds {
  return {
    maxConcurrent: Math.max(1, Math.min(maxPolls, Math.floor(maxConcurrent / 16))),
    // Each is mostly one question, at times two, and a node that is down is looked at each second.
    requestsPerSecond: requestsPerSecond &&
      Math.max(1, Math.min(Math.floor(requestsPerSecond / 2), Math.ceil(2000 / Math.min(pollMs, 1000))))
  }
}

/** What is left for each worker: a part of one a second would come to more than its share within some second. */
export function workerBoundsOf (bounds: UpstreamBounds, pollMs: number, workers: number): UpstreamBounds {
  const polls = pollBoundsOf(bounds, pollMs)
  return {
    maxConcurrent: Math.floor((bounds.maxConcurrent - polls.maxConcurrent) / workers),
    requestsPerSecond: bounds.requestsPerSecond &&
      Math.floor((bounds.requestsPerSecond - (polls.requestsPerSecond ?? 0)) / workers)
  }
}

/** Whether each worker can have a share of what a node may be asked. */
export function canShareAmong (workers: number, bounds: UpstreamBounds, pollMs: number): boolean {
  const { maxConcurrent, requestsPerSecond } = workerBoundsOf(bounds, pollMs, workers)
  return workers === 1 || (maxConcurrent >= 1 && (requestsPerSecond ?? 1) >= 1)
}
