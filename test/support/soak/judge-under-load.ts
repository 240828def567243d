import { type TestResponse } from '../client.js'
import { type JudgedRead, judge, type Simulation } from '../simulation/judge.js'
import { servedPositionOf, type ServedPosition } from '../simulation/served-position.js'
import { isPinnedCursor, pinCursor, readPinnedCursor } from '../../../src/api/pinned-cursor.js'
import { stateMs } from './configuration.js'
import { type ServedFloors } from './served-floors.js'

/** What the model is asked about, and what else was asked of varve with it. */
export interface ReadUnderLoad extends JudgedRead {
  /** The least version that the answer must have been read at. */
  readonly least: bigint | undefined
  /** Whether it was asked with a cursor that pins a version. */
  readonly isPinned: boolean
}

/**
 * What is no fault where nodes may be asked for less than clients want, or the machine had other things to do for a
 * while.
 */
export const tolerances = ['refused', 'behind', 'old rendering', 'standstill'] as const

/** One of them. */
export type Tolerance = typeof tolerances[number]

/** What a judgement comes to. */
export interface SoakVerdict {
  readonly failure?: string | undefined
  readonly tolerated?: Tolerance | undefined
  readonly served?: ServedPosition | undefined
}

// A moment is held from when it was asked, which is a little before its answer was seen here.
const slackMs = 100

/** Decides by the model of chain and nodes, which knows of neither budgets nor what is held nor pins. */
export function judgeUnderLoad (given: ReadUnderLoad, world: Simulation, floors: ServedFloors): SoakVerdict {
  const { response, spec, span, least } = given
  if (least !== undefined) {
    const early = judgeLeast(given, least, world)
    if (early !== undefined) return early
  }
  const told = servedPositionOf(response, world.chain)
  const unpinned = unpin(given, typeof told === 'object' ? told : undefined)
  if (typeof unpinned === 'string') return { failure: unpinned }
  const isHeld = (spec.kind === 'table' || spec.kind === 'modules') && spec.version === undefined &&
    String(response.headers['cache-status']).includes('hit')
  const servedFloor = isHeld ? floors.at(span.from - stateMs - slackMs) : given.servedFloor
  const { failure, served } = judge({ ...given, response: unpinned, servedFloor }, world)
  const tolerated = failure === undefined
    ? undefined
    : toleranceOf(failure, response) ??
      (isTimingFailure(failure) && world.pool.wasStalled(span) ? 'standstill' : undefined)
  return tolerated === undefined ? { failure, served } : { tolerated, served }
}

/** A turn that did not come is a refusal in words; of a node that has no turn left nothing fresher can be had. */
export function toleranceOf (wrong: string, got: TestResponse): Tolerance | undefined {
  if (isUnavailable(got)) return 'refused'
  if (/^a latest answer at/.test(wrong)) return 'behind'
  return wrong.includes('rendered by a release that no live node runs') ? 'old rendering' : undefined
}

// Who stood still has not heard of what a node has, or has lost (of the present the judge knows that); what an answer
// says must be right at any pace.
function isTimingFailure (wrong: string): boolean {
  return /though a (?:live )?node/.test(wrong)
}

/** Whether it is the 503 that promises nothing but another try. */
export function isUnavailable ({ status, headers, body }: TestResponse): boolean {
  return status === 503 && /^\d+$/.test(String(headers['retry-after'])) &&
    body.includes('"error_code":"internal_error"')
}

/**
 * Who says the least version has an answer from there on, or hears that it is not there yet; undefined leaves the rest
 * to the model.
 */
function judgeLeast (
  { response, servedFloor, span }: ReadUnderLoad,
  least: bigint,
  { chain, pool }: Simulation
): SoakVerdict | undefined {
  const shown = servedPositionOf(response, chain)
  if (typeof shown === 'object' && response.status === 200 && shown.version < least) {
    return { failure: `position ${shown.version} is below the least version asked for, ${least}` }
  }
  if (response.status !== 404 || !response.body.includes('"error_code":"version_not_found"')) return undefined
  if (!response.body.includes(`(${least})`)) return { failure: 'a not-found of another version' }
  if (least <= (servedFloor.versions.at(-1) ?? -1n)) return { failure: `not found is ${least}, which was shown before` }
  const isThere = pool.hadKnownCapableUpstream(chain.current, span, ({ head }) => head >= least)
  return isThere && !pool.wasStalled(span)
    ? { failure: `not found is ${least}, which a live node had all the while` }
    : { served: typeof shown === 'object' ? shown : undefined }
}

/** The answer with the node's own cursor, where the one it bears pins the version that its listing was read at. */
function unpin (
  { spec, response, isPinned: wasPinned }: ReadUnderLoad,
  shown: ServedPosition | undefined
): TestResponse | string {
  const cursor = response.headers['x-node-cursor']
  if (spec.kind !== 'modules' || cursor === undefined) return response
  if (spec.version !== undefined && !wasPinned) {
    return isPinnedCursor(String(cursor))
      ? 'a cursor that pins what is pinned already'
      : response
  }
  const pinned = readPinnedCursor(String(cursor))
  const version = spec.version ?? shown?.version
  if (pinned === undefined || version === undefined || cursor !== pinCursor(version, pinned.upstreamCursor)) {
    return `the cursor ${String(cursor)} does not pin ${String(version)}`
  }
  return { ...response, headers: { ...response.headers, 'x-node-cursor': pinned.upstreamCursor } }
}
