import { SeededRandom } from '../model/seeded-random.js'
import { Tally } from '../model/tally.js'
import { type RedisProvider } from './case-redis.js'
import { CaseRunner } from './case-runner.js'
import { drawSetting, StepDraw } from './draw-step.js'
import { type FuzzCase } from './fuzz-case.js'
import { shrinkCase } from './shrink-case.js'

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
    const draw = new StepDraw(chance, play.sandbox.ledger, play.chain.current, setting)
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
