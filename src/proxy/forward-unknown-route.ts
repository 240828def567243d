import { UnprovenPositionError } from '../upstreams/chain-guard.js'
import { ImpossibleResponseError, type FetchedResponse, type Inspection } from '../upstreams/upstream-failure.js'
import { describeUnusableChains } from '../chain/describe-chain-mismatch.js'
import { newAttemptBudget, type UpstreamRequest } from '../upstreams/upstream-request.js'
import { reportsPruned, type UpstreamResponse } from '../api/upstream-response.js'
import { readMinVersion } from '../api/min-version.js'
import { isSafeMethod, versionInTarget } from '../api/pass-through-target.js'
import { unavailableError } from '../api/error-response.js'
import { isAboveServedHead, type VersionRequirements, waitForVersions } from './wait-for-version.js'
import { deniesServedVersion, isBehindVersion, isBelowMinVersion, laggingError, requireCapacity } from './fetch.js'
import { type ReadClient } from './pinned-read.js'
import { type ProxyContext } from './proxy-context.js'

/** Client request on an unknown route, with the minimum version that the client requires. */
export type ForwardedRequest = Omit<UpstreamRequest, 'endpoint' | 'isIdempotent' | 'clientId' | 'span'> & {
  readonly minVersion?: string | readonly string[] | undefined
}

/**
 * Forwards a request on an unknown route and learns the position; the signal cancels it. A request that may write goes
 * to one upstream only.
 */
export async function forwardUnknownRoute (
  context: ProxyContext,
  { minVersion, ...upstreamRequest }: ForwardedRequest,
  client: ReadClient,
  signal: AbortSignal
): Promise<UpstreamResponse> {
  const isIdempotent = isSafeMethod(upstreamRequest.method)
  const version = versionInTarget(upstreamRequest.target)
  if (version !== undefined && isIdempotent) context.lowestRequested.record(version, context.tracker.position)
  // Requests that may write do not wait for a version.
  const versionRequirements = isIdempotent
    ? { requestedVersion: version, minVersion: readMinVersion(minVersion) }
    : { requestedVersion: undefined, minVersion: undefined }
  const attempts = newAttemptBudget()
  requireCapacity(context, client)
  await client.admit?.()
  if (isAboveServedHead(context, versionRequirements)) await waitForVersions(context, versionRequirements, client)
  const servedVersion = context.tracker.position?.head.version
  const requirements = { requestedVersion: version, minVersion: versionRequirements.minVersion, servedVersion }
  const forward = (): Promise<Pick<FetchedResponse<ForwardedInspection>, 'response'>> =>
    context.upstreamPool.forward(
      {
        ...upstreamRequest,
        endpoint: 'other',
        clientId: client.id,
        bytes: client.bytes,
        span: client.span,
        attempts,
        isIdempotent
      },
      { version, minVersion: servedVersion, events: undefined },
      received => inspectForwarded(context, received, requirements),
      signal
    )
  const { response } = await forward()
    .catch(async (error: unknown) => {
      // A second response decides if the first one was a false header or the beginning of another chain.
      if (error instanceof UnprovenPositionError && isIdempotent) return await forward()
      throw error
    })
    .catch((error: unknown) => {
      const isOtherChain = error instanceof ImpossibleResponseError &&
        (error.inspection as ForwardedInspection).isOtherChain
      throw unavailableError(
        describeUnusableChains(context.upstreamPool.upstreams, context.tracker) ??
          (isOtherChain ? 'the upstream serves another chain' : 'no upstream could answer')
      )
    })
  // The response for a fixed version is the same at every head.
  if (version === undefined && isBelowMinVersion(response, versionRequirements.minVersion)) {
    response.rest?.destroy()
    throw laggingError()
  }
  if (response.stamped !== undefined) context.tracker.show(response.stamped)
  if (response.status === 410) context.metrics.pruned('other', 'upstream', undefined)
  return response
}

interface ForwardedInspection extends Inspection {
  readonly isOtherChain: boolean
}

/** Learns the position of a response. Prefers upstreams at the served head, so unknown routes do not go back either. */
function inspectForwarded (
  context: ProxyContext,
  response: UpstreamResponse,
  { requestedVersion, minVersion, servedVersion }: VersionRequirements & { readonly servedVersion: bigint | undefined }
): ForwardedInspection {
  const { stamped } = response
  const isOtherChain = stamped !== undefined &&
    context.tracker.learn(stamped.position, stamped.family, stamped.encryptionKey) === 'other_chain'
  if (isOtherChain || deniesServedVersion(context, { requestedVersion, height: undefined }, response)) {
    return { flaw: 'impossible', isOtherChain }
  }
  if (reportsPruned(response)) return { flaw: 'pruned', isOtherChain }
  const isLagging = isBehindVersion(response, servedVersion) ||
    (requestedVersion === undefined && isBelowMinVersion(response, minVersion))
  return { flaw: isLagging ? 'lagging' : undefined, isOtherChain }
}
