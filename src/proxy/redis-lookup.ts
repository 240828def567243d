import { type Entry, type EntryParts, makeEntry } from '../cache/entry.js'
import { decodeStreamName } from '../cache/stream-name-entry.js'
import { type FoundEntry } from '../cache/redis-tier.js'
import { type Chain } from '../chain/tracker.js'
import { readEventPage } from '../api/event-page.js'
import { eventRangeOf, streamIndexKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { isReset } from './fetch-and-judge.js'
import { makePerResponseHeaders } from './per-response-headers.js'
import { type ProxyContext, type CacheTier } from './proxy-context.js'
import { requestedEventsOf } from './events/event-page-lookup.js'
import { streamOf } from './events/event-streams.js'
import { mayServe, lookUp } from './memory-lookup.js'

/** What the index of memory files an entry under. */
type IndexLocation = Pick<EntryParts, 'block' | 'page'>

/** Looks for a read in what replicas share, and keeps what is found in memory for as long as it is kept there. */
export async function lookUpInRedis (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: Chain
): Promise<Entry | undefined> {
  if (context.redisTier === undefined) return undefined
  const { page } = read
  const stream = page && streamOf(context, read, chain)
  if (page !== undefined && stream !== undefined) {
    return await lookUpPageInRedis(context, context.redisTier, { read, page, keys, chain, stream })
  }
  const invalidationCount = context.invalidator.count
  // What replicas know of where a path of events leads, before what they have of a stream that no guid names.
  const path = streamIndexKeyOf(chain, read.path)
  const found = await context.redisTier.get(page === undefined ? keys : { ...keys, value: path }, read.requestedVersion)
  // The position that it was read at is proven; one that cannot be of this chain tells that the entry is not either.
  if (
    found === undefined || isReset(context, chain) || !context.tracker.learnProven(found.stored.stamped) ||
    !mayServe(context, read, { ...found.stored, block: found.stored.range })
  ) return undefined
  const streamOfName = page && decodeStreamName(found.stored)
  if (page !== undefined && streamOfName !== undefined) {
    if (context.invalidator.count !== invalidationCount) return undefined
    context.streamNames.learn(path, streamOfName, found.stored.stamped.position.head.version, found.ttlMs)
    // Here it was seen since that it leads nowhere.
    if (context.streamNames.find(path)?.stream !== streamOfName) return undefined
    return await lookUpPageInRedis(context, context.redisTier, { read, page, keys, chain, stream: streamOfName })
  }
  // What stands there instead of a name is no page; and versions of varve that did not look at guids kept every page
  // for its path.
  if (page !== undefined && (found.stored.key === path || readEventPage(found.stored.body)?.stream !== undefined)) {
    return undefined
  }
  const entry = entryFromStored(context, found, indexLocationOf(found, keys))
  // What was purged while it was on its way may be this.
  if (!context.invalidator.hasInvalidated(entry, invalidationCount)) context.memory.put(entry)
  return entry
}

/** A page of events to be looked for, and the stream that it is of. */
interface PageLookup {
  readonly read: Read
  readonly page: NonNullable<Read['page']>
  readonly keys: ReadKeys
  readonly chain: Chain
  readonly stream: string
}

async function lookUpPageInRedis (
  context: ProxyContext,
  shared: CacheTier,
  { read, page, keys, chain, stream }: PageLookup
): Promise<Entry | undefined> {
  const invalidationCount = context.invalidator.count
  const events = { stream, ...eventRangeOf(page) }
  const found = await shared.findPage(events)
  if (found === undefined || isReset(context, chain) || !context.tracker.learnProven(found.stored.stamped)) {
    return undefined
  }
  const entry = entryFromStored(context, found, { page: events })
  // What was purged while it was on its way may be this.
  if (context.invalidator.hasInvalidated(entry, invalidationCount, requestedEventsOf(read, chain))) return undefined
  context.memory.put(entry)
  // Where the path leads may have changed meanwhile.
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
