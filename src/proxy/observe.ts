import { type Chain } from '../chain/tracker.js'
import { type JudgedResponse } from '../api/lifetime.js'
import { classOf, coalescingKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { servedPosition } from './serve-moving.js'
import { fetchCurrent, fetchVersioned } from './fetch-and-judge.js'
import { fetchHistory, fetchLatest } from './fetch-and-store.js'
import { readMicroCache } from './micro-cache.js'
import { type FetchResult, type Observation } from './outcomes.js'
import { type ProxyContext } from './proxy-context.js'
import { lookUpInRedis } from './redis-lookup.js'
import { locallyPrunedDistance, isRetiredRendering, lookUp } from './memory-lookup.js'

/**
 * Asks the node for each request, keeps what serving would have kept and no more, and says what would have come of it.
 */
export async function observe (context: ProxyContext, read: Read, keys: ReadKeys, chain: Chain): Promise<Observation> {
  const wouldBe = async (name: Observation['wouldBe'], fetched: ObservedFetch): Promise<Observation> =>
    await makeObservation(context, read, name, fetched)
  if (classOf(read) === 'moving') {
    const isHeld = readMicroCache(context, read, keys) !== undefined
    return isHeld
      ? await wouldBe('hit_memory', withoutStoring(await fetchCurrent(context, read, chain)))
      : await wouldBe('forwarded', { ...await fetchLatest(context, read, keys, chain), isHistory: false })
  }
  const inMemory = lookUp(context, read, keys)
  const cached = inMemory ?? await lookUpInRedis(context, read, keys, chain)
  const wouldHit = inMemory === undefined ? 'hit_redis' : 'hit_memory'
  if (cached !== undefined && !isRetiredRendering(context, read, cached)) {
    return await wouldBe(wouldHit, withoutStoring(await fetchJudged(context, read, chain)))
  }
  if (cached === undefined && locallyPrunedDistance(context, read) !== undefined) {
    return await wouldBe('gone', withoutStoring(await fetchJudged(context, read, chain)))
  }
  // The first of a burst stands in the table of flights, so that the others can be told from misses of their own.
  const wouldJoin = context.historyCoalescer.has(coalescingKeyOf(read, keys.value))
  const fetching = fetchHistory(context, read, keys, chain)
  if (!wouldJoin) {
    await context.historyCoalescer.run(
      coalescingKeyOf(read, keys.value),
      async () => ({ from: 'node', fetched: await fetching })
    )
  }
  const fetched = await fetching
  const observedFetch = { ...fetched, isHistory: fetched.entry !== undefined }
  if (cached === undefined || fetched.entry !== undefined) {
    return await wouldBe(wouldJoin ? 'collapsed' : 'miss', observedFetch)
  }
  // What cannot be rendered afresh would have been served as it was (law 8).
  context.failedRefreshes.record(cached)
  return await wouldBe(wouldHit, observedFetch)
}

// What may be of the moment is asked of a node that is far enough here too, as where nothing is kept of it.
async function fetchJudged (context: ProxyContext, read: Read, chain: Chain): Promise<JudgedResponse> {
  return read.mayBeMoving ? await fetchCurrent(context, read, chain) : await fetchVersioned(context, read)
}

/** What came of asking, and whether it is history. */
type ObservedFetch = FetchResult & { readonly isHistory: boolean }

function withoutStoring ({ response, verdict }: JudgedResponse): ObservedFetch {
  return { response, entry: undefined, notStored: undefined, isHistory: verdict.lifetime !== undefined }
}

async function makeObservation (
  context: ProxyContext,
  read: Read,
  wouldBe: Observation['wouldBe'],
  { isHistory, ...fetched }: ObservedFetch
): Promise<Observation> {
  // History bears the present position here too, which never goes back (law 4); all else the one that it was read at.
  const stamped = isHistory || (classOf(read) === 'immutable' && !read.mayBeMoving)
    ? undefined
    : fetched.response.stamped
  return { name: 'observed', wouldBe, fetched, position: stamped?.position ?? await servedPosition(context) }
}
