import { type Entry, makeEntry } from '../cache/entry.js'
import { encodeStreamName } from '../cache/stream-name-entry.js'
import { type StoredEntry } from '../cache/stored-entry.js'
import { type StreamNameWrite } from '../cache/tier.js'
import { type StampedPosition } from '../api/position.js'
import { type UpstreamResponse, contentTypeOf } from '../api/upstream-response.js'
import { judge, type JudgedResponse, type Lifetime, type NotStoredReason } from '../api/store-verdict.js'
import { atVersion, intervalKeyOf, pageIntervalOf, pageKeyOf, streamIndexKeyOf } from '../api/read.js'
import { type FetchedJudged } from './fetch.js'
import { stateValidityOf } from './followed-reads.js'
import { microCachePartsOf } from './micro-cache.js'
import { type FetchResult } from './outcomes.js'
import { makePerResponseHeaders, readPerResponseValues } from './per-response-headers.js'
import { isReset, pinTo, type PinnedRead } from './pinned-read.js'
import { type ProxyContext } from './proxy-context.js'

/** Beginning of a fetch: its time, and the number of purges until then. */
export interface FetchStart {
  readonly atMs: number
  readonly invalidationCount: number
}

/** Stores what may be stored of a fetched response: history in every tier, latest responses in memory. */
export function commitFetched (
  context: ProxyContext,
  pinned: PinnedRead,
  judged: FetchedJudged,
  { atMs, invalidationCount }: FetchStart
): FetchResult {
  const { read, readClass } = pinned
  const { response, verdict, isStale } = judged
  if (readClass !== 'moving') {
    const result = commitJudged(context, pinned, judged, pinned, invalidationCount)
    // The next latest read is served at another head, which no other process shares.
    if (result.entry !== undefined && pinned.followedAt === undefined) {
      storeInLowerTiers(context, pinned, response, result.entry, verdict.lifetime?.ttlMs)
    }
    return result
  }
  const microCached = isStale ? undefined : microCachePartsOf(context, pinned, response, atMs)
  // Latest state is also history at the version that it was read at.
  const version = response.stamped?.position.head.version
  const promoted = version === undefined || !context.settings.promoteLatest || read.endpoint.keyedBy !== 'version'
    ? undefined
    : pinTo(pinned.chain, atVersion(read, version))
  const promotedVerdict = promoted && judge(promoted.read, response, context.settings)
  if (microCached !== undefined) {
    commit(context, pinned, makeEntry({ ...entryPartsOf(context, response), ...microCached }), invalidationCount)
  }
  return promoted === undefined || promotedVerdict === undefined
    ? { response, entry: undefined, notStored: undefined }
    : commitJudged(context, promoted, { response, verdict: promotedVerdict }, pinned, invalidationCount)
}

/**
 * Stores the entry of a read in memory, and returns the reason if it may not be stored: the chain was reset, or a purge
 * covers the entry or its read since `sinceCount`, the number of purges when its look-up or fetch began.
 */
export function commit (
  context: ProxyContext,
  pinned: PinnedRead,
  entry: Entry,
  sinceCount: number
): NotStoredReason | undefined {
  if (isReset(context, pinned)) return 'wrong_chain'
  const { read: { page }, keys, eventsFamily } = pinned
  // Events that were requested under the path of a handle, whatever stream they are stored under.
  const events = page === undefined || eventsFamily === undefined ? undefined : pageIntervalOf(eventsFamily, page)
  const requested = { key: keys.text, events }
  if (context.invalidator.hasInvalidated(entry, sinceCount, requested)) return 'purged'
  return context.memory.put(entry) ? undefined : 'too_large'
}

function commitJudged (
  context: ProxyContext,
  pinned: PinnedRead,
  { response, verdict: { lifetime, notStored } }: JudgedResponse,
  requested: PinnedRead,
  sinceCount: number
): FetchResult {
  if (lifetime === undefined) return countNotStored(context, pinned, response, notStored)
  const entry = makeEntryFor(context, pinned, response, lifetime)
  const reason = commit(context, requested, entry, sinceCount)
  return reason === undefined
    ? { response, entry, notStored: undefined }
    : countNotStored(context, pinned, response, reason)
}

/** Stores an entry in the lower tiers too, with the stream name of its path when sharing is due. */
function storeInLowerTiers (
  context: ProxyContext,
  { eventsFamily }: PinnedRead,
  response: UpstreamResponse,
  entry: Entry,
  ttlMs: number | undefined
): void {
  const { stamped } = response
  if (context.lowerTiers.length === 0 || stamped === undefined) return
  const { key, status, contentType, body, etag, release, lowestVersion, dependencies } = entry
  // The interval of state grows in memory alone.
  const validity = dependencies === undefined ? entry.validity : undefined
  const stored: StoredEntry = {
    key,
    status,
    contentType,
    body,
    etag,
    release,
    lowestVersion,
    validity,
    stamped,
    ...readPerResponseValues(response, stamped.family)
  }
  const streamName = eventsFamily === undefined || validity === undefined
    ? undefined
    : streamNameToShare(context, eventsFamily, stamped)
  for (const tier of context.lowerTiers) tier.put({ stored, streamName, ttlMs })
}

/** Returns the stream name of a path if other processes are due to get it. */
function streamNameToShare (
  { streamNames, now }: ProxyContext,
  path: string,
  stamped: StampedPosition
): StreamNameWrite | undefined {
  const due = streamNames.takeDueForSharing(path)
  return due && encodeStreamName(path, due.stream, stamped, due.expiresAtMs - now())
}

function makeEntryFor (
  context: ProxyContext,
  pinned: PinnedRead,
  response: UpstreamResponse,
  lifetime: Lifetime
): Entry {
  const { ttlMs, lowestVersion } = lifetime
  return makeEntry({
    ...entryPartsOf(context, response),
    ...locationOf(context, pinned, response, lifetime),
    expiresAtMs: ttlMs === undefined ? undefined : context.now() + ttlMs,
    lowestVersion
  })
}

/** Returns key and interval of an entry: a block under its height, a page under its stream, others under their read. */
function locationOf (
  context: ProxyContext,
  pinned: PinnedRead,
  response: UpstreamResponse,
  { block, page }: Lifetime
): Pick<Entry, 'key' | 'validity' | 'dependencies'> {
  const { read, chain, keys: { value, text, intervalFamily: family } } = pinned
  const dependencies = undefined
  if (block !== undefined && family !== undefined) {
    const { height, first, last } = block
    return { key: intervalKeyOf(family, height), validity: { kind: 'versions', family, first, last }, dependencies }
  }
  // A full page is stored under its stream, whatever path requested it, unless no guid names the stream.
  if (page?.stream !== undefined && read.page !== undefined) {
    const validity = pageIntervalOf(streamIndexKeyOf(chain, page.stream), read.page)
    return { key: pageKeyOf(validity), validity, dependencies }
  }
  const key = response.status === 200 ? value : text
  return { key, validity: undefined, dependencies, ...stateValidityOf(context, pinned, response) }
}

function countNotStored (
  context: ProxyContext,
  { read }: PinnedRead,
  response: UpstreamResponse,
  reason: NotStoredReason
): FetchResult {
  context.metrics.notStored(read.endpoint.name, reason)
  return { response, entry: undefined, notStored: reason }
}

/** Returns the parts of an entry that come from the response alone. */
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
