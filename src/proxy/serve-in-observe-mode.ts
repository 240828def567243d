import { coalescingKeyOf } from '../api/read.js'
import { fetchJudged } from './fetch.js'
import {
  type CachedEntry,
  type CoalescedFetch,
  type FetchResult,
  hitNames,
  type ObserveModeOutcome
} from './outcomes.js'
import { type PinnedRead, resolvePosition } from './pinned-read.js'
import { type ProxyContext } from './proxy-context.js'
import { prunedDistanceIfGone } from './pruned-reads.js'

/**
 * Forwards a read that was looked up, stores only what serve mode would store, and returns the outcome that serve mode
 * would have.
 */
export async function serveInObserveMode (
  context: ProxyContext,
  pinned: PinnedRead,
  cached: CachedEntry | undefined,
  fetchAndCommit: () => Promise<CoalescedFetch>
): Promise<ObserveModeOutcome> {
  const { read, readClass, keys, client } = pinned
  const { historyCoalescer, failedRefreshes } = context
  await client.admit?.()
  let wouldBe: ObserveModeOutcome['wouldBe']
  let fetched: FetchResult
  let isHistory = false
  if (cached?.isRetired === false || prunedDistanceIfGone(context, read) !== undefined) {
    wouldBe = cached === undefined ? 'gone' : hitNames[cached.tier]
    const { response, verdict } = await fetchJudged(context, pinned)
    fetched = { response, entry: undefined, notStored: undefined }
    isHistory = verdict.lifetime !== undefined
  } else if (readClass === 'moving') {
    wouldBe = 'forwarded'
    fetched = await fetchAndCommit()
  } else {
    const key = coalescingKeyOf(read, keys.value)
    const wouldCollapse = historyCoalescer.has(key)
    const fetching = fetchAndCommit()
    // Registers the first fetch of a burst, so equal reads during it count as collapsed and not as misses.
    if (!wouldCollapse) await historyCoalescer.run(key, () => fetching)
    fetched = await fetching
    isHistory = fetched.entry !== undefined
    wouldBe = wouldCollapse ? 'collapsed' : 'miss'
    if (cached !== undefined && !isHistory) {
      // Serve mode would serve the cached rendering, because the refresh stored nothing (law 8: rendering can change,
      // history cannot).
      failedRefreshes.record(cached.entry)
      wouldBe = hitNames[cached.tier]
    }
  }
  // History carries the served position (law 4: headers are the present, bodies are the past); other responses carry
  // their own stamp.
  const stamped = isHistory || (readClass === 'immutable' && !read.mayBeMoving) ? undefined : fetched.response.stamped
  return { name: 'observed', wouldBe, fetched, position: stamped?.position ?? await resolvePosition(context) }
}
