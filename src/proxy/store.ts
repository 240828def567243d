import { type Entry, makeEntry } from '../cache/entry.js'
import { encodeStreamName } from '../cache/stream-name-entry.js'
import { type StoredEntry } from '../cache/stored-entry.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { type UpstreamResponse, contentTypeOf } from '../api/upstream-response.js'
import { type JudgedResponse, type Lifetime, type NotStoredReason, neverStoredReason } from '../api/lifetime.js'
import { blockKeyOf, microCacheKeyOf, streamIndexKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { isReset } from './fetch-and-judge.js'
import { microCacheMs, readMicroCache } from './micro-cache.js'
import { type FetchResult } from './outcomes.js'
import { makePerResponseHeaders, readPerResponseValues } from './per-response-headers.js'
import { pageLocationOf } from './events/event-page-lookup.js'
import { type ProxyContext } from './proxy-context.js'
import { hidesPruning } from './events/event-streams.js'

/** Stores a response if it is proven history (law 3: only proven history is stored); else counts the reason. */
export function storeResponse (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration,
  judged: JudgedResponse
): FetchResult {
  const { response, verdict } = judged
  // A reset during the fetch leaves nothing under the old generation's keys (law 7: chains never mix).
  if (isReset(context, chain)) return countNotStored(context, read, response, 'wrong_chain')
  if (verdict.lifetime === undefined) {
    return countNotStored(
      context,
      read,
      response,
      hidesPruning(context, read, chain, judged) ? 'pruned_page' : verdict.notStored
    )
  }
  const entry = makeEntryFor(context, read, keys, chain, response, verdict.lifetime)
  return context.memory.put(entry)
    ? { response, entry, notStored: undefined }
    : countNotStored(context, read, response, 'too_large')
}

/** Queues a stored entry for the Redis tier, with the stream name of its path when sharing is due. */
export function storeInRedis (
  context: ProxyContext,
  read: Read,
  chain: ChainGeneration,
  { response, entry }: FetchResult,
  ttlMs: number | undefined
): void {
  const { stamped } = response
  if (context.redisTier === undefined || entry === undefined || stamped === undefined) return
  const { key, status, contentType, body, etag, release, lowestVersion, block, page } = entry
  const stored: StoredEntry = {
    key,
    status,
    contentType,
    body,
    etag,
    release,
    lowestVersion,
    range: block,
    stamped,
    ...readPerResponseValues(response, stamped.family)
  }
  const path = streamIndexKeyOf(chain, read.path)
  const due = page && context.streamNames.takeDueForSharing(path)
  const streamName = due && encodeStreamName(path, due.stream, stamped, due.expiresAtMs - context.now())
  context.redisTier.put({ stored, blockIndexKey: block?.blockIndexKey, page, streamName, ttlMs })
}

/**
 * Stores a latest response in the micro-cache; its age counts from the request (law 5: a latest read is never older
 * than its request).
 */
export function storeInMicroCache (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration,
  response: UpstreamResponse,
  requestedAtMs: number
): void {
  const key = microCacheKeyOf(keys)
  const ttlMs = microCacheMs(context.settings, read)
  // A micro-cached response that is young enough stays, so observed reads never extend its lifetime.
  const isMicroCached = readMicroCache(context, read, keys) !== undefined
  if (ttlMs === 0 || isReset(context, chain) || neverStoredReason(read, response) !== undefined || isMicroCached) return
  const isState = read.endpoint.keyedBy === 'version'
  const readAt = response.stamped?.position
  // State without a position has no known age, and a not-found is a fact for state only.
  if (isState ? readAt === undefined : response.status !== 200) return
  context.memory.put(makeEntry({ ...entryPartsOf(context, response), key, expiresAtMs: requestedAtMs + ttlMs, readAt }))
}

function makeEntryFor (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration,
  response: UpstreamResponse,
  { ttlMs, block, page, lowestVersion }: Lifetime
): Entry {
  const { blockIndexKey } = keys
  const isBlock = block !== undefined && blockIndexKey !== undefined
  const indexed = pageLocationOf(read, chain, page)
  return makeEntry({
    ...entryPartsOf(context, response),
    key: isBlock
      ? blockKeyOf(blockIndexKey, block.height)
      : indexed !== undefined
      ? indexed.key
      : response.status === 200
      ? keys.value
      : keys.text,
    expiresAtMs: ttlMs === undefined ? undefined : context.now() + ttlMs,
    block: isBlock ? { blockIndexKey, first: block.first, last: block.last } : undefined,
    page: indexed?.range,
    lowestVersion
  })
}

function countNotStored (
  context: ProxyContext,
  read: Read,
  response: UpstreamResponse,
  reason: NotStoredReason
): FetchResult {
  context.metrics.notStored(read.endpoint.name, reason)
  return { response, entry: undefined, notStored: reason }
}

function entryPartsOf (
  context: ProxyContext,
  response: UpstreamResponse
): Pick<Parameters<typeof makeEntry>[0], 'status' | 'contentType' | 'body' | 'perResponseHeaders' | 'release'> {
  return {
    status: response.status === 200 ? 200 : 404,
    contentType: contentTypeOf(response),
    body: response.body,
    perResponseHeaders: makePerResponseHeaders(
      readPerResponseValues(response, context.tracker.family),
      context.settings.emit,
      context.tracker.family
    ),
    release: response.release
  }
}
