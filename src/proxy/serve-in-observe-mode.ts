import { type ChainGeneration } from '../chain/tracker.js'
import { type JudgedResponse } from '../api/lifetime.js'
import { classOf, coalescingKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { servedPosition } from './serve-moving.js'
import { fetchCurrent, fetchVersioned } from './fetch-and-judge.js'
import { fetchHistory, fetchLatest } from './fetch-and-store.js'
import { readMicroCache } from './micro-cache.js'
import { type FetchResult, type ObservedOutcome } from './outcomes.js'
import { type ProxyContext } from './proxy-context.js'
import { lookUpInRedis } from './redis-lookup.js'
import { locallyPrunedDistance, isRetiredRendering, lookUp } from './memory-lookup.js'

/** Forwards every read, stores only what serve mode would store, and returns the outcome that serve mode would have. */
export async function serveInObserveMode (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<ObservedOutcome> {
  const wouldBe = async (name: ObservedOutcome['wouldBe'], fetched: ObservedFetch): Promise<ObservedOutcome> =>
    await makeObservation(context, read, name, fetched)
  if (classOf(read) === 'moving') {
    const isMicroCached = readMicroCache(context, read, keys) !== undefined
    return isMicroCached
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
  // Registers the first fetch of a burst, so equal reads during it count as collapsed and not as misses.
  const wouldCollapse = context.historyCoalescer.has(coalescingKeyOf(read, keys.value))
  const fetching = fetchHistory(context, read, keys, chain)
  if (!wouldCollapse) {
    await context.historyCoalescer.run(
      coalescingKeyOf(read, keys.value),
      async () => ({ from: 'upstream', fetched: await fetching })
    )
  }
  const fetched = await fetching
  const observedFetch = { ...fetched, isHistory: fetched.entry !== undefined }
  if (cached === undefined || fetched.entry !== undefined) {
    return await wouldBe(wouldCollapse ? 'collapsed' : 'miss', observedFetch)
  }
  // Serve mode would serve the cached rendering, because the refresh stored nothing (law 8: rendering can change,
  // history cannot).
  context.failedRefreshes.record(cached)
  return await wouldBe(wouldHit, observedFetch)
}

// Reads that may be moving need an upstream at the served head, as on a cache miss.
async function fetchJudged (context: ProxyContext, read: Read, chain: ChainGeneration): Promise<JudgedResponse> {
  return read.mayBeMoving ? await fetchCurrent(context, read, chain) : await fetchVersioned(context, read)
}

/** Result of a fetch; `isHistory` marks a response that is proven history. */
type ObservedFetch = FetchResult & { readonly isHistory: boolean }

function withoutStoring ({ response, verdict }: JudgedResponse): ObservedFetch {
  return { response, entry: undefined, notStored: undefined, isHistory: verdict.lifetime !== undefined }
}

async function makeObservation (
  context: ProxyContext,
  read: Read,
  wouldBe: ObservedOutcome['wouldBe'],
  { isHistory, ...fetched }: ObservedFetch
): Promise<ObservedOutcome> {
  // History carries the served position (law 4: headers are the present, bodies are the past); other responses carry
  // their own stamp.
  const stamped = isHistory || (classOf(read) === 'immutable' && !read.mayBeMoving)
    ? undefined
    : fetched.response.stamped
  return { name: 'observed', wouldBe, fetched, position: stamped?.position ?? await servedPosition(context) }
}
