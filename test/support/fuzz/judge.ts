import { type SandboxResponse } from '../../../sandbox/response.js'
import { type FuzzSetting } from './fuzz-case.js'
import { isHistoryRead, isKnownEndpoint, type SeenResponses, parsedReadOf } from './seen-responses.js'
import { isStricterByDesign } from './stricter-by-design.js'
import { isRequestRejection, type LedgerMoment, type Oracle } from './oracle.js'
import { startsListing, type UnpinnedRequest } from './pinned-cursors.js'
import { responseDifference, responseHeader, decodedBody } from './response-difference.js'
import { headerOf, asForwarded, type RawRequest } from './raw-request.js'
import { fuzzPositionOf, type FuzzPosition } from './fuzz-position.js'
import { outcomeOf } from './tally.js'
import { type RawResponse } from './raw-connections.js'

/** One request, varve's response and the upstream's response to the same. */
export interface JudgedExchange {
  readonly request: RawRequest
  /** The request as an upstream would get it, without versions in cursors. */
  readonly unpinned: UnpinnedRequest
  readonly response: RawResponse
  readonly nodeResponse: RawResponse
  /** States of the ledger when the request was sent and when the response arrived. */
  readonly from: LedgerMoment
  readonly to: LedgerMoment
  /** Served head when the request was sent. */
  readonly servedFloor: FuzzPosition | undefined
  /** Every release that the upstream has run so far. */
  readonly releases: readonly string[]
  /** True if the same request was known to be cached when it was sent. */
  readonly wasCached: boolean
  readonly setting: FuzzSetting
}

/** A verdict: the reason why a response is wrong, or undefined. */
export interface FuzzJudgement {
  readonly failure: string | undefined
  readonly served: FuzzPosition | undefined
}

const plainQuestion = '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'

// Number of blocks between changes of the gas price.
const gasBlocks = 40

/** Decides whether a response is right. */
export function judgeExchange (exchange: JudgedExchange, oracle: Oracle, memory: SeenResponses): FuzzJudgement {
  const { response, nodeResponse } = exchange
  if (nodeResponse.status >= 400 && nodeResponse.headers['content-type'] === undefined) {
    // Accepts a closed connection for an unreadable request.
    return wrong(
      response.status === 0 || isClientError(response.status) ? undefined : `${response.status} for what is no request`
    )
  }
  if (response.status === 0) return wrong('no answer')
  const served = fuzzPositionOf(response, oracle.archive)
  if (typeof served === 'string') return wrong(served)
  const { request, servedFloor } = exchange
  if (
    served !== undefined && servedFloor !== undefined &&
    (served.version < servedFloor.version || served.oldest < servedFloor.oldest)
  ) {
    return wrong(
      `the position has gone back to ${served.version}, ${served.oldest} from ${servedFloor.version}, ${servedFloor.oldest}`
    )
  }
  const read = parsedReadOf(request)
  if (
    response.status < 400 && read?.requestedVersion !== undefined && (served?.version ?? 0n) < read.requestedVersion
  ) {
    return wrong(
      `the position ${served?.version} is below the version ${read.requestedVersion} that the answer speaks of`
    )
  }
  return {
    failure: judgeAnswer(exchange, oracle, memory, served) ?? judgeForm(exchange, oracle, memory, served),
    served
  }
}

function judgeAnswer (
  exchange: JudgedExchange,
  oracle: Oracle,
  memory: SeenResponses,
  shown: FuzzPosition | undefined
): string | undefined {
  const { response, nodeResponse, request, from, to, wasCached, setting } = exchange
  const outcome = outcomeOf(response.headers['cache-status'])
  if (outcome === undefined) return `Cache-Status says ${response.headers['cache-status']}`
  // Excludes upgrades during the request: varve may have noticed them and revalidated.
  if (wasCached && from.release === to.release && outcome !== 'hit' && outcome !== 'pruned hit') {
    return `what was kept is ${outcome}`
  }
  if (setting.isObserving && outcome !== 'forwarded' && outcome !== 'refused') {
    return `${outcome}, though nothing is to be served from the cache`
  }
  if (outcome === 'refused') return judgeRejection(exchange, oracle)
  // Checks law 5: a latest read is never older than its request. A response without position tells no time.
  if (
    outcome === 'forwarded' && response.status < 400 && nodeResponse.headers['x-aptos-ledger-version'] !== undefined &&
    shown !== undefined && shown.height < from.height
  ) return `read at height ${shown.height}, though the node had got to ${from.height} before`
  const asked = parsedReadOf(request)?.requestedVersion
  if (
    asked !== undefined && shown !== undefined && outcome.endsWith('hit') &&
    (outcome === 'pruned hit') !== (asked < oracle.archive.block(shown.oldest).firstVersion)
  ) return `a ${outcome} of version ${asked} beside the oldest at height ${shown.oldest}`
  const meant = isKnownEndpoint(request) ? exchange.unpinned.request : asForwarded(request)
  const differences = moments(exchange, outcome, shown).map(moment =>
    differs(exchange, oracle.respond(meant, moment), memory, shown)
  )
  return differences.includes(undefined)
    ? undefined
    : `${outcome} with ${
      differences[0] ?? 'nothing to compare with'
    } (node at ${to.height}, its history from ${to.oldest})`
}

/**
 * Checks rejections: the upstream must reject the request too, unless varve is stricter by design. A 410 needs the same
 * words.
 */
function judgeRejection (
  { request, unpinned, response, nodeResponse, servedFloor, to }: JudgedExchange,
  oracle: Oracle
): string | undefined {
  if (!isClientError(response.status)) return `refused with ${response.status}`
  if (
    isRequestRejection(nodeResponse.status, name => nodeResponse.headers[name] !== undefined, nodeResponse.bytes) ||
    unpinned.isContradictory ||
    isStricterByDesign(request, servedFloor?.version)
  ) return undefined
  // Allows for the node's order of checks: it looks at its head before it reads a view's types, with other words.
  if (
    response.status === 400 && parsedReadOf({ ...request, body: plainQuestion })?.endpoint.name === 'view' &&
    oracle.respond({ ...unpinned.request, target: '/v1/view' }, to).status === 400
  ) return undefined
  const isGone = response.status === 410 && nodeResponse.status === 410 &&
    (request.method === 'HEAD' || response.bytes.equals(nodeResponse.bytes))
  return isGone
    ? undefined
    : `refused with ${response.status} ${response.bytes.toString()}, but the node says ${nodeResponse.status} ${
      nodeResponse.bytes.toString('latin1', 0, 300)
    }`
}

/** Returns the states of the ledger in which the response may have been made. */
function moments (
  { from, to, request, releases, response, setting }: JudgedExchange,
  outcome: string,
  shown: FuzzPosition | undefined
): LedgerMoment[] {
  const height = shown?.height ?? to.height
  const lately = between(from.release, to.release)
  switch (outcome) {
    // Allows any release since for a hit: a release renders again whatever a node still has.
    case 'hit': {
      const isGas = /^[^?]*\/estimate_gas_price(?:\?|$)/.test(request.target)
      const heights = isGas
        ? Array.from({ length: Math.floor(height / gasBlocks) + 1 }, (_, at) => height - at * gasBlocks)
        : [height]
      // Allows any past window for the index, which reports its own; other entries equal those of an unpruned node.
      const oldests = parsedReadOf(request)?.endpoint.name === 'index'
        ? Array.from({ length: to.oldest + 1 }, (_, at) => to.oldest - at)
        : [0]
      return heights.flatMap(at => oldests.flatMap(oldest => lately.map(release => ({ height: at, oldest, release }))))
    }
    case 'pruned hit':
      return releases.map(release => ({ height, oldest: 0, release }))
    default: {
      // Allows later heights for a 404: the version may have come meanwhile. Observing shows the present too.
      const isLate = response.status === 404 && (outcome !== 'forwarded' || setting.isObserving)
      const heights = isLate ? [height, ...between(from.height, to.height)] : [height]
      return heights.flatMap(at =>
        between(from.oldest, to.oldest).flatMap(oldest => lately.map(release => ({ height: at, oldest, release })))
      )
    }
  }
}

const between = <T>(from: T, to: T): T[] => from === to ? [from] : [from, to]

function differs (
  exchange: JudgedExchange,
  right: SandboxResponse,
  memory: SeenResponses,
  shown: FuzzPosition | undefined
): string | undefined {
  const { request, response } = exchange
  if (response.status === 304) return notModified(request, response, right, memory)
  // Ignores wording: a node's rejection may quote the canonical text that varve sent.
  if (isRequestRejection(right.status, name => responseHeader(right, name) !== undefined, right.body)) {
    return response.status === right.status
      ? undefined
      : `${response.status} for ${right.status}`
  }
  if (isInfo(request) && right.status === 200 && response.status === 200) {
    return request.method === 'HEAD' || membersOf(response.bytes, request, response) === membersOf(right.body)
      ? undefined
      : 'not the info of this node'
  }
  return responseDifference(request, response, right, pinnedAt(exchange, shown))
}

/** Returns the version that a cursor on the response must carry: the request's, or that of the first page. */
function pinnedAt (
  { request, unpinned, setting }: JudgedExchange,
  shown: FuzzPosition | undefined
): bigint | undefined {
  return unpinned.pinned ?? (setting.pinsPages && startsListing(request) ? shown?.version : undefined)
}

/** Checks a 304: the client's body must be the upstream's. */
function notModified (
  sent: RawRequest,
  got: RawResponse,
  right: SandboxResponse,
  memory: SeenResponses
): string | undefined {
  const { etag } = got.headers
  const asked = headerOf(sent, 'if-none-match') ?? ''
  if (right.status !== 200) return `304 for ${right.status}`
  if (etag === undefined || got.bytes.length > 0) return '304 without a tag, or with a body'
  if (asked !== '*' && !asked.includes(etag)) return `304 for ${etag}, which was not asked for`
  return isInfo(sent) || memory.isEtagOf(etag, responseHeader(right, 'content-type') ?? '', right.body) !== false
    ? undefined
    : `304 for ${etag}, which is the tag of another body`
}

const isInfo = ({ target }: RawRequest): boolean => /\/info(?:\?|$)/.test(target)

// Sorts members, whose order differs each time.
function membersOf (bytes: Buffer, sent?: RawRequest, got?: RawResponse): string {
  const body = sent === undefined || got === undefined ? bytes : decodedBody(sent, got)
  return JSON.stringify(Object.entries(JSON.parse(body.toString()) as object).sort())
}

/** Checks ETags, codings and keys. */
function judgeForm (
  { request, unpinned, response, to }: JudgedExchange,
  oracle: Oracle,
  memory: SeenResponses,
  shown: FuzzPosition | undefined
): string | undefined {
  const { etag, 'content-type': type = '', 'content-encoding': coding = '' } = response.headers
  const body = decodedBody(request, response)
  if (typeof body === 'string') return body
  const read = parsedReadOf(request)
  const right = oracle.respond(unpinned.request, { height: shown?.height ?? to.height, oldest: 0, release: to.release })
  if (response.status === 200 && etag !== undefined && request.method !== 'HEAD') {
    const mixed = memory.recordEtag(etag, type, coding, body)
    if (mixed !== undefined) return mixed
  }
  if (read === undefined || !isHistoryRead(read, oracle.archive.position(to.height).version)) return undefined
  if (
    right.status !== 200 &&
    (read.endpoint.notFoundCode === undefined || !right.body.includes(`"${read.endpoint.notFoundCode}"`))
  ) return undefined
  return memory.recordKey(request, read, right, to.release)
}

const isClientError = (status: number): boolean => status >= 400 && status < 500
const wrong = (text: string | undefined): FuzzJudgement => ({ failure: text, served: undefined })
