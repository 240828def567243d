import { type TestResponse } from '../client.js'
import { type Chain, type Era } from './chain.js'
import { type SimulatedPool, noticeResetMs, type TimeSpan } from './simulated-pool.js'
import { hasEvents, judgeResponse } from './judge-response.js'
import { type ServedFloor, type Observations, servedPositionOf, type ServedPosition } from './served-position.js'
import { type ModelRequest } from './render-request.js'
import { versionOf, type ReadSpec } from './read-spec.js'

/** One read from its beginning to its end. */
export interface JudgedRead {
  readonly spec: ReadSpec
  readonly request: ModelRequest
  readonly span: TimeSpan
  readonly servedFloor: ServedFloor
  /** Whether it was known to be kept, by era, when it was sent. */
  readonly wasCached: (era: Era) => boolean
  readonly response: TestResponse
}

/** What the judge goes by. */
export interface Simulation {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly observations: Observations
}

/** What a judgement comes to: the reason why an answer is wrong, or undefined, and what was told by it. */
export interface Judgement {
  readonly failure: string | undefined
  readonly served?: ServedPosition
  /** It was behind what had been shown, as law 5 lets a latest read be where it is counted. */
  readonly isStale?: boolean
}

/** Decides whether an answer is right, by the chain and by what each node could have said meanwhile. */
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
  // Node info bears no position of its own, so that nobody can say of which chain it is until the reset is noticed.
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
 * Law 4 and law 5: never before what was shown, the present where a node lived to tell it, and never below what the
 * answer speaks of.
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
  // What no live node could have given from further on is the present of the node that gave it; who stood still has not
  // heard of the present.
  return response.status === 200 && !isStale && !pool.wasStalled({ from: span.from - noticeResetMs, to: span.to })
    ? judgePresence(pool, era, span, version, oldest)
    : undefined
}

/**
 * Traffic or a poll each second keeps the position fresh, once a mended node is used again: of nodes that lived all the
 * while.
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
  // A node that fell behind tells nothing of the position.
  const isClear = lived.length === fleet.upstreams.length &&
    lived.every(each => each.every(({ head }, at) => head >= (each[at - 1]?.head ?? head)))
  if (isClear && !lately.flat().some(moment => moment.oldest === oldest)) {
    return `the oldest, ${oldest}, is not the present: no node has begun there for ${noticeResetMs} ms`
  }
  return undefined
}

// These bear the stamp of the very answer, where it comes from a node at that moment.
function isStampedByUpstream (wish: ReadSpec, { headers }: TestResponse): boolean {
  if (String(headers['cache-status']).includes('hit')) return false
  return versionOf(wish) === undefined &&
    (wish.kind === 'table' || wish.kind === 'modules' || wish.kind === 'gas' || wish.kind === 'events')
}
