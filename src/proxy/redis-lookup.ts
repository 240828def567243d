import { type Entry, type EntryParts, makeEntry } from '../cache/entry.js'
import { decodeStreamName } from '../cache/stream-name-entry.js'
import { type FoundEntry } from '../cache/redis-tier.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { readEventPage } from '../api/event-page.js'
import { eventRangeOf, streamIndexKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { isReset } from './fetch-and-judge.js'
import { makePerResponseHeaders } from './per-response-headers.js'
import { type ProxyContext, type CacheTier } from './proxy-context.js'
import { requestedEventsOf } from './events/event-page-lookup.js'
import { streamOf } from './events/event-streams.js'
import { mayServe, lookUp } from './memory-lookup.js'

/** Location of an entry in the block or page index of the memory tier. */
type IndexLocation = Pick<EntryParts, 'block' | 'page'>

/** Returns the Redis entry of a read, and stores it in memory for the rest of its Redis lifetime. */
export async function lookUpInRedis (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<Entry | undefined> {
  if (context.redisTier === undefined) return undefined
  const { page } = read
  const stream = page && streamOf(context, read, chain)
  if (page !== undefined && stream !== undefined) {
    return await lookUpPageInRedis(context, context.redisTier, { read, page, keys, chain, stream })
  }
  const invalidationCount = context.invalidator.count
  // For events by handle, looks for the stream name of the path first, then for a page without a guid.
  const path = streamIndexKeyOf(chain, read.path)
  const found = await context.redisTier.get(page === undefined ? keys : { ...keys, value: path }, read.requestedVersion)
  // Learns the entry's proven position; a contradiction means an entry of another chain (law 7: chains never mix).
  if (
    found === undefined || isReset(context, chain) || !context.tracker.learnProven(found.stored.stamped) ||
    !mayServe(context, read, { ...found.stored, block: found.stored.range })
  ) return undefined
  const streamOfName = page && decodeStreamName(found.stored)
  if (page !== undefined && streamOfName !== undefined) {
    if (context.invalidator.count !== invalidationCount) return undefined
    context.streamNames.learn(path, streamOfName, found.stored.stamped.position.head.version, found.ttlMs)
    // A later response of this process contradicts the name from Redis.
    if (context.streamNames.find(path)?.stream !== streamOfName) return undefined
    return await lookUpPageInRedis(context, context.redisTier, { read, page, keys, chain, stream: streamOfName })
  }
  // Ignores malformed stream names, and pages with a guid that earlier varve versions stored under their path.
  if (page !== undefined && (found.stored.key === path || readEventPage(found.stored.body)?.stream !== undefined)) {
    return undefined
  }
  const entry = entryFromStored(context, found, indexLocationOf(found, keys))
  // A purge during the look-up may cover this entry.
  if (!context.invalidator.hasInvalidated(entry, invalidationCount)) context.memory.put(entry)
  return entry
}

/** Page of events to look up, and its stream. */
interface PageLookup {
  readonly read: Read
  readonly page: NonNullable<Read['page']>
  readonly keys: ReadKeys
  readonly chain: ChainGeneration
  readonly stream: string
}

async function lookUpPageInRedis (
  context: ProxyContext,
  redisTier: CacheTier,
  { read, page, keys, chain, stream }: PageLookup
): Promise<Entry | undefined> {
  const invalidationCount = context.invalidator.count
  const events = { stream, ...eventRangeOf(page) }
  const found = await redisTier.findPage(events)
  if (found === undefined || isReset(context, chain) || !context.tracker.learnProven(found.stored.stamped)) {
    return undefined
  }
  const entry = entryFromStored(context, found, { page: events })
  // A purge during the look-up may cover this entry.
  if (context.invalidator.hasInvalidated(entry, invalidationCount, requestedEventsOf(read, chain))) return undefined
  context.memory.put(entry)
  // Looks in memory, because the path may lead to another stream by now.
  return lookUp(context, read, keys)
}

function indexLocationOf ({ stored: { range } }: FoundEntry, { blockIndexKey }: ReadKeys): IndexLocation {
  return { block: range !== undefined && blockIndexKey !== undefined ? { blockIndexKey, ...range } : undefined }
}

function entryFromStored (context: ProxyContext, { stored, ttlMs }: FoundEntry, location: IndexLocation): Entry {
  const { key, status, contentType, body, release, lowestVersion } = stored
  return makeEntry({
    key,
    status,
    contentType,
    body,
    release,
    lowestVersion,
    perResponseHeaders: makePerResponseHeaders(stored, context.settings.emit, context.tracker.family),
    expiresAtMs: context.now() + ttlMs,
    ...location
  })
}
