import { type Got } from '../client.js'
import { type Chain, type Era } from './chain.js'
import { type Fleet, noticeMs, type Span } from './fleet.js'
import { hasEvents, judgeAnswer } from './judge-answer.js'
import { type Floor, type Memories, positionOn, type Shown } from './shown.js'
import { type Spelt } from './spell.js'
import { versionOf, type Wish } from './wish.js'

/** One read from its beginning to its end. */
export interface Case {
  readonly wish: Wish
  readonly spelt: Spelt
  readonly span: Span
  readonly floor: Floor
  /** Whether it was known to be kept, by era, when it was sent. */
  readonly wasKept: (era: Era) => boolean
  readonly got: Got
}

/** What the judge goes by. */
export interface World {
  readonly fleet: Fleet
  readonly chain: Chain
  readonly memories: Memories
}

/** What a judgement comes to: the reason why an answer is wrong, or undefined, and what was told by it. */
export interface Judgement {
  readonly wrong: string | undefined
  readonly shown?: Shown
  /** It was behind what had been shown, as law 5 lets a latest read be where it is counted. */
  readonly isStale?: boolean
}

/** Decides whether an answer is right, by the chain and by what each node could have said meanwhile. */
export function judge (given: Case, world: World): Judgement {
  const { got, wish, span, floor } = given
  if (wish.kind === 'nonsense') {
    return { wrong: got.status === 400 ? undefined : 'what cannot be valid was not refused with 400' }
  }
  const position = positionOn(got, world.chain)
  if (typeof position === 'string') return { wrong: position }
  const [from, to] = [Math.max(floor.era, world.fleet.eraDue(span.from)), world.chain.present.index]
  const eras = world.chain.eras.filter(({ index }) => index >= from && index <= to)
  if (position === undefined) {
    if (got.status === 200) return { wrong: 'a 200 without a position' }
    return { wrong: anyRight(eras, era => judgeAnswer(given, world, era, undefined)) }
  }
  const { era } = position
  if (!eras.includes(era)) return { wrong: `an answer of era ${era.index}, but era ${from} was noticed` }
  if (!world.fleet.hasStoodAt(era, position.oldest)) {
    return { wrong: `no node's history has begun at ${position.oldest}`, shown: position }
  }
  const isStale = position.version < (floor.versions[era.index] ?? -1n)
  // Node info bears no position of its own, so that nobody can say of which chain it is until the reset is noticed.
  const judged = wish.kind === 'info'
    ? anyRight(eras, each => judgeAnswer(given, world, each, position))
    : judgeAnswer(given, world, era, position)
  const wrong = judgePosition(given, world, position, isStale) ?? judged
  return { wrong, shown: position, isStale }
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
  { wish, got, span, floor }: Case,
  { fleet }: World,
  { era, version, oldest }: Shown,
  isStale: boolean
): string | undefined {
  const asked = versionOf(wish)
  if (got.status === 200 && asked !== undefined && version < asked) {
    return `position ${version} is below the version asked for`
  }
  const before = floor.versions[era.index] ?? -1n
  if (isStale && !bearsItsOwn(wish, got)) return `position ${version} is before ${before}, which was shown`
  if (
    isStale &&
    fleet.isAble(era, span, window => window.head >= before && (wish.kind !== 'events' || hasEvents(wish, era)(window)))
  ) return `a latest answer at ${version} is before ${before}, which was shown and which a live node had reached`
  // What no live node could have given from further on is the present of the node that gave it; who stood still has not
  // heard of the present.
  return got.status === 200 && !isStale && !fleet.stoodStill({ from: span.from - noticeMs, to: span.to })
    ? judgePresence(fleet, era, span, version, oldest)
    : undefined
}

/**
 * Traffic or a poll each second keeps the position fresh, once a mended node is used again: of nodes that lived all the
 * while.
 */
function judgePresence (
  fleet: Fleet,
  era: Era,
  { from, to }: Span,
  version: bigint,
  oldest: bigint
): string | undefined {
  const lived = fleet.nodes.map(({ moments }) => moments.between(from - 2 * noticeMs, to)).filter(each =>
    each.every(({ condition, era: at }) => condition === 'up' && at === era.index)
  )
  const lately = lived.map(each =>
    each.filter(({ at }, nth) => at > from - noticeMs || (each[nth + 1]?.at ?? to) > from - noticeMs)
  )
  const heads = lately.flat().map(({ head }) => head)
  const least = heads.reduce((lowest, head) => head < lowest ? head : lowest, heads[0] ?? 0n)
  if (version < least) {
    return `position ${version} is not the present: a live node had passed ${least} for ${noticeMs} ms`
  }
  // A node that fell behind tells nothing of the position.
  const isClear = lived.length === fleet.nodes.length &&
    lived.every(each => each.every(({ head }, at) => head >= (each[at - 1]?.head ?? head)))
  if (isClear && !lately.flat().some(moment => moment.oldest === oldest)) {
    return `the oldest, ${oldest}, is not the present: no node has begun there for ${noticeMs} ms`
  }
  return undefined
}

// These bear the stamp of the very answer, where it comes from a node at that moment.
function bearsItsOwn (wish: Wish, { headers }: Got): boolean {
  if (String(headers['cache-status']).includes('hit')) return false
  return versionOf(wish) === undefined &&
    (wish.kind === 'table' || wish.kind === 'modules' || wish.kind === 'gas' || wish.kind === 'events')
}
