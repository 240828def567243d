import { UnprovenPositionError } from '../upstreams/chain-guard.js'
import { type InspectResponse } from '../upstreams/upstream-failure.js'
import { newAttemptBudget, type UpstreamRequest } from '../upstreams/upstream-request.js'
import { reportsPruned, type UpstreamResponse } from '../api/upstream-response.js'
import { readMinVersion } from '../api/read-request.js'
import { isSafeMethod, versionInTarget } from '../api/pass-through-target.js'
import { isAboveKnownHead, waitForVersions, type WaitParts } from './wait-for-version.js'
import {
  type CapacityParts,
  deniesServedVersion,
  isBehindVersion,
  isBelowMinVersion,
  laggingError,
  requireCapacity
} from './fetch.js'
import { noUpstreamError, type ReadClient } from './pinned-read.js'
import { type MemoParts } from './parsed-request.js'
import { type PrunedParts } from './pruned-reads.js'

/** Parts that forward a request on an unknown route. */
export type ForwardParts = CapacityParts & WaitParts & Pick<MemoParts, 'lowestRequested'> & Pick<PrunedParts, 'metrics'>

/** Client request on an unknown route, with the minimum version that the client requires. */
export type ForwardedRequest = Omit<UpstreamRequest, 'endpoint' | 'isIdempotent' | 'client'> & {
  readonly minVersion?: string | readonly string[] | undefined
}

/**
 * Forwards a request on an unknown route and learns the position; the signal cancels it. A request that may write goes
 * to one upstream only.
 */
export async function forwardUnknownRoute (
  context: ForwardParts,
  { minVersion, ...upstreamRequest }: ForwardedRequest,
  client: ReadClient,
  signal: AbortSignal
): Promise<UpstreamResponse> {
  const isIdempotent = isSafeMethod(upstreamRequest.method)
  const version = versionInTarget(upstreamRequest.target)
  if (version !== undefined && isIdempotent) context.lowestRequested.record(version, context.tracker.position)
  // Waits for no version if the request may write.
  const versionRequirements = isIdempotent
    ? { requestedVersion: version, minVersion: readMinVersion(minVersion) }
    : { requestedVersion: undefined, minVersion: undefined }
  const attempts = newAttemptBudget()
  requireCapacity(context, client)
  await client.admit?.()
  if (isAboveKnownHead(context, versionRequirements)) await waitForVersions(context, versionRequirements, client)
  const servedVersion = context.tracker.position?.head.version
  let isOtherChain = false
  // Learns every position, and prefers upstreams at the served head, so that unknown routes do not go back either.
  const inspect: InspectResponse = received => {
    const { stamped } = received
    isOtherChain = stamped !== undefined &&
      context.tracker.learn(stamped.position, stamped.family, stamped.encryptionKey) === 'other_chain'
    if (isOtherChain || deniesServedVersion(context, { requestedVersion: version, height: undefined }, received)) {
      return 'impossible'
    }
    // Accepts any response to a request that may write.
    if (!isIdempotent) return undefined
    if (reportsPruned(received)) return 'pruned'
    const isLagging = isBehindVersion(received, servedVersion) ||
      (version === undefined && isBelowMinVersion(received, versionRequirements.minVersion))
    return isLagging ? 'lagging' : undefined
  }
  const forward = (): Promise<UpstreamResponse> =>
    context.upstreamPool.fetch(
      {
        ...upstreamRequest,
        endpoint: 'other',
        client: { ...client, attempts },
        isIdempotent,
        isStreamed: true
      },
      { version, minVersion: servedVersion, events: undefined },
      inspect,
      signal
    )
  const response = await forward()
    .catch(async (error: unknown) => {
      // Forwards again, because a second response shows if the first had a false header or is of another chain.
      if (error instanceof UnprovenPositionError && isIdempotent) return await forward()
      throw error
    })
    .catch(() => {
      throw noUpstreamError(context, isOtherChain ? 'the upstream serves another chain' : 'no upstream could answer')
    })
  // Rejects an old response, except for a fixed version, at which every head gives the same.
  if (version === undefined && isBelowMinVersion(response, versionRequirements.minVersion)) {
    response.rest?.destroy()
    throw laggingError()
  }
  if (response.stamped !== undefined) {
    context.tracker.show(response.stamped)
    // Delays no response to a request that may have written.
    if (isIdempotent) {
      await context.tracker.sharedHeads?.reach(response.stamped.position.head.version).catch((error: unknown) => {
        response.rest?.destroy()
        throw error
      })
    }
  }
  if (response.status === 410) context.metrics.pruned('other', 'upstream', undefined)
  return response
}
