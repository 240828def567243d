import { type ChainGeneration } from '../chain/tracker.js'
import { type InspectResponse } from '../upstreams/attempt-runner.js'
import { describeChainMismatch } from '../chain/chain-mismatch.js'
import { QuarantinedError } from '../upstreams/quarantine.js'
import { UpstreamFailure } from '../upstreams/upstream-failure.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { mediaTypes } from '../api/accept.js'
import {
  deniesVersion,
  reportsInvalidInput,
  reportsNotFound,
  reportsPruned,
  type UpstreamResponse
} from '../api/upstream-response.js'
import { judge, type JudgedResponse, type NotStoredReason, impossibleReason } from '../api/lifetime.js'
import { eventSelectionOf, type Read, targetOf } from '../api/read.js'
import { type ErrorResponse, unavailableError } from '../api/error-response.js'
import { type ProxyContext } from './proxy-context.js'
import { missingHistoryOf } from './events/event-streams.js'

/** Judged latest response. A stale one is behind the served head, has no known age, and is not micro-cached. */
export interface JudgedLatest extends JudgedResponse {
  readonly isStale: boolean
}

/**
 * Fetches a versioned read; rejects with 503 if the upstreams deny a served version (law 11: "gone" and "not there" are
 * facts, not guesses).
 */
export async function fetchVersioned (context: ProxyContext, read: Read): Promise<JudgedResponse> {
  return await fetchUnlessDenied(context, read, noRequirements)
}

/**
 * Fetches a latest read (law 5: a latest read is never older than its request). A response behind the served head fails
 * over, and is then retried once. Rejects with 503 below the client's minimum version.
 */
export async function fetchCurrent (context: ProxyContext, read: Read, chain: ChainGeneration): Promise<JudgedLatest> {
  const servedVersion = highestVersion(context.tracker.position?.head.version, read.minVersion)
  // A full page is history at any head; after a reset the old served head means nothing.
  const isStale = ({ response, verdict }: JudgedResponse): boolean =>
    (!read.mayBeMoving || verdict.lifetime === undefined) &&
    (isBelowMinVersion(response, read.minVersion) ||
      (!isReset(context, chain) && isBehindVersion(response, servedVersion)))
  const requirements: FetchRequirements = {
    minVersion: servedVersion,
    isStale,
    missingHistoryOf: judged => missingHistoryOf(context, read, chain, judged)
  }
  const judged = await fetchUnlessDenied(context, read, requirements)
  if (!isStale(judged)) return { ...judged, isStale: false }
  // Skips a useless retry: another replica may have served a head that no upstream of this process has reached.
  if (servedVersion !== undefined && !context.upstreamPool.mayHaveReached(servedVersion)) return countStale(judged)
  const retried = await fetchUnlessDenied(context, read, requirements).catch(() => undefined)
  if (retried === undefined) return countStale(judged)
  const [newer, other] = isNewer(retried.response, judged.response) ? [retried, judged] : [judged, retried]
  discardBody(other)
  return isStale(newer) ? countStale(newer) : { ...newer, isStale: false }

  function countStale (stale: JudgedResponse): JudgedLatest {
    if (isBelowMinVersion(stale.response, read.minVersion)) {
      discardBody(stale)
      throw laggingError()
    }
    context.metrics.staleLatest()
    return { ...stale, isStale: true }
  }
}

/** Returns true if the chain has been reset since the read pinned it. */
export function isReset (context: ProxyContext, chain: ChainGeneration): boolean {
  return context.tracker.chain?.generation !== chain.generation
}

// Minimum head of the upstream, and tests for a stale response and for missing history.
interface FetchRequirements {
  readonly minVersion: bigint | undefined
  readonly isStale: (judged: JudgedResponse) => boolean
  readonly missingHistoryOf: (judged: JudgedResponse) => 'pruned' | 'partial' | undefined
}

const noRequirements: FetchRequirements = {
  minVersion: undefined,
  isStale: () => false,
  missingHistoryOf: () => undefined
}

async function fetchUnlessDenied (
  context: ProxyContext,
  read: Read,
  requirements: FetchRequirements
): Promise<JudgedResponse> {
  const judged = await fetchAndLearn(context, read, requirements)
  if (judged !== undefined) return judged
  // The version at a served height is unknown; the served head is its upper bound.
  const version = read.requestedVersion ?? context.tracker.position?.head.version
  const retried = version !== undefined && context.upstreamPool.mayHaveReached(version)
    ? await fetchAndLearn(context, read, requirements)
    : undefined
  if (retried === undefined) throw laggingError()
  return retried
}

/** Builds the 503 for a version that was served or is required, and that the upstreams lack. */
export function laggingError (): ErrorResponse {
  return unavailableError('all upstreams lag behind the requested version')
}

/** Fetches and learns from every response; undefined if the upstreams deny a version that was already served. */
async function fetchAndLearn (
  context: ProxyContext,
  read: Read,
  requirements: FetchRequirements
): Promise<JudgedResponse | undefined> {
  context.rejectIfOverloaded?.()
  const generationBefore = context.tracker.chain?.generation
  let inspected: JudgedResponse | undefined
  let impossible: NotStoredReason | undefined
  let isDenied = false
  const inspect: InspectResponse = response => {
    const learned = response.stamped && context.tracker.learn(response.stamped.position, response.stamped.family)
    inspected = { response, verdict: judge(read, response, context.settings) }
    isDenied = deniesServedVersion(context, read, response)
    impossible = learned === 'other_chain'
      ? 'wrong_chain'
      : impossibleReason(read, response) ?? wrongContentReason(inspected.verdict)
    if (impossible !== undefined || isDenied) return 'impossible'
    const missing = reportsPruned(response) ? 'pruned' : requirements.missingHistoryOf(inspected)
    if (missing === 'pruned' || !requirements.isStale(inspected)) return missing
    return missing === 'partial' ? 'partial_lagging' : 'lagging'
  }
  let response: UpstreamResponse
  try {
    response = await context.upstreamPool.fetch(upstreamRequestOf(context, read), {
      version: read.requestedVersion,
      minVersion: requirements.minVersion,
      events: eventSelectionOf(read)
    }, inspect)
  } catch (error) {
    if (isDenied) return undefined
    throw impossible === undefined
      ? errorResponseFor(context, read, error)
      : impossibleResponseError(context, read, impossible)
  }
  // After a reset during the fetch the chain of the response is unknown, so it is fetched again (law 7: chains never
  // mix).
  if (context.tracker.chain?.generation !== generationBefore) {
    discardBody({ response })
    return await fetchAndLearn(context, read, requirements)
  }
  if (response.status === 410) context.prunedErrors.learn(response)
  return inspected?.response === response ? inspected : { response, verdict: judge(read, response, context.settings) }
}

// An impossible response is not sent to the client either: 503 is better than a wrong body.
function impossibleResponseError (context: ProxyContext, read: Read, reason: NotStoredReason): ErrorResponse {
  context.metrics.notStored(read.endpoint.name, reason)
  return unavailableError('the upstream sent a response that cannot be true')
}

/** Builds the upstream request from the same parts as the key (law 1: what is keyed is what is sent). */
export function upstreamRequestOf ({ clientId }: Pick<ProxyContext, 'clientId'>, read: Read): UpstreamRequest {
  const { endpoint: { name, method }, accept, body } = read
  const headers = { accept: mediaTypes[accept], ...(body !== undefined && { 'content-type': body.type }) }
  return { endpoint: name, method, target: targetOf(read), headers, body: body?.sent, clientId, isIdempotent: true }
}

function errorResponseFor (context: ProxyContext, read: Read, error: unknown): ErrorResponse {
  if (error instanceof QuarantinedError) context.metrics.notStored(read.endpoint.name, 'wrong_chain')
  if (error instanceof UpstreamFailure && error.reason === 'truncated') {
    context.metrics.notStored(read.endpoint.name, 'incomplete')
  }
  return unavailableError(
    describeChainMismatch(context.upstreamPool.upstreams, context.tracker) ?? 'no upstream could answer'
  )
}

// Content of another block or transaction is impossible; other verdicts only prevent storing.
function wrongContentReason ({ notStored }: JudgedResponse['verdict']): NotStoredReason | undefined {
  return notStored === 'wrong_block' || notStored === 'wrong_transaction' ? notStored : undefined
}

/**
 * Returns true if a response denies a served version or height, as lagging nodes do (law 11: "gone" and "not there" are
 * facts, not guesses).
 */
export function deniesServedVersion (
  context: ProxyContext,
  { requestedVersion, height }: Pick<Read, 'requestedVersion' | 'height'>,
  response: UpstreamResponse
): boolean {
  const head = context.tracker.position?.head
  if (head === undefined) return false
  const wasServed = requestedVersion === undefined
    ? height !== undefined && height <= head.blockHeight
    : requestedVersion <= head.version
  // A list that starts above a node's head is an invalid input: docs/node-behaviour.md, "Transactions".
  return wasServed &&
    (deniesVersion(response) || (isBehindVersion(response, requestedVersion) && reportsInvalidInput(response)))
}

export function isBehindVersion (response: UpstreamResponse, version: bigint | undefined): boolean {
  return response.stamped !== undefined && version !== undefined && response.stamped.position.head.version < version
}

/**
 * Returns true if a response was read below the minimum version. A not-found without a position counts, because its
 * version is unknown.
 */
export function isBelowMinVersion (response: UpstreamResponse, minVersion: bigint | undefined): boolean {
  if (minVersion === undefined) return false
  return isBehindVersion(response, minVersion) || (response.stamped === undefined && reportsNotFound(response))
}

function highestVersion (a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a
}

// A response without a position, such as a gateway's 429, proves no head.
function isNewer (a: UpstreamResponse, b: UpstreamResponse): boolean {
  return a.stamped !== undefined && isBehindVersion(b, a.stamped.position.head.version)
}

/** Destroys the rest of a body that no client gets. */
function discardBody ({ response }: Pick<JudgedResponse, 'response'>): void {
  response.rest?.destroy()
}
