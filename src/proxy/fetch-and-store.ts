import { type ChainGeneration } from '../chain/tracker.js'
import { judge } from '../api/lifetime.js'
import { atVersion, keysOf, type Read, type ReadKeys } from '../api/read.js'
import { fetchCurrent, fetchVersioned } from './fetch-and-judge.js'
import { storeResponse, storeInMicroCache, storeInRedis } from './store.js'
import { type FetchResult, type HistoryFetch } from './outcomes.js'
import { requestedEventsOf } from './events/event-page-lookup.js'
import { type ProxyContext } from './proxy-context.js'
import { learnStream } from './events/event-streams.js'

/** Fetches a read by version, block, page or hash, and stores its response (law 3: only proven history is stored). */
export async function fetchHistory (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<HistoryFetch> {
  const invalidationCount = context.invalidator.count
  const judged = read.mayBeMoving ? await fetchCurrent(context, read, chain) : await fetchVersioned(context, read)
  learnStream(context, read, chain, judged.response)
  const fetched = storeResponse(context, read, keys, chain, judged)
  // A purge during the fetch may cover this entry.
  if (!context.invalidator.removeIfInvalidated(fetched.entry, invalidationCount, requestedEventsOf(read, chain))) {
    storeInRedis(context, read, chain, fetched, judged.verdict.lifetime?.ttlMs)
  }
  return { ...fetched, textKey: keys.text }
}

/** Fetches a latest read; `promoteLatest` also stores state under the version stamped on the response. */
export async function fetchLatest (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<FetchResult> {
  const requestedAtMs = context.now()
  const invalidationCount = context.invalidator.count
  const judged = await fetchCurrent(context, read, chain)
  const { response } = judged
  learnStream(context, read, chain, response)
  // A purge during the fetch may cover this response.
  if (context.invalidator.count !== invalidationCount) return { response, entry: undefined, notStored: undefined }
  if (!judged.isStale) storeInMicroCache(context, read, keys, chain, response, requestedAtMs)
  if (read.mayBeMoving) {
    const page = storeResponse(context, read, keys, chain, judged)
    storeInRedis(context, read, chain, page, judged.verdict.lifetime?.ttlMs)
    return page
  }
  const version = response.stamped?.position.head.version
  if (version === undefined || !context.settings.promoteLatest || read.endpoint.keyedBy !== 'version') {
    return { response, entry: undefined, notStored: undefined }
  }
  const pinned = atVersion(read, version)
  return storeResponse(context, pinned, keysOf(pinned, chain), chain, {
    response,
    verdict: judge(pinned, response, context.settings)
  })
}
