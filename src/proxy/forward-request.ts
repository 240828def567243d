import { type InspectResponse } from '../upstreams/attempts.js'
import { describeChainMismatch } from '../chain/chain-mismatch.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { readMinVersion } from '../api/min-version.js'
import { isReadMethod, versionInTarget } from '../api/unknown-route.js'
import { unavailableError } from '../api/error-response.js'
import { waitForVersions, isAboveServedHead } from './wait-for-version.js'
import { deniesServedVersion, isBehindVersion, isBelowMinVersion, laggingError } from './fetch-and-judge.js'
import { type ProxyContext } from './proxy-context.js'
import { reportsPruned } from './events/event-streams.js'

/** What a client asks on a route that varve does not know, with the least version that it asks for. */
export type ForwardedRequest = Omit<UpstreamRequest, 'endpoint' | 'isIdempotent' | 'clientId'> & {
  readonly minVersion?: string | readonly string[] | undefined
}

/**
 * Asks for a client what varve does not know, what may write of one node alone, and learns the position; the signal
 * takes the question back.
 */
export async function forwardRequest (
  context: ProxyContext,
  { minVersion, ...question }: ForwardedRequest,
  signal: AbortSignal
): Promise<UpstreamResponse> {
  const isIdempotent = isReadMethod(question.method)
  const version = versionInTarget(question.target)
  if (version !== undefined && isIdempotent) context.lowestRequested.record(version, context.tracker.position)
  // What may write is nothing to wait for.
  const versionRequirements = isIdempotent
    ? { requestedVersion: version, minVersion: readMinVersion(minVersion) }
    : { requestedVersion: undefined, minVersion: undefined }
  context.rejectIfOverloaded?.()
  await context.admit?.()
  if (isAboveServedHead(context, versionRequirements)) await waitForVersions(context, versionRequirements)
  const servedVersion = context.tracker.position?.head.version
  let isOtherChain = false
  const inspect: InspectResponse = response => {
    isOtherChain = response.stamped !== undefined &&
      context.tracker.learn(response.stamped.position, response.stamped.family) === 'other_chain'
    if (isOtherChain || deniesServedVersion(context, { requestedVersion: version, height: undefined }, response)) {
      return 'impossible'
    }
    if (reportsPruned(response)) return 'pruned'
    // Whatever it is that is asked for, clients are not led back in time where another node has got there.
    return isBehindVersion(response, servedVersion) ||
        (version === undefined && isBelowMinVersion(response, versionRequirements.minVersion))
      ? 'lagging'
      : undefined
  }
  const response = await context.upstreamPool.forward(
    { ...question, endpoint: 'other', clientId: context.clientId, isIdempotent },
    { version, minVersion: servedVersion, events: undefined },
    inspect,
    signal
  )
    .catch(() => {
      throw unavailableError(
        describeChainMismatch(context.upstreamPool.upstreams, context.tracker) ??
          (isOtherChain ? 'the upstream serves another chain' : 'no node could answer')
      )
    })
  // The state at a version is the same wherever its node stands.
  if (version === undefined && isBelowMinVersion(response, versionRequirements.minVersion)) {
    response.rest?.destroy()
    throw laggingError()
  }
  if (response.status === 410) context.tally.pruned('other', 'upstream', undefined)
  return response
}
