import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { isRendered, type Read, type ReadKeys } from '../api/read.js'
import { type ErrorResponse } from '../api/error-response.js'
import { isHit, type Outcome } from './outcomes.js'
import { lookUpPage } from './events/event-page-lookup.js'
import { type ProxyContext } from './proxy-context.js'
import { reportsPruned } from '../api/upstream-response.js'

/**
 * Returns the cached entry of a read. Request variants share a 200; a not-found quotes its text, so only equal texts
 * share it (law 1: what is keyed is what is sent).
 */
export function lookUp (context: ProxyContext, read: Read, keys: ReadKeys): Entry | undefined {
  const cached = keys.blockIndexKey !== undefined && read.requestedVersion !== undefined
    ? context.memory.getBlock(keys.blockIndexKey, read.requestedVersion)
    : read.page !== undefined
    ? lookUpPage(context, read, read.page, keys)
    : context.memory.get(keys.value) ?? (keys.text === keys.value ? undefined : context.memory.get(keys.text))
  return cached !== undefined && mayServe(context, read, cached) ? cached : undefined
}

/** Versions that an entry describes, for reads that name none. */
type VersionBounds = Pick<Entry, 'lowestVersion'> & { readonly block?: { readonly first: bigint } | undefined }

/** Returns the version that a read names, else the lowest version that its entry describes. */
export function lowestVersionOf ({ requestedVersion }: Read, cached?: VersionBounds): bigint | undefined {
  return requestedVersion ?? cached?.lowestVersion ?? cached?.block?.first
}

/** Returns true if an entry may be served; history that every upstream has pruned needs `servePruned`. */
export function mayServe (context: ProxyContext, read: Read, cached: VersionBounds): boolean {
  if (context.settings.servePruned || prunedDistance(context.tracker.position, read, cached) === undefined) return true
  const version = lowestVersionOf(read, cached)
  return version !== undefined && !context.upstreamPool.isPrunedEverywhere(version)
}

/** Returns the number of versions from a read, or its entry, to the oldest version; undefined inside the window. */
export function prunedDistance (
  position: Position | undefined,
  read: Read,
  cached?: VersionBounds
): bigint | undefined {
  const version = lowestVersionOf(read, cached)
  return version !== undefined && position !== undefined && version < position.oldest.version
    ? position.oldest.version - version
    : undefined
}

/** Returns the pruned distance if varve may respond 410 without an upstream request; else undefined. */
export function locallyPrunedDistance (context: ProxyContext, read: Read): bigint | undefined {
  const distance = prunedDistance(context.tracker.position, read)
  // Requires both: the served position, which is of our chain, and the last known window of every upstream.
  return context.settings.answerLocally && read.requestedVersion !== undefined &&
      context.upstreamPool.isPrunedEverywhere(read.requestedVersion)
    ? distance
    : undefined
}

/** Counts and builds the 410 for a version that every upstream has pruned (law 11: "gone" is a fact, not a guess). */
export function prunedError (context: ProxyContext, read: Read, version: bigint, distance: bigint): ErrorResponse {
  context.metrics.pruned(read.endpoint.name, 'local', distance)
  return context.prunedErrors.errorFor(version, version + distance)
}

/**
 * Returns true if no live upstream runs the release that rendered an entry, and a refresh can succeed (law 8: rendering
 * can change, history cannot).
 */
export function isRetiredRendering (context: ProxyContext, read: Read, cached: Entry): boolean {
  return isRendered(read, cached.status) && cached.release !== undefined &&
    context.releases.isRetiredRelease(cached.release) &&
    prunedDistance(context.tracker.position, read, cached) === undefined &&
    !context.failedRefreshes.isBackingOff(cached)
}

/** Counts a read of pruned history by its source: the cache or an upstream. */
export function countPruned (context: ProxyContext, read: Read, outcome: Outcome): void {
  const { position } = context.tracker
  if (isHit(outcome)) {
    if (outcome.kind === 'pruned') {
      context.metrics.pruned(read.endpoint.name, 'cache', prunedDistance(position, read, outcome.entry))
    }
  } else if (outcome.fetched.notStored === 'pruned_page' || reportsPruned(outcome.fetched.response)) {
    context.metrics.pruned(read.endpoint.name, 'upstream', prunedDistance(position, read))
  }
}
