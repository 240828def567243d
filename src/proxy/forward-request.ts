import { type InspectResponse } from '../upstreams/attempt-runner.js'
import { describeChainMismatch } from '../chain/chain-mismatch.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { reportsPruned, type UpstreamResponse } from '../api/upstream-response.js'
import { readMinVersion } from '../api/min-version.js'
import { isSafeMethod, versionInTarget } from '../api/pass-through-target.js'
import { unavailableError } from '../api/error-response.js'
import { waitForVersions, isAboveServedHead } from './wait-for-version.js'
import { deniesServedVersion, isBehindVersion, isBelowMinVersion, laggingError } from './fetch-and-judge.js'
import { type ProxyContext } from './proxy-context.js'

/** Client request on an unknown route, with the minimum version that the client requires. */
export type ForwardedRequest = Omit<UpstreamRequest, 'endpoint' | 'isIdempotent' | 'clientId'> & {
  readonly minVersion?: string | readonly string[] | undefined
}

/**
 * Forwards a request on an unknown route and learns the position; the signal cancels it. A request that may write goes
 * to one upstream only.
 */
export async function forwardRequest (
  context: ProxyContext,
  { minVersion, ...upstreamRequest }: ForwardedRequest,
  signal: AbortSignal
): Promise<UpstreamResponse> {
  const isIdempotent = isSafeMethod(upstreamRequest.method)
  const version = versionInTarget(upstreamRequest.target)
  if (version !== undefined && isIdempotent) context.lowestRequested.record(version, context.tracker.position)
  // Requests that may write do not wait for a version.
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
    // Prefers an upstream at the served head, so unknown routes do not go back in time either.
    return isBehindVersion(response, servedVersion) ||
        (version === undefined && isBelowMinVersion(response, versionRequirements.minVersion))
      ? 'lagging'
      : undefined
  }
  const response = await context.upstreamPool.forward(
    { ...upstreamRequest, endpoint: 'other', clientId: context.clientId, isIdempotent },
    { version, minVersion: servedVersion, events: undefined },
    inspect,
    signal
  )
    .catch(() => {
      throw unavailableError(
        describeChainMismatch(context.upstreamPool.upstreams, context.tracker) ??
          (isOtherChain ? 'the upstream serves another chain' : 'no upstream could answer')
      )
    })
  // The response for a fixed version is the same at every head.
  if (version === undefined && isBelowMinVersion(response, versionRequirements.minVersion)) {
    response.rest?.destroy()
    throw laggingError()
  }
  if (response.status === 410) context.metrics.pruned('other', 'upstream', undefined)
  return response
}
