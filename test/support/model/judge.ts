import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { type Chain, type Era } from './chain.js'
import { expectedResponse, isRequestRejection, type LedgerMoment } from './oracle.js'
import { headerOf, type ModelRequest } from './request.js'
import { decodedBody, type ModelResponse, responseDifference, responseHeader } from './response-difference.js'
import { type ServedFloor, servedPositionOf, type ServedPosition } from './served-position.js'

/** A request, its response, and what clients knew when it was sent. */
export interface JudgedExchange {
  readonly request: ModelRequest
  readonly response: ModelResponse
  readonly servedFloor: ServedFloor
  /** True if it was known to be cached, by era, when it was sent. */
  readonly wasCached: (era: Era) => boolean
}

/** A verdict: the reason why a response is wrong, or undefined, and its position. */
export interface Judgement {
  readonly failure: string | undefined
  readonly served?: ServedPosition | undefined
}

/** Knowledge about the upstreams while a request is on its way. */
export interface World<E extends JudgedExchange> {
  readonly chain: Chain
  /** Decides by the exchange alone, as for requests that varve rejects; undefined leaves it to the ledger. */
  judgeAlone(given: E, served: ServedPosition | undefined): Judgement | undefined
  /** Version that a request names. */
  versionOf(given: E): bigint | undefined
  /** Eras that a response may come from, the oldest first. */
  erasOf(given: E): readonly Era[]
  /** Returns a reason why a position is wrong, or undefined. */
  judgePosition(given: E, served: ServedPosition): string | undefined
  /** Request as an upstream gets it. */
  upstreamRequestOf(given: E): ModelRequest
  /** Returns the states of the ledger in which a response may have been made, the likeliest first. */
  momentsOf(given: E, era: Era, served: ServedPosition | undefined): readonly LedgerMoment[]
  /** Version that a cursor on the response must carry. */
  pinnedVersionOf(given: E, served: ServedPosition | undefined): bigint | undefined
  /** False if an ETag stands for another body. */
  isEtagOf(etag: string, right: SandboxResponse): boolean
  /** Returns a reason why a response that fits no state is wrong; undefined if upstreams explain it. */
  judgeOther(given: E, era: Era, served: ServedPosition | undefined, difference: string | undefined): string | undefined
}

/** Decides whether a response is right, by the chain and the possible states of the upstreams meanwhile. */
export function judge<E extends JudgedExchange> (given: E, world: World<E>): Judgement {
  const { response } = given
  const served = servedPositionOf(response, world.chain)
  if (typeof served === 'string') return { failure: served }
  const decided = world.judgeAlone(given, served)
  if (decided !== undefined) return decided
  const eras = world.erasOf(given)
  if (served === undefined) return { failure: anyRight(eras, era => judgeContent(given, world, era, served)) }
  const { era } = served
  if (!eras.includes(era)) {
    return { failure: `a response of era ${era.index}, but era ${String(eras[0]?.index)} was noticed` }
  }
  const version = world.versionOf(given)
  if (response.status < 400 && version !== undefined && served.version < version) {
    return { failure: `position ${served.version} is below the requested version ${version}`, served }
  }
  // Treats node info as of any era until a reset is noticed, because it has no position of its own.
  const judged = isInfo(given.request)
    ? anyRight(eras, each => judgeContent(given, world, each, served))
    : judgeContent(given, world, era, served)
  return { failure: world.judgePosition(given, served) ?? judged, served }
}

/** True for a request for node info, whose members have another order each time. */
export const isInfo = ({ target }: ModelRequest): boolean => /\/info(?:\?|$)/.test(target)

/** True for a request for the gas price, which changes every `gasBlocks`. */
export const isGasPrice = ({ target }: ModelRequest): boolean => /^[^?]*\/estimate_gas_price(?:\?|$)/.test(target)

/** Number of blocks between changes of the gas price. */
export const gasBlocks = 40

function anyRight (eras: readonly Era[], judged: (era: Era) => string | undefined): string | undefined {
  const verdicts = eras.map(judged)
  return verdicts.includes(undefined) ? undefined : verdicts.join('; or ')
}

function judgeContent<E extends JudgedExchange> (
  given: E,
  world: World<E>,
  era: Era,
  served: ServedPosition | undefined
): string | undefined {
  const sent = world.upstreamRequestOf(given)
  const pinned = world.pinnedVersionOf(given, served)
  let first: string | undefined
  for (const moment of world.momentsOf(given, era, served)) {
    const difference = differenceTo(given, expectedResponse(era, sent, moment), pinned, world)
    if (difference === undefined) return undefined
    first ??= difference
  }
  return world.judgeOther(given, era, served, first)
}

function differenceTo<E extends JudgedExchange> (
  { request, response }: E,
  right: SandboxResponse,
  pinned: bigint | undefined,
  world: World<E>
): string | undefined {
  if (response.status === 304) return notModified(request, response, right, world)
  // Ignores wording: a node's rejection may quote the canonical text that varve sent.
  if (isRequestRejection(right.status, name => responseHeader(right, name) !== undefined, right.body)) {
    return response.status === right.status ? undefined : `${response.status} for ${right.status}`
  }
  if (isInfo(request) && right.status === 200 && response.status === 200) {
    return request.method === 'HEAD' || membersOf(decodedBody(request, response)) === membersOf(right.body)
      ? undefined
      : 'not the info of this chain'
  }
  if (response.headers['x-node-cursor'] !== response.headers['x-aptos-cursor']) return 'the two cursors differ'
  return responseDifference(request, response, right, pinned)
}

/** Checks a 304: the client's body must be the upstream's. */
function notModified<E extends JudgedExchange> (
  sent: ModelRequest,
  { headers: { etag }, bytes }: ModelResponse,
  right: SandboxResponse,
  world: World<E>
): string | undefined {
  const ifNoneMatch = headerOf(sent, 'if-none-match') ?? ''
  if (right.status !== 200) return `304 for ${right.status}`
  if (typeof etag !== 'string' || bytes.length > 0) return '304 without a tag, or with a body'
  if (ifNoneMatch !== '*' && !ifNoneMatch.includes(etag)) return `304 for ${etag}, which was not requested`
  return isInfo(sent) || world.isEtagOf(etag, right) ? undefined : `304 for ${etag}, which is the tag of another body`
}

// Sorts members, whose order differs each time.
function membersOf (body: Buffer | string): string {
  return JSON.stringify(Object.entries(JSON.parse(body.toString()) as object).sort())
}
