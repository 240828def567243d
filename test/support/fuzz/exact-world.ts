import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { type Chain, type Era } from '../model/chain.js'
import { gasBlocks, isGasPrice, judge, type JudgedExchange, type Judgement, type World } from '../model/judge.js'
import { expectedResponse, isRequestRejection, type LedgerMoment } from '../model/oracle.js'
import { startsListing, type UnpinnedRequest } from '../model/pinned-cursors.js'
import { asForwarded, type ModelRequest } from '../model/request.js'
import { decodedBody, responseHeader } from '../model/response-difference.js'
import { type ServedPosition } from '../model/served-position.js'
import { outcomeOf } from '../model/tally.js'
import { type FuzzSetting } from './fuzz-case.js'
import { type RawResponse } from './raw-connections.js'
import { isHistoryRead, isKnownEndpoint, parsedReadOf, SeenResponses } from './seen-responses.js'
import { isStricterByDesign } from './stricter-by-design.js'

/** State of the one upstream. */
export type ExactMoment = Required<LedgerMoment> & { readonly release: string }

/** One request, varve's response and the upstream's response to the same. */
export interface FuzzExchange extends JudgedExchange {
  /** The request as an upstream would get it, without versions in cursors. */
  readonly unpinned: UnpinnedRequest
  readonly response: RawResponse
  readonly upstreamResponse: RawResponse
  /** States of the ledger when the request was sent and when the response arrived. */
  readonly from: ExactMoment
  readonly to: ExactMoment
  /** Oldest height that was served before. */
  readonly oldestFloor: number
  /** Every release that the upstream has run so far. */
  readonly releases: readonly string[]
}

const plainViewBody = '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'

/** One healthy upstream, whose state is known exactly when a request is sent and when its response arrives. */
export class ExactWorld implements World<FuzzExchange> {
  readonly chain: Chain
  readonly #setting: FuzzSetting
  readonly #seen = new SeenResponses()

  constructor (chain: Chain, setting: FuzzSetting) {
    this.chain = chain
    this.#setting = setting
  }

  /** Decides whether a response is right, and whether its ETag, coding and key are. */
  judge (given: FuzzExchange): Judgement {
    const { response, upstreamResponse } = given
    if (upstreamResponse.status >= 400 && upstreamResponse.headers['content-type'] === undefined) {
      // Accepts a closed connection for an unreadable request.
      const isClosed = response.status === 0 || isClientError(response.status)
      return { failure: isClosed ? undefined : `${response.status} for what is no request` }
    }
    if (response.status === 0) return { failure: 'no response' }
    const { failure, served } = judge(given, this)
    return { failure: failure ?? this.#judgeForm(given, served), served }
  }

  judgeAlone (given: FuzzExchange, served: ServedPosition | undefined): Judgement | undefined {
    const { request, response, from, to, servedFloor, oldestFloor, wasCached } = given
    const outcome = outcomeOf(response.headers['cache-status'])
    const least = servedFloor.versions[0] ?? -1n
    if (served !== undefined && (served.version < least || served.oldestHeight < oldestFloor)) {
      return wrong(
        `the position has gone back to ${served.version}, ${served.oldestHeight} from ${least}, ${oldestFloor}`
      )
    }
    const version = this.versionOf(given)
    if (response.status < 400 && version !== undefined && served === undefined) {
      return wrong('no position for a version')
    }
    if (outcome === undefined) return wrong(`Cache-Status is ${response.headers['cache-status']}`)
    // Excludes upgrades during the request: varve may have noticed them and revalidated.
    if (
      wasCached(this.chain.current) && from.release === to.release && outcome !== 'hit' && outcome !== 'pruned hit'
    ) return wrong(`a cached response is ${outcome}`)
    if (outcome === 'rejected') return { failure: this.#judgeRejection(given), served }
    // Checks law 5 (a latest read is never older than its request). A response without position has no time.
    if (
      outcome === 'forwarded' && response.status < 400 &&
      given.upstreamResponse.headers['x-aptos-ledger-version'] !== undefined &&
      served !== undefined && served.height < from.height
    ) return wrong(`read at height ${served.height}, though the node had got to ${from.height} before`)
    const requestedVersion = parsedReadOf(request)?.requestedVersion
    if (
      requestedVersion !== undefined && served !== undefined && outcome.endsWith('hit') &&
      (outcome === 'pruned hit') !== (requestedVersion < served.oldest)
    ) return wrong(`a ${outcome} of version ${requestedVersion} beside the oldest at height ${served.oldestHeight}`)
    return undefined
  }

  versionOf ({ request }: FuzzExchange): bigint | undefined {
    return parsedReadOf(request)?.requestedVersion
  }

  erasOf (): readonly Era[] {
    return this.chain.eras
  }

  judgePosition (): undefined {
    return undefined
  }

  upstreamRequestOf ({ request, unpinned }: FuzzExchange): ModelRequest {
    return isKnownEndpoint(request) ? unpinned.request : asForwarded(request)
  }

  /** Version that a cursor must carry: the request's, or that of the first page. */
  pinnedVersionOf ({ request, unpinned }: FuzzExchange, served: ServedPosition | undefined): bigint | undefined {
    return unpinned.pinned ?? (this.#setting.pinsPages && startsListing(request) ? served?.version : undefined)
  }

  isEtagOf (etag: string, right: SandboxResponse): boolean {
    return this.#seen.isEtagOf(etag, responseHeader(right, 'content-type') ?? '', right.body) !== false
  }

  momentsOf (
    { from, to, request, releases, response }: FuzzExchange,
    _era: Era,
    served: ServedPosition | undefined
  ): readonly LedgerMoment[] {
    const height = served?.height ?? to.height
    const lately = between(from.release, to.release)
    const outcome = outcomeOf(response.headers['cache-status'])
    switch (outcome) {
      // Allows any release since for a hit: a release renders again whatever a node still has.
      case 'hit': {
        const heights = isGasPrice(request)
          ? Array.from({ length: Math.floor(height / gasBlocks) + 1 }, (_, at) => height - at * gasBlocks)
          : [height]
        // Allows any past window for the index, which reports its own; other entries equal those of an unpruned node.
        const oldests = parsedReadOf(request)?.endpoint.name === 'index'
          ? Array.from({ length: to.oldest + 1 }, (_, at) => to.oldest - at)
          : [0]
        return heights.flatMap(at =>
          oldests.flatMap(oldest => lately.map(release => ({ height: at, oldest, release })))
        )
      }
      case 'pruned hit':
        return releases.map(release => ({ height, oldest: 0, release }))
      default: {
        // Allows later heights for a 404: the version may have come meanwhile.
        const isLate = response.status === 404 && outcome !== 'forwarded'
        const heights = isLate ? [height, ...between(from.height, to.height)] : [height]
        return heights.flatMap(at =>
          between(from.oldest, to.oldest).flatMap(oldest => lately.map(release => ({ height: at, oldest, release })))
        )
      }
    }
  }

  judgeOther (
    { response, to }: FuzzExchange,
    _era: Era,
    _served: ServedPosition | undefined,
    difference: string | undefined
  ): string {
    return `${outcomeOf(response.headers['cache-status'])} with ${
      difference ?? 'nothing to compare with'
    } (node at ${to.height}, its history from ${to.oldest})`
  }

  /**
   * Checks rejections: the upstream must reject the request too, unless varve is stricter by design. A 410 needs the
   * same words.
   */
  #judgeRejection (
    { request, unpinned, response, upstreamResponse, servedFloor, to }: FuzzExchange
  ): string | undefined {
    if (!isClientError(response.status)) return `rejected with ${response.status}`
    if (
      isRequestRejection(
        upstreamResponse.status,
        name => upstreamResponse.headers[name] !== undefined,
        upstreamResponse.bytes
      ) ||
      unpinned.isContradictory ||
      isStricterByDesign(request, servedFloor.versions[0])
    ) return undefined
    // Allows for the node's order of checks: it looks at its head before it reads a view's types, with other words.
    if (
      response.status === 400 && parsedReadOf({ ...request, body: plainViewBody })?.endpoint.name === 'view' &&
      expectedResponse(this.chain.current, { ...unpinned.request, target: '/v1/view' }, to).status === 400
    ) return undefined
    const isGone = response.status === 410 && upstreamResponse.status === 410 &&
      (request.method === 'HEAD' || response.bytes.equals(upstreamResponse.bytes))
    return isGone
      ? undefined
      : `rejected with ${response.status} ${response.bytes.toString()}, but the upstream responds ${upstreamResponse.status} ${
        upstreamResponse.bytes.toString('latin1', 0, 300)
      }`
  }

  /** Checks ETags, codings and keys. */
  #judgeForm (
    { request, unpinned, response, to }: FuzzExchange,
    served: ServedPosition | undefined
  ): string | undefined {
    const { etag, 'content-type': type = '', 'content-encoding': coding = '' } = response.headers
    const body = decodedBody(request, response)
    if (typeof body === 'string') return body
    if (response.status === 200 && etag !== undefined && request.method !== 'HEAD') {
      const mixed = this.#seen.recordEtag(etag, type, coding, body)
      if (mixed !== undefined) return mixed
    }
    const read = parsedReadOf(request)
    const era = this.chain.current
    if (read === undefined || !isHistoryRead(read, era.archive.position(to.height).version)) return undefined
    const right = expectedResponse(era, unpinned.request, { height: served?.height ?? to.height, release: to.release })
    if (
      right.status !== 200 &&
      (read.endpoint.notFoundCode === undefined || !right.body.includes(`"${read.endpoint.notFoundCode}"`))
    ) return undefined
    return this.#seen.recordKey(request, read, right, to.release)
  }
}

const between = <T>(from: T, to: T): T[] => from === to ? [from] : [from, to]
const isClientError = (status: number): boolean => status >= 400 && status < 500
const wrong = (failure: string): Judgement => ({ failure })
