import { type Got } from '../client.js'
import { type Case, judge, type World } from '../fleet/judge.js'
import { positionOn, type Shown } from '../fleet/shown.js'
import { isPinned, pinCursor, readPinned } from '../../../src/api/pinned-cursor.js'
import { stateMs } from './configuration.js'
import { type Floors } from './floors.js'

/** What the model is asked about, and what else was asked of varve with it. */
export interface Strained extends Case {
  /** The least version that the answer must have been read at. */
  readonly least: bigint | undefined
  /** Whether it was asked with a cursor that pins a version. */
  readonly isPinned: boolean
}

/**
 * What is no fault where nodes may be asked for less than clients want, or the machine had other things to do for a
 * while.
 */
export const grants = ['refused', 'behind', 'old rendering', 'standstill'] as const

/** One of them. */
export type Grant = typeof grants[number]

/** What a judgement comes to. */
export interface Verdict {
  readonly wrong?: string | undefined
  readonly granted?: Grant | undefined
  readonly shown?: Shown | undefined
}

// A moment is held from when it was asked, which is a little before its answer was seen here.
const slackMs = 100

/** Decides by the model of chain and nodes, which knows of neither budgets nor what is held nor pins. */
export function judgeStrained (given: Strained, world: World, floors: Floors): Verdict {
  const { got, wish, span, least } = given
  if (least !== undefined) {
    const early = judgeLeast(given, least, world)
    if (early !== undefined) return early
  }
  const told = positionOn(got, world.chain)
  const unpinned = unpin(given, typeof told === 'object' ? told : undefined)
  if (typeof unpinned === 'string') return { wrong: unpinned }
  const isHeld = (wish.kind === 'table' || wish.kind === 'modules') && wish.version === undefined &&
    String(got.headers['cache-status']).includes('hit')
  const floor = isHeld ? floors.at(span.from - stateMs - slackMs) : given.floor
  const { wrong, shown } = judge({ ...given, got: unpinned, floor }, world)
  const granted = wrong === undefined
    ? undefined
    : grantOf(wrong, got) ?? (isOfTime(wrong) && world.fleet.stoodStill(span) ? 'standstill' : undefined)
  return granted === undefined ? { wrong, shown } : { granted, shown }
}

/** A turn that did not come is a refusal in words; of a node that has no turn left nothing fresher can be had. */
export function grantOf (wrong: string, got: Got): Grant | undefined {
  if (isRefusal(got)) return 'refused'
  if (/^a latest answer at/.test(wrong)) return 'behind'
  return wrong.includes('rendered by a release that no live node runs') ? 'old rendering' : undefined
}

// Who stood still has not heard of what a node has, or has lost (of the present the judge knows that); what an answer
// says must be right at any pace.
function isOfTime (wrong: string): boolean {
  return /though a (?:live )?node/.test(wrong)
}

/** Whether it is the 503 that promises nothing but another try. */
export function isRefusal ({ status, headers, body }: Got): boolean {
  return status === 503 && /^\d+$/.test(String(headers['retry-after'])) &&
    body.includes('"error_code":"internal_error"')
}

/**
 * Who says the least version has an answer from there on, or hears that it is not there yet; undefined leaves the rest
 * to the model.
 */
function judgeLeast ({ got, floor, span }: Strained, least: bigint, { chain, fleet }: World): Verdict | undefined {
  const shown = positionOn(got, chain)
  if (typeof shown === 'object' && got.status === 200 && shown.version < least) {
    return { wrong: `position ${shown.version} is below the least version asked for, ${least}` }
  }
  if (got.status !== 404 || !got.body.includes('"error_code":"version_not_found"')) return undefined
  if (!got.body.includes(`(${least})`)) return { wrong: 'a not-found of another version' }
  if (least <= (floor.versions.at(-1) ?? -1n)) return { wrong: `not found is ${least}, which was shown before` }
  const isThere = fleet.isKnownAble(chain.present, span, ({ head }) => head >= least)
  return isThere && !fleet.stoodStill(span)
    ? { wrong: `not found is ${least}, which a live node had all the while` }
    : { shown: typeof shown === 'object' ? shown : undefined }
}

/** The answer with the node's own cursor, where the one it bears pins the version that its listing was read at. */
function unpin ({ wish, got, isPinned: wasPinned }: Strained, shown: Shown | undefined): Got | string {
  const cursor = got.headers['x-node-cursor']
  if (wish.kind !== 'modules' || cursor === undefined) return got
  if (wish.version !== undefined && !wasPinned) {
    return isPinned(String(cursor))
      ? 'a cursor that pins what is pinned already'
      : got
  }
  const pinned = readPinned(String(cursor))
  const version = wish.version ?? shown?.version
  if (pinned === undefined || version === undefined || cursor !== pinCursor(version, pinned.own)) {
    return `the cursor ${String(cursor)} does not pin ${String(version)}`
  }
  return { ...got, headers: { ...got.headers, 'x-node-cursor': pinned.own } }
}
