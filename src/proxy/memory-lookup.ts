import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { isRendered, type Read, type ReadKeys } from '../api/read.js'
import { type ErrorResponse } from '../api/error-response.js'
import { isHit, type Outcome } from './outcomes.js'
import { lookUpPage } from './events/event-page-lookup.js'
import { type ProxyContext } from './proxy-context.js'
import { reportsPruned } from './events/event-streams.js'

/**
 * What is kept for a read. A value is shared by all spellings of it, a not-found, which echoes the client's text, by
 * equal texts alone.
 */
export function lookUp (context: ProxyContext, read: Read, keys: ReadKeys): Entry | undefined {
  const cached = keys.blockIndexKey !== undefined && read.requestedVersion !== undefined
    ? context.memory.getBlock(keys.blockIndexKey, read.requestedVersion)
    : read.page !== undefined
    ? lookUpPage(context, read, read.page, keys)
    : context.memory.get(keys.value) ?? (keys.text === keys.value ? undefined : context.memory.get(keys.text))
  return cached !== undefined && mayServe(context, read, cached) ? cached : undefined
}

/** What an entry tells of versions, where the read itself names none. */
type VersionBounds = Pick<Entry, 'lowestVersion'> & { readonly block?: { readonly first: bigint } | undefined }

/** The version that a read speaks of, or the lowest that what is kept for it tells of. */
export function lowestVersionOf ({ requestedVersion }: Read, cached?: VersionBounds): bigint | undefined {
  return requestedVersion ?? cached?.lowestVersion ?? cached?.block?.first
}

/**
 * Whether what is kept may be given: beyond every node's window, be it down or not, only where an operator wants that.
 */
export function mayServe (context: ProxyContext, read: Read, cached: VersionBounds): boolean {
  if (context.settings.servePruned || prunedDistance(context.tracker.position, read, cached) === undefined) return true
  const version = lowestVersionOf(read, cached)
  return version !== undefined && !context.upstreamPool.isPrunedEverywhere(version)
}

/**
 * How far a read, or the kept page that answers it, is below the oldest version that a node still has; undefined for
 * what is not below it.
 */
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

/** How far a read is below every node's window; undefined for one that a node is to be asked. */
export function locallyPrunedDistance (context: ProxyContext, read: Read): bigint | undefined {
  const distance = prunedDistance(context.tracker.position, read)
  // Both must say so: the position shown, which is of the right chain, and the nodes as they last were.
  return context.settings.answerLocally && read.requestedVersion !== undefined &&
      context.upstreamPool.isPrunedEverywhere(read.requestedVersion)
    ? distance
    : undefined
}

/** Law 11: what every node has pruned is gone, and asking them would only tell so again. */
export function prunedError (context: ProxyContext, read: Read, version: bigint, distance: bigint): ErrorResponse {
  context.tally.pruned(read.endpoint.name, 'local', distance)
  return context.prunedErrors.errorFor(version, version + distance)
}

/** Law 8: JSON that a release rendered which no live node runs any more, and that a node can still render. */
export function isRetiredRendering (context: ProxyContext, read: Read, cached: Entry): boolean {
  return isRendered(read, cached.status) && cached.release !== undefined &&
    context.upstreamPool.isRetiredRelease(cached.release) &&
    prunedDistance(context.tracker.position, read, cached) === undefined &&
    !context.failedRefreshes.isBackingOff(cached)
}

/** Counts a read of what the nodes have pruned, by who answered it. */
export function countPruned (context: ProxyContext, read: Read, outcome: Outcome): void {
  const { position } = context.tracker
  if (isHit(outcome)) {
    if (outcome.kind === 'pruned') {
      context.tally.pruned(read.endpoint.name, 'cache', prunedDistance(position, read, outcome.entry))
    }
  } else if (outcome.fetched.notStored === 'pruned_page' || reportsPruned(outcome.fetched.response)) {
    context.tally.pruned(read.endpoint.name, 'upstream', prunedDistance(position, read))
  }
}
