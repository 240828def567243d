import { type RedisProvider } from './case-redis.js'
import { CaseRunner } from './case-runner.js'
import { drawSetting, StepDraw } from './draw-step.js'
import { defaultSetting, type FuzzCase, type FuzzSetting, type FuzzStep } from './fuzz-case.js'
import { SeededRandom } from './seeded-random.js'
import { Tally } from './tally.js'

/** Result of a run of random cases. */
export interface FuzzResult {
  readonly tally: Tally
  /** Shortest case found that fails, and the seed of its run. */
  readonly found: { readonly case: FuzzCase, readonly seed: number } | undefined
}

/** Limits of a run: a number of requests, or a time. */
export interface FuzzLimits {
  readonly requests: number
  readonly ms: number
}

const [fewestSteps, mostSteps] = [10, 50]
const shrinkMs = 40_000

/** Runs random cases until a limit, or until a response is wrong. */
export async function fuzz (seed: number, bounds: FuzzLimits, redis: RedisProvider): Promise<FuzzResult> {
  const tally = new Tally()
  const begunAt = performance.now()
  for (let round = seed; tally.total < bounds.requests && performance.now() - begunAt < bounds.ms; round++) {
    const found = await runCase(round, tally, redis)
    if (found !== undefined) {
      return { tally, found: { case: await shrinkCase(found, shrinkMs, redis), seed: round } }
    }
  }
  return { tally, found: undefined }
}

/** Runs a random case; resolves with its steps if a response is wrong. */
async function runCase (seed: number, tally: Tally, redis: RedisProvider): Promise<FuzzCase | undefined> {
  const chance = new SeededRandom(seed)
  const setting = drawSetting(chance, seed)
  const play = await CaseRunner.start(setting, tally, redis)
  try {
    const draw = new StepDraw(chance, play.chain, play.upstreams, setting)
    for (let left = chance.integerBetween(fewestSteps, mostSteps); left > 0; left--) {
      const step = draw.next()
      draw.observe(step, await play.runStep(step))
    }
    await play.finish()
    return undefined
  } catch (error) {
    return { why: (error as Error).message, ...play.playedCase }
  } finally {
    await play.stop()
  }
}

/** Runs an exact case; returns the reason of its failure, or undefined. */
export async function failureOf ({ setting, steps }: FuzzCase, redis: RedisProvider): Promise<string | undefined> {
  const play = await CaseRunner.start({ ...defaultSetting, ...setting }, new Tally(), redis)
  try {
    for (const step of steps) await play.runStep(step)
    await play.finish()
    return undefined
  } catch (error) {
    return (error as Error).message
  } finally {
    await play.stop()
  }
}

/** Removes all parts without which a case still fails, within a time limit. */
export async function shrinkCase (found: FuzzCase, ms: number, redis: RedisProvider): Promise<FuzzCase> {
  const until = performance.now() + ms
  let shortest = found
  const isLeft = async (steps: readonly FuzzStep[], setting = shortest.setting): Promise<boolean> => {
    if (performance.now() > until) return false
    const why = await failureOf({ setting, steps }, redis)
    if (why !== undefined) shortest = { why, setting, steps }
    return why !== undefined
  }
  // Returns each option to its default in turn, after all at once.
  if (!await isLeft(shortest.steps, {})) {
    for (const name of Object.keys(defaultSetting) as Array<keyof FuzzSetting | 'memoryKb'>) {
      const { [name]: _, ...plainer } = shortest.setting
      if (shortest.setting[name] !== defaultSetting[name]) await isLeft(shortest.steps, plainer)
    }
  }
  for (let size = Math.ceil(shortest.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    // Goes backwards, so that earlier indexes stay valid.
    for (let at = shortest.steps.length - size; at >= 0; at -= size) await isLeft(shortest.steps.toSpliced(at, size))
  }
  for (let at = shortest.steps.length - 1; at >= 0; at--) {
    for (const shorter of partsOf(shortest.steps[at])) if (await isLeft(shortest.steps.with(at, shorter))) break
    for (let request = 0; request < requestsOf(shortest.steps[at]); request++) {
      for (const plainer of simplerAt(shortest.steps[at], request)) await isLeft(shortest.steps.with(at, plainer))
    }
  }
  return shortest
}

const requestsOf = (step: FuzzStep | undefined): number =>
  step !== undefined && 'requests' in step ? step.requests.length : 0

/** Returns each request alone, all but one, and the step without the ledger's change. */
function partsOf (step: FuzzStep | undefined): FuzzStep[] {
  if (step === undefined || !('requests' in step)) return []
  const { requests, meanwhile, ...to } = step
  const alone = requests.length > 1 ? requests.map(each => ({ ...to, requests: [each] })) : []
  const without = requests.length > 2 ? requests.map((_, at) => ({ ...step, requests: requests.toSpliced(at, 1) })) : []
  return [...alone, ...(meanwhile === undefined ? [] : [{ ...to, requests }]), ...without]
}

/** Returns a request without one of its header fields. */
function simplerAt (step: FuzzStep | undefined, at: number): FuzzStep[] {
  if (step === undefined || !('requests' in step)) return []
  const sent = step.requests[at]
  return sent === undefined
    ? []
    : sent.headers.map((_, nth) => ({
      ...step,
      requests: step.requests.with(at, { ...sent, headers: sent.headers.toSpliced(nth, 1) })
    }))
}
