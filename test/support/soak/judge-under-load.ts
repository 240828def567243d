import { type TestResponse } from '../client.js'
import { type JudgedRead, judge, type Simulation } from '../simulation/judge.js'
import { servedPositionOf, type ServedPosition } from '../simulation/served-position.js'
import { isPinnedCursor, pinCursor, readPinnedCursor } from '../../../src/api/pinned-cursor.js'
import { stateMs } from './configuration.js'
import { type ServedFloors } from './served-floors.js'

/** A read for the model, and other parts of its request. */
export interface ReadUnderLoad extends JudgedRead {
  /** Least version of the response. */
  readonly least: bigint | undefined
  /** True if its cursor pins a version. */
  readonly isPinned: boolean
}

/** Deviations that are allowed if upstreams have less capacity than clients need, or the machine was busy. */
export const tolerances = ['refused', 'behind', 'old rendering', 'standstill'] as const

/** A tolerance. */
export type Tolerance = typeof tolerances[number]

/** Result of a judgement. */
export interface SoakVerdict {
  readonly failure?: string | undefined
  readonly tolerated?: Tolerance | undefined
  readonly served?: ServedPosition | undefined
}

// Margin of the micro-cache: it counts from the fetch, which is a little before its response was seen here.
const slackMs = 100

/** Judges by the model of chain and upstreams, which knows no budgets, micro-cache or pinned cursors. */
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

/** Returns the tolerance for a failure: a queue timeout is a 503, and without slots no fresher response exists. */
export function toleranceOf (wrong: string, got: TestResponse): Tolerance | undefined {
  if (isUnavailable(got)) return 'refused'
  if (/^a latest answer at/.test(wrong)) return 'behind'
  return wrong.includes('rendered by a release that no live node runs') ? 'old rendering' : undefined
}

// True for failures that a stall explains; the content of a response must be right at any pace.
function isTimingFailure (wrong: string): boolean {
  return /though a (?:live )?node/.test(wrong)
}

/** True for the 503 that asks for a retry only. */
export function isUnavailable ({ status, headers, body }: TestResponse): boolean {
  return status === 503 && /^\d+$/.test(String(headers['retry-after'])) &&
    body.includes('"error_code":"internal_error"')
}

/** Checks a least version: the response is from there on or not found yet; undefined leaves the rest to the model. */
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

/** Returns the response with the node's own cursor in place of a pinned one. */
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
