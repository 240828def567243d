import { type Chain } from '../chain/tracker.js'
import { type InspectResponse } from '../upstreams/attempts.js'
import { describeChainMismatch } from '../chain/chain-mismatch.js'
import { QuarantinedError } from '../upstreams/chain-verification.js'
import { UpstreamFailure } from '../upstreams/upstream-failure.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { mediaTypes } from '../api/accept.js'
import { type UpstreamResponse, errorCodeOf } from '../api/upstream-response.js'
import { judge, type JudgedResponse, type NotStoredReason, impossibleReason } from '../api/lifetime.js'
import { type Read, targetOf } from '../api/read.js'
import { type ErrorResponse, unavailableError } from '../api/error-response.js'
import { type ProxyContext } from './proxy-context.js'
import { missingHistoryOf, reportsPruned } from './events/event-streams.js'

/**
 * The same of a read of the moment, and whether its node lags: nothing to give again, since none can say how old it is.
 */
export interface JudgedLatest extends JudgedResponse {
  readonly isStale: boolean
}

/**
 * A version that was already shown exists (law 11): nodes that deny it lag, and behind one address another may have it.
 */
export async function fetchVersioned (context: ProxyContext, read: Read): Promise<JudgedResponse> {
  return await fetchUnlessDenied(context, read, noRequirements)
}

/**
 * An answer of the moment that is behind the position already shown when it was asked for is asked of a node that is
 * further, and of the last again (law 5); what is behind the version that a client asks for expressly is never an
 * answer.
 */
export async function fetchCurrent (context: ProxyContext, read: Read, chain: Chain): Promise<JudgedLatest> {
  const servedVersion = highestVersion(context.tracker.position?.head.version, read.minVersion)
  // A full page is history wherever the node stands; a reset makes what was shown before mean nothing.
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
  // Another replica may have shown what no node of this one has reached yet.
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
    context.tally.staleLatest()
    return { ...stale, isStale: true }
  }
}

/** Whether the chain that a read was pinned to is gone. */
export function isReset (context: ProxyContext, chain: Chain): boolean {
  return context.tracker.chain?.generation !== chain.generation
}

// How far the node must be that answers, whether one was not, and what one may have forgotten.
interface FetchRequirements {
  readonly minVersion: bigint | undefined
  readonly isStale: (judged: JudgedResponse) => boolean
  readonly missingHistoryOf: (judged: JudgedResponse) => 'pruned' | 'partial' | undefined
}

// What nodes say of what they have not got to yet; a state that is not there is another matter.
const versionDenialCodes = new Set<unknown>(['version_not_found', 'block_not_found', 'transaction_not_found'])

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
  // Of a height that was shown no more is known than that the version shown with it is not below it.
  const version = read.requestedVersion ?? context.tracker.position?.head.version
  const retried = version !== undefined && context.upstreamPool.mayHaveReached(version)
    ? await fetchAndLearn(context, read, requirements)
    : undefined
  if (retried === undefined) throw laggingError()
  return retried
}

/** No node has got as far as was asked for, though one had. */
export function laggingError (): ErrorResponse {
  return unavailableError('the nodes lag behind the version asked for')
}

/**
 * Asks and learns from each answer that comes; undefined where those who answered deny a version that was already
 * shown.
 */
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
  // Another chain has been found out while it was under way, and nobody can say of which of them it is (law 7).
  if (context.tracker.chain?.generation !== generationBefore) {
    discardBody({ response })
    return await fetchAndLearn(context, read, requirements)
  }
  if (response.status === 410) context.prunedErrors.learn(response)
  return inspected?.response === response ? inspected : { response, verdict: judge(read, response, context.settings) }
}

// It cannot be the answer to this read, so it is not handed on either: 503 rather than the wrong one.
function impossibleResponseError (context: ProxyContext, read: Read, reason: NotStoredReason): ErrorResponse {
  context.tally.notStored(read.endpoint.name, reason)
  return unavailableError('the node gave an answer that cannot be true')
}

/** Built from the same parts as the key (law 1). */
export function upstreamRequestOf ({ clientId }: Pick<ProxyContext, 'clientId'>, read: Read): UpstreamRequest {
  const { endpoint: { name, method }, accept, body } = read
  const headers = { accept: mediaTypes[accept], ...(body !== undefined && { 'content-type': body.type }) }
  return { endpoint: name, method, target: targetOf(read), headers, body: body?.sent, clientId, isIdempotent: true }
}

function eventSelectionOf ({ endpoint, query }: Read): 'from' | 'last' | undefined {
  return endpoint.keyedBy !== 'page' ? undefined : query.some(([name]) => name === 'start') ? 'from' : 'last'
}

function errorResponseFor (context: ProxyContext, read: Read, error: unknown): ErrorResponse {
  if (error instanceof QuarantinedError) context.tally.notStored(read.endpoint.name, 'wrong_chain')
  if (error instanceof UpstreamFailure && error.reason === 'truncated') {
    context.tally.notStored(read.endpoint.name, 'incomplete')
  }
  return unavailableError(
    describeChainMismatch(context.upstreamPool.upstreams, context.tracker) ?? 'no node could answer'
  )
}

// It tells of something else than was asked for.
function wrongContentReason ({ notStored }: JudgedResponse['verdict']): NotStoredReason | undefined {
  return notStored === 'wrong_block' || notStored === 'wrong_transaction' ? notStored : undefined
}

/** Whether a node denies a version or a height that was already shown, as one that lags does (law 11). */
export function deniesServedVersion (
  context: ProxyContext,
  { requestedVersion, height }: Pick<Read, 'requestedVersion' | 'height'>,
  response: UpstreamResponse
): boolean {
  const head = context.tracker.position?.head
  if ((response.status !== 404 && response.status !== 400) || head === undefined) return false
  const wasServed = requestedVersion === undefined
    ? height !== undefined && height <= head.blockHeight
    : requestedVersion <= head.version
  // Of a list that starts above their head nodes say that its start is no valid one.
  return wasServed &&
    (response.status === 404
      ? versionDenialCodes.has(errorCodeOf(response))
      : isBehindVersion(response, requestedVersion) && errorCodeOf(response) === 'invalid_input')
}

export function isBehindVersion (response: UpstreamResponse, version: bigint | undefined): boolean {
  return response.stamped !== undefined && version !== undefined && response.stamped.position.head.version < version
}

/**
 * Whether an answer was not read at the least version that a client asks for, or cannot be shown to have been: that
 * something is not there is of some version.
 */
export function isBelowMinVersion (response: UpstreamResponse, minVersion: bigint | undefined): boolean {
  if (minVersion === undefined) return false
  return isBehindVersion(response, minVersion) ||
    (response.stamped === undefined && response.status === 404 && String(errorCodeOf(response)).endsWith('_not_found'))
}

function highestVersion (a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a
}

// An answer without a position, such as a gateway's 429, is no word on where the chain stands.
function isNewer (a: UpstreamResponse, b: UpstreamResponse): boolean {
  return a.stamped !== undefined && isBehindVersion(b, a.stamped.position.head.version)
}

/** Nobody will read the rest of an answer that is not handed on. */
function discardBody ({ response }: Pick<JudgedResponse, 'response'>): void {
  response.rest?.destroy()
}
