import { contradicts } from '../chain/tracker.js'
import { QuarantinedError, UnprovenPositionError } from '../upstreams/chain-guard.js'
import { type InspectResponse, UpstreamFailure } from '../upstreams/upstream-failure.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { mediaTypes } from '../api/accept.js'
import { type Position } from '../api/position.js'
import {
  deniesVersion,
  reportsInvalidInput,
  reportsNotFound,
  reportsPruned,
  type UpstreamResponse
} from '../api/upstream-response.js'
import { judge, type JudgedResponse, type NotStoredReason, impossibleReason } from '../api/store-verdict.js'
import { eventPageStartOf, type Read, targetOf } from '../api/read.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { noUpstreamError, type PinnedRead, type PinParts, type ReadClient } from './pinned-read.js'
import { type EventParts, judgeEventHistory } from './event-history.js'
import { type EndpointName } from '../api/endpoints.js'
import { type PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { type Config } from '../config/schema.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'

/**
 * Parts that a request to an upstream needs. The request is rejected while the process has no time or bytes left for
 * it.
 */
export interface CapacityParts {
  /** Budget for bytes outside the cache. */
  readonly inFlight: InFlightBytes
  /** Throws a 503 for a read that needs an upstream while the process is overloaded. */
  readonly rejectIfOverloaded?: (() => void) | undefined
  readonly metrics: {
    /** Counts a request rejected because the budget for bytes is used up. */
    overBudget(): void
  }
}

/** Parts that fetch a read and judge its response. */
export type FetchParts = CapacityParts & EventParts & PinParts & {
  readonly settings: Pick<Config, 'pages'>,
  readonly prunedErrorBuilder: PrunedErrorBuilder,
  readonly metrics: {
    staleLatest(): void,
    notStored(endpoint: EndpointName, reason: NotStoredReason): void
  }
}

/**
 * Fetched response with its verdict. A stale response is behind the served head, has no known age, and is not cached.
 */
export interface FetchedJudged extends JudgedResponse {
  readonly isStale: boolean
}

/**
 * Fetches a read and judges its response. A response that denies a served version, or a latest one behind the served
 * head, is fetched once more (law 5: a latest read is never older than its request). Rejects with 503 if no upstream
 * has the version (law 11: "gone" and "not there" are facts, not guesses).
 */
export async function fetchJudged (context: FetchParts, pinned: PinnedRead): Promise<FetchedJudged> {
  const { read } = pinned
  const head = context.tracker.position?.head.version
  const servedVersion = isLatest(pinned) ? highestVersion(head, read.minVersion) : undefined
  const first = await fetchAndLearn(context, pinned, servedVersion)
  if (first !== undefined) {
    const { response, verdict } = first
    if (!isStale(context, pinned, servedVersion, first)) return { response, verdict, isStale: false }
    // Frees the slot of the first response for the retry, because no client gets a body below its minimum version.
    if (isBelowMinVersion(response, read.minVersion)) discardBody(first)
    pinned.client.bytes?.holdWaiting(response.body)
  }
  const judged = await fetchAgain(context, pinned, servedVersion, first)
  if (judged === undefined) throw laggingError()
  if (!isStale(context, pinned, servedVersion, judged)) return { ...judged, isStale: false }
  if (isBelowMinVersion(judged.response, read.minVersion)) {
    discardBody(judged)
    throw laggingError()
  }
  context.metrics.staleLatest()
  return { ...judged, isStale: true }
}

/** Fetches again if that may help, and returns the newer response; undefined if both deny a served version. */
async function fetchAgain (
  context: FetchParts,
  pinned: PinnedRead,
  servedVersion: bigint | undefined,
  first: JudgedResponse | undefined
): Promise<JudgedResponse | undefined> {
  if (first === undefined) {
    // Takes the served head for the version of a served height, which is unknown, because the head is its upper bound.
    const version = pinned.read.requestedVersion ?? context.tracker.position?.head.version
    const mayHelp = version !== undefined && context.upstreamPool.mayHaveReached(version)
    return mayHelp ? await fetchAndLearn(context, pinned, servedVersion) : undefined
  }
  // Skips a useless retry: another replica may have served a head that no upstream of this process has reached.
  if (servedVersion !== undefined && !context.upstreamPool.mayHaveReached(servedVersion)) return first
  const second = await fetchAndLearn(context, pinned, servedVersion).catch(() => undefined)
  if (second === undefined) return first
  const [newer, other] = isNewer(second.response, first.response) ? [second, first] : [first, second]
  discardBody(other)
  return newer
}

function isLatest ({ read, readClass }: PinnedRead): boolean {
  return read.mayBeMoving || readClass === 'moving'
}

/** Returns true if a latest response is too old. A full page is history at any head; a reset voids the served head. */
function isStale (
  context: FetchParts,
  pinned: PinnedRead,
  servedVersion: bigint | undefined,
  { response, verdict }: JudgedResponse
): boolean {
  const { read } = pinned
  if (!isLatest(pinned) || (read.mayBeMoving && verdict.lifetime !== undefined)) return false
  return isBelowMinVersion(response, read.minVersion) ||
    (context.tracker.isCurrent(pinned.space) && isBehindVersion(response, servedVersion))
}

const laggingMessage = 'all upstreams lag behind the requested version'

/** Returns true for the 503 for a version that the upstreams lack. */
export function isLaggingError (error: unknown): boolean {
  return error instanceof ErrorResponse && error.message === laggingMessage
}

/** Builds the 503 for a version that was served or is required, and that the upstreams lack. */
export function laggingError (): ErrorResponse {
  return unavailableError(laggingMessage)
}

/**
 * Throws a 503 for an upstream request while the process has no time or bytes left for it (law 10: nothing grows
 * without bound).
 */
export function requireCapacity ({ rejectIfOverloaded, inFlight, metrics }: CapacityParts, { id }: ReadClient): void {
  rejectIfOverloaded?.()
  if (inFlight.admits(id)) return
  metrics.overBudget()
  throw unavailableError('limits.inFlightMb is used up: serving cached responses only, retry later')
}

/**
 * Fetches, and learns from every response; undefined if the upstreams deny a version that was already served. A latest
 * read requires the served version of its upstream.
 */
async function fetchAndLearn (
  context: FetchParts,
  pinned: PinnedRead,
  servedVersion: bigint | undefined,
  isRetry = false
): Promise<JudgedResponse | undefined> {
  const { read, client } = pinned
  requireCapacity(context, client)
  const spaceBefore = context.tracker.space
  const positionBefore = context.tracker.position
  const judgements: Judgement[] = []
  const requirements = { version: read.requestedVersion, minVersion: servedVersion, events: eventPageStartOf(read) }
  let response: UpstreamResponse
  try {
    response = await context.upstreamPool.fetch(upstreamRequestOf(read, client), requirements, received => {
      const judgement = learnAndJudge(context, pinned, servedVersion, received)
      judgements.push(judgement)
      return judgement.flaw
    })
  } catch (error) {
    const impossible = judgements.findLast(({ flaw }) => flaw === 'impossible')?.impossible
    if (impossible === 'denied') return undefined
    // Fetches again, because a second response shows if the first had a false header or is of another chain.
    if (error instanceof UnprovenPositionError && !isRetry) {
      return await fetchAndLearn(context, pinned, servedVersion, true)
    }
    throw impossible === undefined
      ? errorResponseFor(context, read, error)
      : impossibleResponseError(context, read, impossible)
  }
  // Fetches again after a reset: a response that fits the old chain may be of either chain (law 7: chains never mix).
  if (context.tracker.space !== spaceBefore && !isOfNewChain(response, positionBefore)) {
    discardBody({ response })
    return await fetchAndLearn(context, pinned, servedVersion, isRetry)
  }
  if (response.status === 410) context.prunedErrorBuilder.learn(response)
  const judged = judgements.find(judgement => judgement.response === response)
  // Judges a 429 here, because it was not inspected.
  return { response, verdict: judged?.verdict ?? judge(read, response, context.settings.pages) }
}

function isOfNewChain ({ stamped }: UpstreamResponse, positionBefore: Position | undefined): boolean {
  return stamped !== undefined && positionBefore !== undefined && contradicts(stamped.position, positionBefore)
}

/** Judgement of one response, with the reason why it may not be passed on. */
interface Judgement extends JudgedResponse {
  readonly flaw: ReturnType<InspectResponse>
  readonly impossible: NotStoredReason | 'denied' | undefined
}

/** Learns the position of a response, and judges whether another upstream may do better. */
function learnAndJudge (
  context: FetchParts,
  pinned: PinnedRead,
  servedVersion: bigint | undefined,
  response: UpstreamResponse
): Judgement {
  const { read } = pinned
  const { stamped } = response
  const learned = stamped && context.tracker.learn(stamped.position, stamped.family, stamped.encryptionKey)
  const judged = { response, verdict: judge(read, response, context.settings.pages) }
  const impossible = deniesServedVersion(context, read, response)
    ? 'denied'
    : learned === 'other_chain'
    ? 'wrong_chain'
    : impossibleReason(read, response) ?? wrongContentReason(judged.verdict)
  if (impossible !== undefined) return { ...judged, flaw: 'impossible', impossible }
  const isLagging = isStale(context, pinned, servedVersion, judged)
  const { verdict, missing } = judgeEventHistory(context, pinned, judged)
  // Another upstream may have more history or a higher head.
  const flaw = reportsPruned(response) || missing === 'pruned'
    ? 'pruned'
    : isLagging
    ? missing === 'partial' ? 'partial_lagging' : 'lagging'
    : missing
  return { response, verdict, flaw, impossible }
}

// Builds a 503 in place of an impossible response, because 503 is better than a wrong body.
function impossibleResponseError (context: FetchParts, read: Read, reason: NotStoredReason): ErrorResponse {
  context.metrics.notStored(read.endpoint.name, reason)
  return unavailableError('the upstream sent a response that cannot be true')
}

// Shares header objects, whose lines the connection pool prints once.
const headersWithoutBody = { json: { accept: mediaTypes.json }, bcs: { accept: mediaTypes.bcs } } as const

/** Builds the upstream request from the same parts as the key (law 1: what is keyed is what is sent). */
export function upstreamRequestOf (read: Read, client?: ReadClient): UpstreamRequest {
  const { endpoint: { name, method }, accept, body } = read
  const headers = body === undefined
    ? headersWithoutBody[accept]
    : { accept: mediaTypes[accept], 'content-type': body.type }
  return { endpoint: name, method, target: targetOf(read), headers, body: body?.sent, client, isIdempotent: true }
}

function errorResponseFor (context: FetchParts, read: Read, error: unknown): ErrorResponse {
  const isUnused = error instanceof QuarantinedError || error instanceof UnprovenPositionError
  if (isUnused) context.metrics.notStored(read.endpoint.name, 'wrong_chain')
  if (error instanceof UpstreamFailure && error.reason === 'truncated') {
    context.metrics.notStored(read.endpoint.name, 'incomplete')
  }
  return noUpstreamError(context, isUnused ? error.message : 'no upstream could answer')
}

// Returns the reason for content of another block or transaction, which is impossible; other verdicts only prevent
// storing.
function wrongContentReason ({ notStored }: JudgedResponse['verdict']): NotStoredReason | undefined {
  return notStored === 'wrong_block' || notStored === 'wrong_transaction' ? notStored : undefined
}

/**
 * Returns true if a response denies a served version or height, as lagging nodes do (law 11: "gone" and "not there" are
 * facts, not guesses).
 */
export function deniesServedVersion (
  context: Pick<PinParts, 'tracker'>,
  { requestedVersion, height }: Pick<Read, 'requestedVersion' | 'height'>,
  response: UpstreamResponse
): boolean {
  const head = context.tracker.known?.position.head
  if (head === undefined) return false
  const wasServed = requestedVersion === undefined
    ? height !== undefined && height <= head.blockHeight
    : requestedVersion <= head.version
  // Counts an invalid input too: nodes so reject a list that starts above their head (docs/node-behaviour.md,
  // "Transactions").
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

// Returns true if a response proves a newer head, which a response without a position, such as a gateway's 429, never
// does.
function isNewer (a: UpstreamResponse, b: UpstreamResponse): boolean {
  return a.stamped !== undefined && isBehindVersion(b, a.stamped.position.head.version)
}

/** Destroys the rest of a body that no client gets. */
export function discardBody ({ response }: Pick<JudgedResponse, 'response'>): void {
  response.rest?.destroy()
}
