import { type TestResponse } from '../client.js'
import { type Chain, type Era } from './chain.js'
import { type SimulatedPool, noticeResetMs, type TimeSpan } from './simulated-pool.js'
import { hasEvents, judgeResponse } from './judge-response.js'
import { type ServedFloor, type Observations, servedPositionOf, type ServedPosition } from './served-position.js'
import { type ModelRequest } from './render-request.js'
import { versionOf, type ReadSpec } from './read-spec.js'

/** A read from its request to its response. */
export interface JudgedRead {
  readonly spec: ReadSpec
  readonly request: ModelRequest
  readonly span: TimeSpan
  readonly servedFloor: ServedFloor
  /** True if it was known to be cached, by era, when it was sent. */
  readonly wasCached: (era: Era) => boolean
  readonly response: TestResponse
}

/** State that the judge uses. */
export interface Simulation {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly observations: Observations
}

/** A verdict: the reason why a response is wrong, or undefined, and its position. */
export interface Judgement {
  readonly failure: string | undefined
  readonly served?: ServedPosition
  /** True if it was behind the served head, which law 5 allows a latest read if it is counted. */
  readonly isStale?: boolean
}

/** Decides whether a response is right, by the chain and the possible responses of each upstream meanwhile. */
export function judge (given: JudgedRead, world: Simulation): Judgement {
  const { response, spec, span, servedFloor } = given
  if (spec.kind === 'nonsense') {
    return { failure: response.status === 400 ? undefined : 'what cannot be valid was not refused with 400' }
  }
  const position = servedPositionOf(response, world.chain)
  if (typeof position === 'string') return { failure: position }
  const [from, to] = [Math.max(servedFloor.era, world.pool.requiredEra(span.from)), world.chain.current.index]
  const eras = world.chain.eras.filter(({ index }) => index >= from && index <= to)
  if (position === undefined) {
    if (response.status === 200) return { failure: 'a 200 without a position' }
    return { failure: anyRight(eras, era => judgeResponse(given, world, era, undefined)) }
  }
  const { era } = position
  if (!eras.includes(era)) return { failure: `an answer of era ${era.index}, but era ${from} was noticed` }
  if (!world.pool.hadOldest(era, position.oldest)) {
    return { failure: `no node's history has begun at ${position.oldest}`, served: position }
  }
  const isStale = position.version < (servedFloor.versions[era.index] ?? -1n)
  // Treats node info as of any era until the reset is noticed, because it has no position of its own.
  const judged = spec.kind === 'info'
    ? anyRight(eras, each => judgeResponse(given, world, each, position))
    : judgeResponse(given, world, era, position)
  const failure = judgePosition(given, world, position, isStale) ?? judged
  return { failure, served: position, isStale }
}

function anyRight (eras: readonly Era[], judged: (era: Era) => string | undefined): string | undefined {
  const verdicts = eras.map(judged)
  return verdicts.includes(undefined) ? undefined : verdicts.join('; or ')
}

/**
 * Checks laws 4 and 5: never before the served head, current if a live upstream knows, and never below the response's
 * content.
 */
function judgePosition (
  { spec, response, span, servedFloor }: JudgedRead,
  { pool }: Simulation,
  { era, version, oldest }: ServedPosition,
  isStale: boolean
): string | undefined {
  const asked = versionOf(spec)
  if (response.status === 200 && asked !== undefined && version < asked) {
    return `position ${version} is below the version asked for`
  }
  const before = servedFloor.versions[era.index] ?? -1n
  if (isStale && !isStampedByUpstream(spec, response)) return `position ${version} is before ${before}, which was shown`
  if (
    isStale &&
    pool.hadCapableUpstream(
      era,
      span,
      window => window.head >= before && (spec.kind !== 'events' || hasEvents(spec, era)(window))
    )
  ) return `a latest answer at ${version} is before ${before}, which was shown and which a live node had reached`
  // Checks presence only without stalls: a stalled process cannot know the present.
  return response.status === 200 && !isStale && !pool.wasStalled({ from: span.from - noticeResetMs, to: span.to })
    ? judgePresence(pool, era, span, version, oldest)
    : undefined
}

/**
 * Checks that the position is fresh: traffic or a poll each second renews it from upstreams that lived all the time.
 */
function judgePresence (
  fleet: SimulatedPool,
  era: Era,
  { from, to }: TimeSpan,
  version: bigint,
  oldest: bigint
): string | undefined {
  const lived = fleet.upstreams.map(({ history }) => history.between(from - 2 * noticeResetMs, to)).filter(each =>
    each.every(({ condition, era: at }) => condition === 'up' && at === era.index)
  )
  const lately = lived.map(each =>
    each.filter(({ at }, nth) => at > from - noticeResetMs || (each[nth + 1]?.at ?? to) > from - noticeResetMs)
  )
  const heads = lately.flat().map(({ head }) => head)
  const least = heads.reduce((lowest, head) => head < lowest ? head : lowest, heads[0] ?? 0n)
  if (version < least) {
    return `position ${version} is not the present: a live node had passed ${least} for ${noticeResetMs} ms`
  }
  // Skips upstreams that fell back, which prove nothing about the position.
  const isClear = lived.length === fleet.upstreams.length &&
    lived.every(each => each.every(({ head }, at) => head >= (each[at - 1]?.head ?? head)))
  if (isClear && !lately.flat().some(moment => moment.oldest === oldest)) {
    return `the oldest, ${oldest}, is not the present: no node has begun there for ${noticeResetMs} ms`
  }
  return undefined
}

// True for responses with their own stamp, if they come from an upstream directly.
function isStampedByUpstream (wish: ReadSpec, { headers }: TestResponse): boolean {
  if (String(headers['cache-status']).includes('hit')) return false
  return versionOf(wish) === undefined &&
    (wish.kind === 'table' || wish.kind === 'modules' || wish.kind === 'gas' || wish.kind === 'events')
}
