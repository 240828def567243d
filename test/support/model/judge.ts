import { createHash } from 'node:crypto'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { classOf, type Read } from '../../../src/api/read.js'
import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { type Chain, type Era, expectedResponse, isRequestRejection, type LedgerMoment } from './chain.js'
import {
  isKnownEndpoint,
  isLatestState,
  isStricterByDesign,
  parsedReadOf,
  pin,
  startsListing,
  unpinRequest,
  type UnpinnedRequest
} from './request.js'
import { asForwarded, headerOf, type ModelRequest, type ModelResponse } from './request.js'
import { type ServedFloor, servedPositionOf, type ServedPosition } from './served-position.js'
import { type Outcome, outcomeOf } from './tally.js'
import { type UpstreamState } from './upstream.js'

/** A request, its response, and what explains it. */
export interface Exchange {
  readonly request: ModelRequest
  readonly response: ModelResponse
  readonly sentAt: number
  readonly arrivedAt: number
  /** Time at which varve last knew what every upstream had. */
  readonly knownAt: number
  /** Positions that its process served before. */
  readonly floor: ServedFloor
  /** Oldest height that its process served before, where it cannot go back. */
  readonly oldestFloor: number
  /** True if the same request was stored, and nothing was evicted or purged. */
  readonly wasCached: boolean
}

/** A verdict: the reason why a response is wrong, or undefined, and its position. */
export interface Judgement {
  readonly failure: string | undefined
  readonly served?: ServedPosition | undefined
}

/** Configuration of varve, as far as it changes what a right response is. */
export interface JudgeOptions {
  readonly pinsPages: boolean
  /** Age that is allowed to a latest read when it arrives. */
  readonly maxAgeMs: number
}

/** States of each upstream from a time on. */
type States = ReadonlyArray<readonly UpstreamState[]>

/** An exchange with everything that it shows at once. */
interface Facts extends Exchange {
  readonly read: Read | undefined
  readonly outcome: Outcome
  readonly unpinned: UnpinnedRequest
  readonly sent: ModelRequest
  readonly served: ServedPosition | undefined
  /** States that varve may believe, and those that were while it read. */
  readonly known: States
  readonly during: States
  /** True if an upstream was down, unhealthy, behind or on another chain meanwhile. */
  readonly isTroubled: boolean
}

const gasBlocks = 40
// Time that a read waits for a new rendering before it gets the stored one (law 8: rendering can change).
const freshRenderingMs = 400
const plainViewBody = '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'

/** Decides whether a response is right, by the chain and the states of the upstreams meanwhile. */
export class Judge {
  readonly #chain: Chain
  readonly #options: JudgeOptions
  readonly #statesSince: (time: number) => States
  readonly #etags = new Etags()

  constructor (chain: Chain, options: JudgeOptions, statesSince: (time: number) => States) {
    this.#chain = chain
    this.#options = options
    this.#statesSince = statesSince
  }

  judge (given: Exchange): Judgement {
    const { request, response, sentAt, knownAt } = given
    if (response.status === 0 && this.#mayBeCut(request, sentAt)) return { failure: undefined, served: undefined }
    const served = servedPositionOf(response, this.#chain)
    if (typeof served === 'string') return { failure: served }
    const cacheStatus = String(response.headers['cache-status'])
    const outcome = outcomeOf(cacheStatus)
    if (outcome === undefined) return { failure: `Cache-Status is ${cacheStatus}` }
    const unpinned = unpinRequest(request)
    const known = this.#statesSince(Math.min(knownAt, sentAt))
    const facts: Facts = {
      ...given,
      read: parsedReadOf(request),
      outcome,
      unpinned,
      sent: isKnownEndpoint(request) ? unpinned.request : asForwarded(request),
      served,
      known,
      during: this.#statesSince(sentAt),
      isTroubled: known.flat().some(({ condition, era, height }, _, all) =>
        condition !== 'up' || era !== all[0]?.era || height < (all[0]?.height ?? 0)
      )
    }
    const failure = this.#judgeOutcome(facts) ?? this.#judgePosition(facts) ?? this.#judgeContent(facts) ??
      this.#judgeEtag(facts)
    return { failure, served }
  }

  /** True if an upstream may cut a streamed response, which is then cut for the client too. */
  #mayBeCut (request: ModelRequest, sentAt: number): boolean {
    return !isKnownEndpoint(request) && !this.#statesSince(sentAt).flat().every(isUp)
  }

  /** Checks that what is cached is a hit (law 6: the cache can only help), and that a 200 has a position. */
  #judgeOutcome ({ read, outcome, response, served, wasCached, known, floor }: Facts): string | undefined {
    const isHit = outcome === 'hit' || outcome === 'pruned hit'
    const released = new Set(known.flat().map(({ release }) => release))
    if (wasCached && released.size === 1 && !isHit) return `a cached response is ${outcome}`
    if (response.status < 400 && read !== undefined && served === undefined) return 'no position'
    const { requestedVersion, minVersion } = read ?? {}
    if (read === undefined || served === undefined || response.status >= 400) return undefined
    if (requestedVersion !== undefined && served.version < requestedVersion) {
      return `position ${served.version} is below the requested version ${requestedVersion}`
    }
    if (minVersion !== undefined && classOf(read) === 'moving' && served.version < minVersion) {
      return `position ${served.version} is below the least version ${minVersion}`
    }
    // Several upstreams have several windows, of which the position has one.
    if (
      known.length === 1 && requestedVersion !== undefined && isHit && floor.era === served.era.index &&
      (outcome === 'pruned hit') !== (requestedVersion < served.oldest)
    ) return `a ${outcome} of version ${requestedVersion} beside the oldest at height ${served.oldestHeight}`
    return undefined
  }

  /** Checks laws 4, 5 and 7: of this chain, never before the served head, and of a window that an upstream had. */
  #judgePosition (given: Facts): string | undefined {
    const { served, known, floor, oldestFloor, outcome, read, response, request, sentAt, isTroubled } = given
    if (served === undefined) return undefined
    const { era, version, height, oldest, oldestHeight } = served
    if (era.index < floor.era || !isAnyOf(known, era)) {
      return `a response of era ${era.index}, though varve knew eras from ${Math.max(floor.era, oldestEraOf(known))}`
    }
    if (era.index === floor.era && oldestHeight < oldestFloor) {
      return `the oldest height has gone back to ${oldestHeight} from ${oldestFloor}`
    }
    if (!this.#statesSince(0).flat().some(each => each.era === era.index && each.oldest === oldestHeight)) {
      return `no upstream's history has begun at ${oldest}`
    }
    const least = floor.versions[era.index] ?? -1n
    const hasReached = (state: UpstreamState): boolean =>
      state.era !== era.index || era.archive.position(state.height).version >= least
    // Allows a fetched moving response to be behind only while no live upstream has reached the served head.
    const mayBeBehind = outcome !== 'hit' && outcome !== 'pruned hit' && (read === undefined
      ? isTroubled
      : (classOf(read) !== 'immutable' || read.mayBeMoving) &&
        !known.some(each => each.every(isUp) && each.every(hasReached)))
    if (version < least && !mayBeBehind) return `the position has gone back to ${version} from ${least}`
    if (response.status >= 400 || outcome === 'rejected') return undefined
    const isLatest = read !== undefined && isLatestState(read)
    const heads = this.#statesSince(sentAt - (isLatest ? this.#options.maxAgeMs : 0)).flat()
      .filter(each => each.era === era.index).map(each => each.height)
    if (isLatest && !heads.includes(height)) {
      return `a latest read at height ${height}, but upstreams had ${heads.join()} in the last ${this.#options.maxAgeMs} ms`
    }
    // Node info has no position of its own.
    if (outcome === 'forwarded' && !isInfo(request) && height < Math.min(...heads)) {
      return `read at height ${height}, though every upstream had got to ${Math.min(...heads)} before`
    }
    return undefined
  }

  #judgeContent (given: Facts): string | undefined {
    const { served, outcome, response, known, request } = given
    // Takes node info as of any chain until a reset is noticed, because it has no position of its own.
    const eras = served === undefined || isInfo(request)
      ? this.#chain.eras.filter(era => isAnyOf(known, era))
      : [served.era]
    const isOwn = outcome === 'rejected' && response.status < 500
    const verdicts = eras.map(era => {
      const rejected = isOwn ? this.#judgeRejection(given, era) : undefined
      // A node may reject what varve says is gone.
      return isOwn && (rejected === undefined || response.status !== 410) ? rejected : this.#judgeIn(given, era)
    })
    return verdicts.includes(undefined) ? undefined : verdicts.join('; or ')
  }

  #judgeIn (given: Facts, era: Era): string | undefined {
    const { response: { status }, read, outcome, isTroubled } = given
    let first: string | undefined
    for (const moment of this.#momentsOf(given, era)) {
      const difference = this.#differenceTo(given, expectedResponse(era, given.sent, moment))
      if (difference === undefined) return status < 400 ? undefined : this.#judgeError(given, era, true)
      first ??= difference
    }
    // Forwards what an unhealthy upstream sends as it is, if the endpoint is unknown.
    if (read === undefined && outcome === 'forwarded' && isTroubled) return undefined
    return status === 404 || status === 429 || status >= 500
      ? this.#judgeError(given, era, false)
      : `${outcome} with ${first ?? 'nothing to compare with'}`
  }

  /** Returns the states of the ledger in which a response may have been made, the likeliest first. */
  #momentsOf (given: Facts, { index }: Era): LedgerMoment[] {
    const { served, outcome, known, response, request, read, isTroubled, sentAt, arrivedAt } = given
    const states = (isTroubled || known.length > 1 ? known : given.during).flat().filter(({ era }) => era === index)
    const isHit = outcome === 'hit' || outcome === 'pruned hit'
    const heights = new Set(served?.era.index === index ? [served.height] : [])
    if (served !== undefined && isHit && isGasPrice(request)) {
      for (let at = served.height; at >= 0; at -= gasBlocks) heights.add(at)
    }
    // A not-found may be earlier than its position: the version may have come meanwhile.
    if (served === undefined || response.status >= 400 || isInfo(request)) {
      for (const { height } of states) heights.add(height)
    }
    const oldests = new Set(
      isHit ? [0, ...read?.endpoint.name === 'index' ? this.#oldestsOf(index) : []] : states.map(({ oldest }) => oldest)
    )
    // An older release's rendering is right if no upstream could render again in time, or the index is micro-cached.
    const isOld = outcome === 'pruned hit' || (isHit && read?.endpoint.name === 'index') ||
      arrivedAt - sentAt > freshRenderingMs ||
      (isTroubled && !known.some(each => each.every(isUp)))
    const releases = new Set((isOld ? this.#statesSince(0) : known).flat().map(({ release }) => release))
    return [...heights].flatMap(height =>
      [...oldests].filter(oldest => oldest <= height).flatMap(oldest =>
        [...releases].map(release => ({ height, oldest, release }))
      )
    )
  }

  #oldestsOf (index: number): number[] {
    return this.#statesSince(0).flat().filter(({ era }) => era === index).map(({ oldest }) => oldest)
  }

  #differenceTo (given: Facts, right: SandboxResponse): string | undefined {
    const { request, response, unpinned, served } = given
    if (response.status === 304) return this.#judgeNotModified(given, right)
    // Ignores wording: a node's rejection may quote the canonical text that varve sent.
    if (isRequestRejection(right)) {
      return response.status === right.status ? undefined : `${response.status} for ${right.status}`
    }
    if (isInfo(request) && right.status === 200 && response.status === 200) {
      return request.method === 'HEAD' || membersOf(decodedBody(request, response)) === membersOf(right.body)
        ? undefined
        : 'not the info of this chain'
    }
    if (response.headers['x-node-cursor'] !== response.headers['x-aptos-cursor']) return 'the two cursors differ'
    const pinned = unpinned.pinned ?? (this.#options.pinsPages && startsListing(request) ? served?.version : undefined)
    return responseDifference(request, response, right, pinned)
  }

  /** Checks a 304: the client's body must be the upstream's. */
  #judgeNotModified ({ request, response }: Facts, right: SandboxResponse): string | undefined {
    const { headers: { etag }, bytes } = response
    const ifNoneMatch = headerOf(request, 'if-none-match') ?? ''
    if (right.status !== 200) return `304 for ${right.status}`
    if (typeof etag !== 'string' || bytes.length > 0) return '304 without a tag, or with a body'
    if (ifNoneMatch !== '*' && !ifNoneMatch.includes(etag)) return `304 for ${etag}, which was not requested`
    return isInfo(request) || this.#etags.mayBeOf(etag, responseHeader(right, 'content-type') ?? '', right.body)
      ? undefined
      : `304 for ${etag}, which is the tag of another body`
  }

  /** Checks law 11 ("gone" is a fact), and that an error comes only where no upstream could do better. */
  #judgeError (given: Facts, era: Era, isOfNode: boolean): string | undefined {
    const { response, read, floor, known, sent, isTroubled, outcome } = given
    const code = /"error_code":"(\w+)"/.exec(response.bytes.toString())?.[1] ?? 'without a code'
    const rejection = `${response.status} ${response.bytes.toString('latin1', 0, 300)}`
    const isUnhealthy = known.flat().some(({ condition }) => condition === 'unhealthy')
    const version = read?.requestedVersion ?? (code === 'version_not_found' ? read?.minVersion : undefined)
    const isPage = read?.endpoint.keyedBy === 'page'
    switch (response.status) {
      case 404:
        if (!isOfNode && code !== 'version_not_found' && code !== 'block_not_found') {
          return `${rejection} is not what the chain says`
        }
        if (!/^(?:version|block|transaction)_not_found$/.test(code)) return undefined
        if (version !== undefined && version <= (floor.versions[era.index] ?? -1n)) {
          return `${rejection} for a version at or below the served head`
        }
        break
      case 410:
        if (isPage || read === undefined) break
        return known.every(each => each.some(state => state.era !== era.index || statusIn(era, sent, state) === 410))
          ? undefined
          : `${rejection} though an upstream had it`
      case 503:
        if (code !== 'internal_error' && sent.method !== 'HEAD') return `${rejection} is not of the node's shape`
        if (outcome === 'rejected' && !/^\d+$/.test(String(response.headers['retry-after']))) {
          return `${rejection} without Retry-After`
        }
        break
      default:
        if (response.status >= 500 || response.status === 429) {
          if (!isOfNode && !isUnhealthy) return `${rejection} without an unhealthy upstream`
        } else return undefined
    }
    // A page of events may lack its beginning on a pruned upstream, so only the longest history counts.
    if (isPage && (isOfNode || isTroubled)) return undefined
    const isAble = (state: UpstreamState): boolean =>
      isUp(state) && state.era === era.index &&
      era.archive.position(state.height).version >= (read?.minVersion ?? 0n) && statusIn(era, sent, state) < 400
    // A hash does not say if its transaction is pruned, so any upstream may be asked.
    const isAnyAble = read?.endpoint.name === 'transaction_by_hash'
      ? known.every(each => each.every(isAble))
      : known.some(each => each.every(isAble))
    return isAnyAble
      ? `${rejection} though an upstream could respond all the while`
      : undefined
  }

  /** Checks rejections: an upstream must reject the request too, unless varve is stricter by design. */
  #judgeRejection ({ request, unpinned, response, floor, known, sent }: Facts, era: Era): string | undefined {
    if (unpinned.isContradictory || isStricterByDesign(request, floor.versions[era.index])) return undefined
    const states = known.flat().filter(state => state.era === era.index)
    const rights = states.map(state => expectedResponse(era, sent, state))
    if (rights.some(isRequestRejection)) return undefined
    // Allows for the node's order of checks: it looks at its head before it reads a view's types, with other words.
    if (
      response.status === 400 && parsedReadOf({ ...request, body: plainViewBody })?.endpoint.name === 'view' &&
      states.some(state => statusIn(era, { ...sent, target: '/v1/view' }, state) === 400)
    ) return undefined
    // A node calls a malformed state key its own error, also after its head.
    const [valueTarget = ''] = sent.target.split('?', 1)
    if (
      response.status === 400 && valueTarget.endsWith('/state_values/raw') &&
      states.some(state => statusIn(era, { ...sent, target: valueTarget }, state) === 500)
    ) return undefined
    return `rejected with ${response.status} ${response.bytes.toString()}, but upstreams respond ${
      rights.map(({ status }) => status).join()
    }`
  }

  #judgeEtag ({ request, response }: Facts): string | undefined {
    const { etag, 'content-type': type = '', 'content-encoding': coding = '' } = response.headers
    const body = decodedBody(request, response)
    if (typeof body === 'string') return body
    return response.status === 200 && etag !== undefined && request.method !== 'HEAD'
      ? this.#etags.record(String(etag), String(type), String(coding), body)
      : undefined
  }
}

const isUp = ({ condition }: UpstreamState): boolean => condition === 'up'
const isAnyOf = (states: States, { index }: Era): boolean => states.flat().some(({ era }) => era === index)
const oldestEraOf = (states: States): number => Math.min(...states.flat().map(({ era }) => era))
const statusIn = (era: Era, sent: ModelRequest, state: UpstreamState): number =>
  expectedResponse(era, sent, state).status
const isInfo = ({ target }: ModelRequest): boolean => /\/info(?:\?|$)/.test(target)
const isGasPrice = ({ target }: ModelRequest): boolean => /^[^?]*\/estimate_gas_price(?:\?|$)/.test(target)

// Sorts members, whose order differs each time.
function membersOf (body: Buffer | string): string {
  return JSON.stringify(Object.entries(JSON.parse(body.toString()) as object).sort())
}

/** Entity tags seen so far: each stands for one body in one type and coding. */
class Etags {
  readonly #seen = new Map<string, string>()

  /** Records a tag; returns an error if it stands for two bodies, types or codings. */
  record (etag: string, type: string, coding: string, body: Buffer): string | undefined {
    const stands = digestOf(type, coding, body)
    const before = this.#seen.get(etag)
    if (before !== undefined && before !== stands) return `the ETag ${etag} stands for two responses`
    this.#seen.set(etag, stands)
    return undefined
  }

  /** False if a tag was seen, and with another body. */
  mayBeOf (etag: string, type: string, body: Buffer): boolean {
    const stands = this.#seen.get(etag)
    return stands === undefined || ['', 'br', 'gzip'].some(coding => digestOf(type, coding, body) === stands)
  }
}

const digestOf = (...parts: (string | Buffer)[]): string => {
  const digest = createHash('sha1')
  for (const part of parts) digest.update(part).update('\n')
  return digest.digest('base64')
}

const typeOf = (text: unknown): string => String(text ?? '').split(';', 1).join('')

/** Returns a header of an upstream's response. */
const responseHeader = ({ headers }: SandboxResponse, name: string): string | undefined =>
  headers.find(([known]) => known === name)?.[1]

/** Returns the body without its coding; a text if it cannot be decoded or must not have been coded. */
function decodedBody (sent: ModelRequest, { headers, bytes }: ModelResponse): Buffer | string {
  const coding = headers['content-encoding']
  if (typeof coding !== 'string') return bytes
  if (!takes(headerOf(sent, 'accept-encoding') ?? '', coding)) return `a body in ${coding}, which was not requested`
  if (sent.method === 'HEAD') return bytes
  try {
    if (coding === 'br') return brotliDecompressSync(bytes)
    if (coding === 'gzip') return gunzipSync(bytes)
  } catch {
    return `a body that is not ${coding}`
  }
  return `an unknown coding: ${coding}`
}

function takes (acceptEncoding: string, coding: string): boolean {
  const items = acceptEncoding.toLowerCase().split(',').map(item => item.trim())
  return items.some(item =>
    new RegExp(`^(?:x-)?(?:${coding}|\\*)(?:$|[ ;])`).test(item) && !/;\s*q=0(?:\.0*)?$/.test(item)
  )
}

/**
 * Returns the difference between a response and the upstream's, byte for byte, or undefined. A cursor may have to carry
 * a version.
 */
function responseDifference (
  sent: ModelRequest,
  got: ModelResponse,
  right: SandboxResponse,
  pinned?: bigint
): string | undefined {
  if (got.status !== right.status) return `${got.status} for ${right.status}`
  const body = decodedBody(sent, got)
  if (typeof body === 'string') return body
  if (sent.method !== 'HEAD') {
    if (!body.equals(right.body)) return `another body: ${shortened(body)} for ${shortened(right.body)}`
  } else if (
    got.headers['content-encoding'] === undefined && got.headers['content-length'] !== String(right.body.length)
  ) return `a head of ${String(got.headers['content-length'])} bytes for ${right.body.length}`
  if (typeOf(got.headers['content-type']) !== typeOf(responseHeader(right, 'content-type'))) {
    return `${String(got.headers['content-type'])} for ${responseHeader(right, 'content-type')}`
  }
  const own = responseHeader(right, 'x-aptos-cursor')
  const cursor = own === undefined || pinned === undefined ? own : pin(pinned, own)
  if (got.headers['x-aptos-cursor'] !== cursor) {
    return `the cursor ${String(got.headers['x-aptos-cursor'])} for ${cursor}`
  }
  return undefined
}

const shortened = (body: Buffer): string =>
  JSON.stringify(body.length > 300 ? `${body.toString('latin1', 0, 300)}... (${body.length})` : body.toString('latin1'))
