import { compareBigInts } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type Upstream } from './upstream.js'
import { mayStillHave, type UpstreamRequirements } from './ranking.js'
import { type Flaw } from './upstream-failure.js'

/** Response that another upstream may improve on. */
export interface FlawedResponse {
  readonly response: UpstreamResponse
  readonly flaw: Flaw
  readonly upstream: Upstream
}

/** True when the upstream may have pruned what was requested. */
export function isMissingHistory ({ flaw }: Pick<FlawedResponse, 'flaw'>): boolean {
  return flaw === 'pruned' || flaw === 'partial' || flaw === 'partial_lagging'
}

/** True when the response reports the upstream's own trouble instead of answering the request. */
export function isUpstreamFault ({ flaw }: Pick<FlawedResponse, 'flaw'>): boolean {
  return flaw === 'unhealthy' || flaw === 'backing_off'
}

/** Chooses the most informative response: a statement about the request beats one about the upstream's own state. */
export function chooseBest<F extends FlawedResponse> (
  flawed: readonly F[],
  { events }: Pick<UpstreamRequirements, 'events'>
): F | undefined {
  // A lagging response beats a pruned one: it still has some of the history.
  const lagging = flawed.find(({ flaw }) => flaw === 'lagging')
  // For events from a number on, only the longest history decides that they are gone; else the fullest page wins.
  const longest = longestHistoryIn(flawed)
  const missingHistory = events !== 'last' && longest?.flaw === 'pruned' ? longest : fullestPageIn(flawed) ?? longest
  if (
    missingHistory !== undefined &&
    (lagging === undefined ||
      (missingHistory.flaw === 'partial' && lagging.response.body.length <= missingHistory.response.body.length))
  ) return missingHistory
  const others = flawed.filter(flawed => !isMissingHistory(flawed))
  return others.sort((a, b) => statusRank(a.response) - statusRank(b.response) || byHead(a.response, b.response))[0]
}

/** Finds the response of the upstream with the longest history among those that miss some. */
export function longestHistoryIn<F extends FlawedResponse> (flawed: readonly F[]): F | undefined {
  const oldestOf = ({ upstream: { window } }: FlawedResponse): bigint => window?.oldest ?? 0n
  return flawed.filter(isMissingHistory).sort((a, b) =>
    compareBigInts(oldestOf(a), oldestOf(b)) || byHead(a.response, b.response)
  )[0]
}

/** Prefers the longest body, then the highest head. */
function fullestPageIn<F extends FlawedResponse> (flawed: readonly F[]): F | undefined {
  const pages = flawed.filter(({ flaw }) => flaw === 'partial' || flaw === 'partial_lagging')
  return pages.sort((a, b) => b.response.body.length - a.response.body.length || byHead(a.response, b.response))[0]
}

function statusRank ({ status }: UpstreamResponse): number {
  if (status < 400) return 0
  if (status !== 429 && status < 500) return 1
  return status === 429 ? 2 : 3
}

// Prefers the highest head, which is the least stale (law 5: a latest read is never older than its request).
function byHead (a: UpstreamResponse, b: UpstreamResponse): number {
  const [headA = -1n, headB = -1n] = [a, b].map(({ stamped }) => stamped?.position.head.version)
  return compareBigInts(headB, headA)
}

/** Frees the upstream slots of responses that no client gets. */
export function discardBodies (flawed: ReadonlyArray<Pick<FlawedResponse, 'response'>>): void {
  for (const { response } of flawed) response.rest?.destroy()
}

/** After a pruned or partial response, tries only upstreams that may have more history. */
export function mayDoBetter (
  candidate: Upstream,
  requirements: UpstreamRequirements,
  flawed: readonly FlawedResponse[]
): boolean {
  return flawed.every(each =>
    (each.flaw !== 'pruned' && each.flaw !== 'partial') || mayStillHave(candidate, requirements, each.upstream)
  )
}
