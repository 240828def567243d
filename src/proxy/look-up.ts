import { type Entry, makeEntry } from '../cache/entry.js'
import { decodeStreamName } from '../cache/stream-name-entry.js'
import { type FoundEntry, type LowerTier, type EntrySelector, type TierName } from '../cache/tier.js'
import { readEventPageSummary } from '../api/event-page-summary.js'
import {
  coalescingKeyOf,
  isRenderedByRelease,
  namesStream,
  pageIntervalOf,
  type Read,
  stateFamilyOf
} from '../api/read.js'
import { commit } from './commit.js'
import { lookUpAtFollowedHead, lookUpEntryAt } from './followed-reads.js'
import { readMicroCache } from './micro-cache.js'
import { type CachedEntry } from './outcomes.js'
import { makeCursorAndGasHeaders } from './cursor-and-gas-headers.js'
import { type PinnedRead } from './pinned-read.js'
import { type ProxyContext } from './proxy-context.js'
import { mayServePruned, prunedDistance } from './pruned-reads.js'

/** Looks a read up in memory, then history in the tiers below. */
export async function lookUp (context: ProxyContext, pinned: PinnedRead): Promise<CachedEntry | undefined> {
  const span = pinned.client.span?.child('look up in memory')
  const inMemory = lookUpInMemory(context, pinned)
  span?.end({ 'varve.hit': inMemory !== undefined })
  return inMemory !== undefined || pinned.readClass === 'moving' ? inMemory : await lookUpBelowMemory(context, pinned)
}

/**
 * Looks a read up in memory; moving reads in the micro-cache. Request variants share a 200; a not-found quotes its
 * text, so only equal texts share it (law 1: what is keyed is what is sent).
 */
export function lookUpInMemory (context: ProxyContext, pinned: PinnedRead): CachedEntry | undefined {
  if (pinned.readClass !== 'moving') {
    const entry = lookUpHistory(context, pinned)
    return entry && servableEntry(context, pinned, 'memory', entry)
  }
  const { follower } = context
  const followed = follower !== undefined && pinned.acceptsFollowedHead
    ? lookUpAtFollowedHead(context, follower, pinned)
    : undefined
  if (followed !== undefined) return isRetired(context, pinned.read, followed.entry) ? undefined : followed
  const entry = readMicroCache(context, pinned)
  return entry && { tier: 'memory', entry, kind: 'moving', prunedVersions: undefined, isRetired: false }
}

function lookUpHistory (context: ProxyContext, pinned: PinnedRead): Entry | undefined {
  const { memory, follower } = context
  const { read, chain, keys } = pinned
  const { page, ledgerVersion } = read
  if (page === undefined) {
    return memory.get(selectorOf(pinned)) ?? (follower === undefined || ledgerVersion === undefined
      ? undefined
      : lookUpEntryAt(context, follower, read, stateFamilyOf(read, chain), ledgerVersion))
  }
  // A page without a guid is stored only under its own path.
  const ownPage = memory.getByKey(keys.value)
  const stream = ownPage === undefined ? streamOf(context, pinned) : undefined
  return stream === undefined ? ownPage : memory.get({ by: 'events', events: pageIntervalOf(stream, page) })
}

/** Returns where every tier looks a read up; pages are also found under the stream that their path leads to. */
export function selectorOf ({ read: { requestedVersion }, keys }: Pick<PinnedRead, 'read' | 'keys'>): EntrySelector {
  return keys.intervalFamily === undefined || requestedVersion === undefined
    ? { by: 'key', keys }
    : { by: 'version', family: keys.intervalFamily, version: requestedVersion }
}

/** Looks equal reads up once in the tiers below memory; joins a fetch in flight instead of looking for its result. */
export async function lookUpBelowMemory (context: ProxyContext, pinned: PinnedRead): Promise<CachedEntry | undefined> {
  const { read, keys } = pinned
  if (context.lowerTiers.length === 0 || context.historyCoalescer.has(coalescingKeyOf(read, keys.value))) {
    return undefined
  }
  const { result } = await context.lowerTierCoalescer.run(keys.text, async () => {
    for (const tier of context.lowerTiers) {
      const cached = await traceTier(pinned, tier.name, () => lookUpInTier(context, tier, pinned))
      if (cached !== undefined) return cached
    }
    return undefined
  })
  return result
}

/** Runs a look-up within a span of a traced request. */
function traceTier (
  { client: { span } }: PinnedRead,
  tier: TierName,
  run: () => Promise<CachedEntry | undefined>
): Promise<CachedEntry | undefined> {
  return span === undefined
    ? run()
    : span.child(`look up in ${tier}`).run(run, cached => ({ 'varve.hit': cached !== undefined }))
}

/** Looks a read up in a lower tier, and stores what it finds in memory for the rest of its lifetime. */
async function lookUpInTier (
  context: ProxyContext,
  tier: LowerTier,
  pinned: PinnedRead,
  named?: string
): Promise<CachedEntry | undefined> {
  const { read: { page }, chain, keys, eventsFamily } = pinned
  const stream = named ?? streamOf(context, pinned)
  const selector: EntrySelector = page === undefined || eventsFamily === undefined
    ? selectorOf(pinned)
    : stream !== undefined
    ? { by: 'events', events: pageIntervalOf(stream, page) }
    // Looks for the stream name of the path first, then for a page without a guid.
    : { by: 'key', keys: { ...keys, value: eventsFamily } }
  const sinceCount = context.invalidator.count
  const found = await tier.get(selector)
  // The chain may have been reset by now, and the path may lead to another stream.
  if (found === undefined || !context.tracker.isCurrent(chain)) return undefined
  if (stream !== undefined && streamOf(context, pinned) !== stream) return undefined
  // Learns the entry's proven position; a contradiction means an entry of another chain (law 7: chains never mix).
  if (!context.tracker.learnProven(found.stored.stamped)) return undefined
  if (found.stored.key === eventsFamily) {
    if (context.invalidator.count !== sinceCount) return undefined
    const learned = learnStreamName(context, eventsFamily, found)
    return learned === undefined ? undefined : await lookUpInTier(context, tier, pinned, learned)
  }
  // Ignores pages with a guid that earlier varve versions stored under their path.
  if (page !== undefined && stream === undefined && readEventPageSummary(found.stored.body)?.stream !== undefined) {
    return undefined
  }
  const cached = servableEntry(context, pinned, tier.name, entryFromFound(context, found))
  // Fetches an entry again that was purged during its look-up.
  return cached === undefined || commit(context, pinned, cached.entry, sinceCount) === 'purged' ? undefined : cached
}

/** Returns the stream of a page's path; undefined if it is unknown or expired, and for other reads. */
function streamOf ({ streamsByHandle }: ProxyContext, { read, eventsFamily }: PinnedRead): string | undefined {
  if (eventsFamily === undefined || namesStream(read)) return eventsFamily
  return streamsByHandle.find(eventsFamily)?.stream
}

/**
 * Learns the stream of a path from another process, unless a later response of this one contradicts it; returns the
 * stream that is known then.
 */
function learnStreamName (
  { streamsByHandle }: ProxyContext,
  path: string,
  { stored, ttlMs }: FoundEntry
): string | undefined {
  const stream = decodeStreamName(stored)
  if (stream !== undefined) streamsByHandle.learn(path, stream, stored.stamped.position.head.version, ttlMs)
  return streamsByHandle.find(path)?.stream
}

function entryFromFound (context: ProxyContext, { stored, ttlMs }: FoundEntry): Entry {
  const { key, status, contentType, body, release, lowestVersion, validity } = stored
  return makeEntry({
    key,
    status,
    contentType,
    body,
    release,
    lowestVersion,
    validity,
    cursorAndGasHeaders: makeCursorAndGasHeaders(stored, context.settings.emit, context.tracker.family),
    expiresAtMs: context.now() + ttlMs
  })
}

/** Describes how an entry may be served; undefined if it may not, because the upstreams have pruned it. */
export function servableEntry (
  context: ProxyContext,
  { read }: PinnedRead,
  tier: TierName,
  entry: Entry
): CachedEntry | undefined {
  const prunedVersions = prunedDistance(context.tracker.position, read, entry)
  if (prunedVersions !== undefined) {
    return mayServePruned(context, read, entry)
      ? { tier, entry, kind: 'pruned', prunedVersions, isRetired: false }
      : undefined
  }
  return { tier, entry, kind: 'history', prunedVersions, isRetired: isRetired(context, read, entry) }
}

/** Returns true if no live upstream runs the release of a rendering (law 8: rendering can change, history cannot). */
function isRetired ({ releases, failedRefreshes }: ProxyContext, read: Read, entry: Entry): boolean {
  return isRenderedByRelease(read, entry.status) && entry.release !== undefined &&
    releases.isRetiredRelease(entry.release) &&
    !failedRefreshes.isBackingOff(entry)
}
