/** How much may be asked of a node. */
interface Bounds {
  readonly maxConcurrent: number
  readonly requestsPerSecond: number | null
}

/** What is left for the process that asks a node where it stands, for all workers. */
export function pollsPerSecond ({ requestsPerSecond }: Pick<Bounds, 'requestsPerSecond'>, pollMs: number): number | null {
  // Each is mostly one question, at times two, and a node that is down is looked at each second.
  return requestsPerSecond === null ? null : Math.max(1, Math.min(Math.floor(requestsPerSecond / 2), Math.ceil(2000 / Math.min(pollMs, 1000))))
}

/** Whether each worker can have a share of what a node may be asked. */
export function isEnoughFor (workers: number, { maxConcurrent, requestsPerSecond }: Bounds, pollMs: number): boolean {
  return workers === 1 || (maxConcurrent >= workers && (requestsPerSecond === null || readsPerSecond(requestsPerSecond, pollMs, workers) >= 1))
}

/** What is left for each worker: a part of one a second would come to more than its share within some second. */
export function readsPerSecond (perSecond: number, pollMs: number, workers: number): number {
  return Math.floor((perSecond - (pollsPerSecond({ requestsPerSecond: perSecond }, pollMs) ?? 0)) / workers)
}
