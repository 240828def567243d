import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { type Read } from '../api/read.js'
import { reportsPruned } from '../api/upstream-response.js'
import { type FetchResult } from './outcomes.js'
import { type EndpointName } from '../api/endpoints.js'
import { type PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { type Config } from '../config/schema.js'
import { type PinParts } from './pinned-read.js'

/** Parts that know which history upstreams have pruned. */
export interface PrunedParts extends Pick<PinParts, 'tracker' | 'upstreamPool'> {
  readonly settings: Pick<Config, 'pages' | 'pruned'>
  readonly prunedErrorBuilder: PrunedErrorBuilder
  readonly metrics: {
    pruned(
      endpoint: EndpointName | 'other',
      by: 'cache' | 'local' | 'upstream',
      distanceVersions: bigint | undefined
    ): void
  }
}

/** Versions that an entry describes, for reads that name none. */
type VersionBounds = Pick<Entry, 'lowestVersion' | 'validity'>

/** Returns the version that a read names, else the lowest version that its entry describes. */
export function lowestVersionOf ({ requestedVersion }: Read, cached?: VersionBounds): bigint | undefined {
  return requestedVersion ?? cached?.lowestVersion ?? cached?.validity?.first
}

/** Returns the highest version that a response is about; undefined if that is unknown. */
export function highestVersionOf ({ requestedVersion, endpoint }: Read, cached?: VersionBounds): bigint | undefined {
  if (cached?.validity !== undefined) return cached.validity.last
  if (endpoint.keyedBy === 'hash') return cached?.lowestVersion
  return endpoint.keyedBy === 'version' || endpoint.keyedBy === 'transaction' ? requestedVersion : undefined
}

/** Returns true if a pruned entry may be served; one that every upstream has pruned needs `pruned.serveCached`. */
export function mayServePruned (context: PrunedParts, read: Read, cached: VersionBounds): boolean {
  const version = lowestVersionOf(read, cached)
  return context.settings.pruned.serveCached ||
    (version !== undefined && !context.upstreamPool.isPrunedEverywhere(version))
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

/** Throws and counts the 410 for a version that every upstream has pruned (law 11: "gone" is a fact, not a guess). */
export function rejectPruned (context: PrunedParts, read: Read): void {
  const { requestedVersion } = read
  const distance = prunedDistance(context.tracker.position, read)
  // Requires both: the served position, which is of our chain, and the last known window of every upstream.
  if (
    !context.settings.pruned.answerLocally || distance === undefined || requestedVersion === undefined ||
    !context.upstreamPool.isPrunedEverywhere(requestedVersion)
  ) return
  context.metrics.pruned(read.endpoint.name, 'local', distance)
  throw context.prunedErrorBuilder.errorFor(requestedVersion, requestedVersion + distance)
}

/** Counts a response of an upstream that lacks pruned history. */
export function countPrunedResponse (context: PrunedParts, read: Read, { response, notStored }: FetchResult): void {
  if (notStored !== 'pruned_page' && !reportsPruned(response)) return
  context.metrics.pruned(read.endpoint.name, 'upstream', prunedDistance(context.tracker.position, read))
}

/**
 * Throws the 410 for a page whose beginning was pruned, where an operator wants that. Such a page comes only after
 * every upstream with a longer history has responded (law 11: "gone" is a fact, not a guess).
 */
export function rejectPrunedPage (context: PrunedParts, { response, notStored }: FetchResult): void {
  const oldest = response.stamped?.position.oldest.version
  // Nothing was pruned of a whole history: such a page begins where its stream does.
  if (!context.settings.pages.strict || notStored !== 'pruned_page' || oldest === undefined || oldest === 0n) {
    return
  }
  throw context.prunedErrorBuilder.errorFor(oldest - 1n, oldest)
}
