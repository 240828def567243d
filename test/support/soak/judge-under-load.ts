import { judge } from '../model/judge.js'
import { isLatestState } from '../model/read-spec.js'
import { type ModelResponse } from '../model/response-difference.js'
import { servedPositionOf } from '../model/served-position.js'
import { type PoolRead, type PoolWorld } from '../simulation/pool-world.js'
import { type ReadVerdict } from '../simulation/run-reads.js'
import { stateMs } from './configuration.js'

/** Deviations that are allowed if upstreams have less capacity than clients need, or the machine was busy. */
export type Tolerance = 'unavailable' | 'behind' | 'old rendering' | 'standstill'

// Margin of the micro-cache: it counts from the fetch, which is a little before its response was seen here.
const slackMs = 100

/** Judges by the model of chain and upstreams, which knows no budgets, micro-cache or least versions. */
export function judgeUnderLoad (given: PoolRead, world: PoolWorld, least: bigint | undefined): ReadVerdict {
  const { response, spec, span } = given
  const early = least === undefined ? undefined : judgeLeast(given, least, world)
  if (early !== undefined) return early
  const isMicroCached = isLatestState(spec) &&
    /hit; detail=(?!followed)/.test(String(response.headers['cache-status']))
  const floorAgeMs = Math.max(world.sharingMs, isMicroCached ? stateMs + slackMs : 0)
  const servedFloor = floorAgeMs > 0 ? world.observations.floorAt(span.from - floorAgeMs) : given.servedFloor
  const { failure, served } = judge({ ...given, servedFloor }, world)
  const tolerated = failure === undefined
    ? undefined
    : toleranceOf(failure, response) ??
      ((isTimingFailure(failure) || response.status === 408) && world.pool.wasStalled(span) ? 'standstill' : undefined)
  return tolerated === undefined ? { failure, served } : { failure: undefined, tolerated }
}

/** Returns the tolerance for a failure: a queue timeout is a 503, and without slots no fresher response exists. */
function toleranceOf (wrong: string, got: ModelResponse): Tolerance | undefined {
  if (isUnavailable(got)) return 'unavailable'
  if (/^a latest response at/.test(wrong)) return 'behind'
  return wrong.includes('rendered by a release that no live node runs') ? 'old rendering' : undefined
}

// True for failures that a stall explains, as it does for a 408; the content of a response must be right at any pace.
function isTimingFailure (wrong: string): boolean {
  return /though a (?:live )?node/.test(wrong)
}

/** True for the 503 that requests a retry only. */
function isUnavailable ({ status, headers, bytes }: ModelResponse): boolean {
  return status === 503 && /^\d+$/.test(String(headers['retry-after'])) &&
    bytes.includes('"error_code":"internal_error"')
}

/** Checks a least version: the response is from there on or not found yet; undefined leaves the rest to the model. */
function judgeLeast (
  { response, servedFloor, span }: PoolRead,
  least: bigint,
  { chain, pool }: PoolWorld
): ReadVerdict | undefined {
  const served = servedPositionOf(response, chain)
  if (typeof served === 'object' && response.status === 200 && served.version < least) {
    return { failure: `position ${served.version} is below the least version asked for, ${least}` }
  }
  if (response.status !== 404 || !response.bytes.includes('"error_code":"version_not_found"')) return undefined
  if (!response.bytes.includes(`(${least})`)) return { failure: 'a not-found of another version' }
  // A chain that began during the read has versions of its own.
  const shown = typeof served === 'object' ? servedFloor.versions[served.era.index] : servedFloor.versions.at(-1)
  if (least <= (shown ?? -1n)) return { failure: `not found is ${least}, which was shown before` }
  const isThere = pool.hadKnownCapableUpstream(chain.current, span, ({ head }) => head >= least)
  return isThere && !pool.wasStalled(span)
    ? { failure: `not found is ${least}, which a live node had all the while` }
    : { failure: undefined, served: typeof served === 'object' ? served : undefined }
}
