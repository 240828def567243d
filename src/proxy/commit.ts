import { type Entry, type EntryParts, makeEntry } from '../cache/entry.js'
import { type FetchLease } from '../cache/coalescer.js'
import { type StoredEntry } from '../cache/entry-codec.js'
import { type UpstreamResponse, contentTypeOf } from '../api/upstream-response.js'
import { judge, type JudgedResponse, type Lifetime, type NotStoredReason } from '../api/store-verdict.js'
import { atVersion, intervalKeyOf } from '../api/read.js'
import { type FetchedJudged } from './fetch.js'
import { type FollowedParts, stateValidityOf } from './followed-reads.js'
import { type MicroCacheParts, microCachePartsOf } from './micro-cache.js'
import { type FetchResult } from './outcomes.js'
import { makeCursorAndGasHeaders, readCursorAndGas } from './cursor-and-gas-headers.js'
import { pinTo, type PinnedRead } from './pinned-read.js'
import { type EndpointName } from '../api/endpoints.js'
import { type LowerStore } from '../cache/tier.js'
import { type Config } from '../config/schema.js'
import { type Follower } from '../follow/follower.js'
import { type LocalInvalidator } from './local-invalidator.js'

/** Parts that store what was fetched. */
export interface CommitParts extends FollowedParts, MicroCacheParts {
  /** Tiers below memory, in the order of look-ups. */
  readonly lowerTiers: readonly LowerStore[]
  readonly invalidator: LocalInvalidator
  /** Follower, at whose head latest reads are served; undefined if nothing follows the ledger. */
  readonly follower: Follower | undefined
  readonly settings: Pick<Config, 'headers' | 'latest' | 'pages'>
  readonly metrics: { notStored(endpoint: EndpointName, reason: NotStoredReason): void }
}

/** Beginning of a fetch: its time, the number of purges until then, and the lease if the fetch is for all hosts. */
export interface FetchStart {
  readonly atMs: number
  readonly invalidationCount: number
  readonly lease?: FetchLease | undefined
}

/** Parts of an entry that come from the response alone. */
type ResponseParts = Pick<EntryParts, 'status' | 'contentType' | 'body' | 'cursorAndGasHeaders' | 'release'>

/** Stores what may be stored of a fetched response: history in every tier, latest responses in memory. */
export function commitFetched (
  context: CommitParts,
  pinned: PinnedRead,
  judged: FetchedJudged,
  { atMs, invalidationCount, lease }: FetchStart
): FetchResult {
  const { read, readClass } = pinned
  const { response, verdict, isStale } = judged
  const { stamped } = response
  const values = readCursorAndGas(response, stamped?.family ?? context.tracker.family)
  const parts: ResponseParts = {
    status: response.status === 200 ? 200 : 404,
    contentType: contentTypeOf(response),
    body: response.body,
    cursorAndGasHeaders: makeCursorAndGasHeaders(values, context.settings.headers.emit, context.tracker.family),
    release: response.release
  }
  if (readClass !== 'moving') {
    const result = commitJudged(context, pinned, judged, parts, pinned, invalidationCount)
    // Keeps entries of latest reads here, because the next latest read is served at another head.
    const isShared = pinned.followedAt === undefined && (context.lowerTiers.length > 0 || lease?.sendsEntry === true)
    if (!isShared || result.entry === undefined || stamped === undefined) {
      lease?.end(false)
      return result
    }
    const { dependencies, validity } = result.entry
    // Leaves out the interval of state, which grows in memory alone.
    const own = dependencies === undefined ? validity : undefined
    const stored: StoredEntry = { ...result.entry, ...values, validity: own, stamped }
    const ttlMs = verdict.lifetime?.ttlMs
    if (lease?.sendsEntry === true) lease.end(true, { found: { stored, ttlMs: ttlMs ?? Infinity } })
    const write = { stored, ttlMs, fetchedAtMs: atMs, onShared: lease?.end }
    for (const tier of context.lowerTiers) tier.put(pinned.space, write)
    return result
  }
  const microCached = isStale ? undefined : microCachePartsOf(context, pinned, response, atMs)
  if (microCached !== undefined) {
    commit(context, pinned, makeEntry({ ...parts, ...microCached }), invalidationCount)
  }
  // Latest state is also history at the version that it was read at.
  if (stamped === undefined || !context.settings.latest.promote || read.endpoint.keyedBy !== 'version') {
    return { response, textKey: pinned.keys.text, entry: undefined, notStored: undefined }
  }
  const promoted = pinTo(pinned.space, atVersion(read, stamped.position.head.version))
  const promotedVerdict = judge(promoted.read, response, context.settings.pages)
  return commitJudged(context, promoted, { response, verdict: promotedVerdict }, parts, pinned, invalidationCount)
}

/**
 * Stores the entry of a read in memory, and returns the reason if it may not be stored: the chain was reset, or a purge
 * covers the entry or its read since `sinceCount`, the number of purges when its look-up or fetch began.
 */
export function commit (
  context: CommitParts,
  pinned: PinnedRead,
  entry: Entry,
  sinceCount: number
): NotStoredReason | undefined {
  if (!context.tracker.isCurrent(pinned.space)) return 'wrong_chain'
  if (context.invalidator.hasInvalidated(entry, sinceCount, pinned.keys.text)) return 'purged'
  return context.memory.put(pinned.space, entry) ? undefined : 'too_large'
}

function commitJudged (
  context: CommitParts,
  pinned: PinnedRead,
  { response, verdict: { lifetime, notStored } }: JudgedResponse,
  parts: ResponseParts,
  requested: PinnedRead,
  sinceCount: number
): FetchResult {
  if (lifetime === undefined) return countNotStored(context, requested, response, notStored)
  const { ttlMs, lowestVersion } = lifetime
  const { status, contentType, body, cursorAndGasHeaders, release } = parts
  const { key, validity, dependencies } = locationOf(context, pinned, response, lifetime)
  const expiresAtMs = ttlMs === undefined ? undefined : context.now() + ttlMs
  const entry = makeEntry({
    key,
    status,
    contentType,
    body,
    cursorAndGasHeaders,
    release,
    expiresAtMs,
    validity,
    lowestVersion,
    dependencies
  })
  const reason = commit(context, requested, entry, sinceCount)
  return reason === undefined
    ? { response, textKey: requested.keys.text, entry, notStored: undefined }
    : countNotStored(context, requested, response, reason)
}

/** Returns key and interval of an entry: a block's key names its height, other keys name the read. */
function locationOf (
  context: CommitParts,
  pinned: PinnedRead,
  response: UpstreamResponse,
  { block }: Lifetime
): Pick<Entry, 'key' | 'validity' | 'dependencies'> {
  const { value, text, intervalFamily: family } = pinned.keys
  if (block !== undefined && family !== undefined) {
    const { height, first, last } = block
    return { key: intervalKeyOf(family, height), validity: { family, first, last }, dependencies: undefined }
  }
  const key = response.status === 200 ? value : text
  const { follower } = context
  const grown = follower && stateValidityOf(follower, pinned, response)
  return { key, validity: grown?.validity, dependencies: grown?.dependencies }
}

function countNotStored (
  context: CommitParts,
  { read, keys }: PinnedRead,
  response: UpstreamResponse,
  reason: NotStoredReason
): FetchResult {
  context.metrics.notStored(read.endpoint.name, reason)
  return { response, textKey: keys.text, entry: undefined, notStored: reason }
}
