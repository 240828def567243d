import { type Entry } from '../cache/entry.js'
import { type ResponsePosition } from '../api/position.js'
import { atVersion, keysOf, type Read, stateFamilyOf } from '../api/read.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type Follower } from '../follow/follower.js'
import { type CachedEntry } from './outcomes.js'
import { pinTo, type PinnedRead, type PinParts } from './pinned-read.js'
import { type MemoryTier } from '../cache/memory-tier.js'

/** Parts that serve latest reads at the followed head. */
export interface FollowedParts extends Pick<PinParts, 'tracker'> {
  readonly now: () => number
  readonly memory: MemoryTier
}

/** Returns the followed head that serves a latest read; undefined if none is new enough. */
export function followedHeadFor (
  context: FollowedParts,
  follower: Follower,
  pinned: PinnedRead
): ResponsePosition | undefined {
  const head = follower.headFor(pinned.arrivedAtMs ?? context.now())
  const { minVersion } = pinned.read
  if (head === undefined || (minVersion !== undefined && head.position.head.version < minVersion)) return undefined
  // Returns the served position, whose newest oldest version keeps pruned history from coming back.
  return context.tracker.known
}

/** Returns a latest read as the read of the followed head's version. */
export function atFollowedHead (pinned: PinnedRead, followedAt: ResponsePosition): PinnedRead {
  const read = atVersion(pinned.read, followedAt.position.head.version)
  return { ...pinTo(pinned.space, read, pinned.client), followedAt }
}

/** Looks a latest read up at the followed head (law 12: unknown means changed). */
export function lookUpAtFollowedHead (
  context: FollowedParts,
  follower: Follower,
  pinned: PinnedRead
): CachedEntry | undefined {
  const head = followedHeadFor(context, follower, pinned)
  if (head === undefined) return undefined
  const { read, space, keys } = pinned
  const { version } = head.position.head
  // Looks a not-found or a view up at this version alone, because neither has an interval.
  const entry = lookUpEntryAt(context, follower, read, keys.value, version) ??
    context.memory.getByKeys(keysOf(atVersion(read, version), space))
  const followedAt = head.position
  return entry && { tier: 'memory', entry, kind: 'followed', prunedVersions: undefined, isRetired: false, followedAt }
}

/** Finds the entry of a state read that is known to hold at a version. */
export function lookUpEntryAt (
  { memory }: Pick<FollowedParts, 'memory'>,
  follower: Follower,
  { endpoint }: Read,
  family: string | undefined,
  version: bigint
): Entry | undefined {
  if (family === undefined || endpoint.dependsOn === undefined) return undefined
  const found = memory.findBefore(family, version)
  if (found === undefined || found.last >= version) return found?.entry
  const { dependencies } = found.entry
  if (dependencies === undefined || follower.validityAt(version, found.last, dependencies) !== 'unchanged') {
    return undefined
  }
  // Extends no interval while following only observes, because nothing is served from it.
  if (follower.isServing) memory.extend(found.entry, family, version)
  return found.entry
}

/** Returns the interval of a state entry, which grows as the ledger is followed; undefined for other entries. */
export function stateValidityOf (
  follower: Follower,
  { read, space }: PinnedRead,
  response: UpstreamResponse
): Pick<Entry, 'validity' | 'dependencies'> | undefined {
  const { ledgerVersion } = read
  if (response.status !== 200 || ledgerVersion === undefined) return undefined
  const [family, dependencies] = [stateFamilyOf(read, space), dependenciesOf(read)]
  if (family === undefined || dependencies === undefined) return undefined
  return {
    validity: {
      family,
      first: follower.unchangedSince(ledgerVersion, dependencies),
      last: ledgerVersion
    },
    dependencies
  }
}

function dependenciesOf (read: Read): readonly bigint[] | undefined {
  return read.endpoint.dependsOn?.(read)?.map(({ digest }) => digest)
}
