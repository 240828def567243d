import { type Entry, makeEntry } from '../cache/entry.js'
import { type FoundEntry, type LowerStore, type TierName } from '../cache/tier.js'
import { coalescingKeyOf, isRenderedByRelease, type Read, stateFamilyOf } from '../api/read.js'
import { commit, type CommitParts } from './commit.js'
import { lookUpAtFollowedHead, lookUpEntryAt } from './followed-reads.js'
import { readMicroCache } from './micro-cache.js'
import { type CachedEntry, type Loaded } from './outcomes.js'
import { makeCursorAndGasHeaders } from './cursor-and-gas-headers.js'
import { type PinnedRead } from './pinned-read.js'
import { mayServePruned, prunedDistance, type PrunedParts } from './pruned-reads.js'
import { type Coalescer } from '../cache/coalescer.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'

/** Parts that look a read up in every tier. */
export type LookUpParts = CommitParts & PrunedParts & {
  readonly releases: Pick<UpstreamSoftwareReleases, 'isRetiredRelease'>,
  readonly historyCoalescer: Coalescer<Loaded>,
  /** Coalesces look-ups in lower tiers. */
  readonly lowerTierCoalescer: Coalescer<CachedEntry | undefined>,
  /**
   * Times at which refreshes failed, by the entry's body, which stays when a new compressed form replaces the entry.
   */
  readonly failedRefreshes: WeakMap<Buffer, number>
}

// Pauses after a failed refresh, so that not every hit on a retired rendering fetches again.
const refreshBackoffMs = 10_000

/** Looks a read up in memory, with a span if its request is traced. */
export function lookUpTraced (context: LookUpParts, pinned: PinnedRead): CachedEntry | undefined {
  const span = pinned.client.span?.child('look up in memory')
  const inMemory = lookUpInMemory(context, pinned)
  span?.end({ 'varve.hit': inMemory !== undefined })
  return inMemory
}

/**
 * Looks a read up in memory; moving reads in the micro-cache. Request variants share a 200; a not-found quotes its
 * text, so only equal texts share it (law 1: what is keyed is what is sent).
 */
export function lookUpInMemory (context: LookUpParts, pinned: PinnedRead): CachedEntry | undefined {
  const { memory, follower } = context
  const { read, space, keys } = pinned
  if (pinned.readClass !== 'moving') {
    const { ledgerVersion, requestedVersion } = read
    const cached = keys.intervalFamily === undefined || requestedVersion === undefined
      ? memory.getByKeys(keys)
      : memory.covering(space, keys.intervalFamily, requestedVersion)
    const entry = cached ?? (follower?.isTrusted !== true || ledgerVersion === undefined
      ? undefined
      : lookUpEntryAt(context, follower, read, stateFamilyOf(read, space), ledgerVersion))
    return entry && servableEntry(context, pinned, 'memory', entry)
  }
  const followed = follower !== undefined && pinned.acceptsFollowedHead
    ? lookUpAtFollowedHead(context, follower, pinned)
    : undefined
  if (followed !== undefined) return isRetired(context, read, followed.entry) ? undefined : followed
  const entry = readMicroCache(context, pinned)
  return entry && { tier: 'memory', entry, kind: 'moving', prunedVersions: undefined, isRetired: false }
}

/** Finds a read in a lower tier: by a version inside its interval, or by its keys at once, in one round trip. */
async function findIn (
  tier: LowerStore,
  { read: { requestedVersion }, keys: { value, text, intervalFamily }, space }: PinnedRead
): Promise<FoundEntry | undefined> {
  if (intervalFamily !== undefined && requestedVersion !== undefined) {
    return await tier.covering(space, intervalFamily, requestedVersion)
  }
  if (value === text) return await tier.get(space, value)
  const [byValue, byText] = await Promise.all([tier.get(space, value), tier.get(space, text)])
  return byValue ?? byText
}

/** Looks equal reads up once in the tiers below memory; joins a fetch in flight instead of looking for its result. */
export async function lookUpBelowMemory (context: LookUpParts, pinned: PinnedRead): Promise<CachedEntry | undefined> {
  const { read, keys } = pinned
  if (context.historyCoalescer.has(coalescingKeyOf(read, keys.value))) return undefined
  const { result } = await context.lowerTierCoalescer.run(keys.text, async () => await lookUpInTiers(context, pinned))
  return result
}

/** Looks a read up in the tiers below memory, also while it is being fetched. */
export async function lookUpInTiers (context: LookUpParts, pinned: PinnedRead): Promise<CachedEntry | undefined> {
  for (const tier of context.lowerTiers) {
    const span = pinned.client.span?.child(`look up in ${tier.name}`)
    const cached = await lookUpInTier(context, tier, pinned)
    span?.end({ 'varve.hit': cached !== undefined })
    if (cached !== undefined) return cached
  }
  return undefined
}

/** Looks a read up in a lower tier, and stores what it finds in memory for the rest of its lifetime. */
async function lookUpInTier (
  context: LookUpParts,
  tier: LowerStore,
  pinned: PinnedRead
): Promise<CachedEntry | undefined> {
  const sinceCount = context.invalidator.count
  const found = await findIn(tier, pinned)
  return found && adopt(context, tier.name === 'shared' ? 'memory' : tier.name, pinned, found, sinceCount)
}

/** Stores in memory what a tier or another process had, unless it was purged since or proves to be of another chain. */
export function adopt (
  context: LookUpParts,
  tier: TierName,
  pinned: PinnedRead,
  found: FoundEntry,
  sinceCount: number
): CachedEntry | undefined {
  // Checks the chain again, because it may have been reset by now.
  if (!context.tracker.isCurrent(pinned.space)) return undefined
  // Learns the entry's proven position; a contradiction means an entry of another chain (law 7: chains never mix).
  if (!context.tracker.learnProven(found.stored.stamped)) return undefined
  const entry = makeEntry({
    ...found.stored,
    cursorAndGasHeaders: makeCursorAndGasHeaders(found.stored, context.settings.headers.emit, context.tracker.family),
    expiresAtMs: context.now() + found.ttlMs
  })
  const cached = servableEntry(context, pinned, tier, entry)
  // Fetches an entry again that was purged during its look-up.
  return cached === undefined || commit(context, pinned, cached.entry, sinceCount) === 'purged' ? undefined : cached
}

/** Describes how an entry may be served; undefined if it may not, because the upstreams have pruned it. */
export function servableEntry (
  context: LookUpParts,
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
function isRetired ({ releases, failedRefreshes, now }: LookUpParts, read: Read, entry: Entry): boolean {
  return isRenderedByRelease(read, entry.status) && entry.release !== undefined &&
    releases.isRetiredRelease(entry.release) &&
    now() - (failedRefreshes.get(entry.body) ?? -Infinity) >= refreshBackoffMs
}
