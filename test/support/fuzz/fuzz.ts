import fc from 'fast-check'
import { type FuzzCase, type FuzzSetting } from './fuzz-case.js'
import { type RedisProvider } from './case-redis.js'
import { CaseRunner } from './case-runner.js'
import { shrinkCase } from './shrink-case.js'
import { FuzzTally } from './tally.js'
import { type CaseHistory, resolveStep, fuzzSetting, stepTemplate, type StepTemplate } from './step-template.js'
import { abstractRead, type AbstractRead } from './abstract-read.js'

/** Result of a run of random cases. */
export interface FuzzResult {
  readonly tally: FuzzTally
  /** Shortest case found that fails. */
  readonly found: { readonly case: FuzzCase, readonly seed: number } | undefined
}

/** Limits of a run: a number of requests, or a time. */
export interface FuzzLimits {
  readonly requests: number
  readonly ms: number
}

const casesAtOnce = 4
const longest = 70
// Limits the time for shrinking a failure, first as drawn and then as exact requests.
const shrinkMs = 10_000

/** Runs random cases until a limit, or until a response is wrong. */
export async function fuzz (seed: number, bounds: FuzzLimits, redis: RedisProvider): Promise<FuzzResult> {
  const tally = new FuzzTally()
  const begunAt = performance.now()
  for (let round = seed; tally.total < bounds.requests && performance.now() - begunAt < bounds.ms; round++) {
    const found = await failing(round, tally, redis)
    if (found !== undefined) {
      return { tally, found: { case: await shrinkCase(found, 3 * shrinkMs, redis), seed: round } }
    }
  }
  return { tally, found: undefined }
}

async function failing (seed: number, tally: FuzzTally, redis: RedisProvider): Promise<FuzzCase | undefined> {
  let shortest: FuzzCase | undefined
  let until = Infinity
  let broken: unknown
  const property = fc.asyncProperty(
    fuzzSetting,
    fc.array(abstractRead, { minLength: 2, maxLength: 3, size: 'max' }),
    fc.array(stepTemplate, { minLength: 1, maxLength: longest, size: 'max' }),
    async (like, wishes, templates) => {
      if (performance.now() > until) return
      // Uses a separate tally for shrinking, which is no part of the run.
      const wrong = await runOnce(like, wishes, templates, shortest === undefined ? tally : new FuzzTally(), redis)
        .catch(
          (error: unknown) => {
            // Reports a case that fails to start or stop without shrinking it.
            broken = error
            until = 0
            throw error
          }
        )
      if (wrong === undefined) return
      if (shortest === undefined) until = performance.now() + shrinkMs
      shortest = wrong
      throw new Error(wrong.why)
    }
  )
  await fc.check(property, { seed, numRuns: casesAtOnce })
  if (broken !== undefined && shortest === undefined) throw new Error('a case cannot be played', { cause: broken })
  return shortest
}

async function runOnce (
  like: FuzzSetting,
  wishes: readonly AbstractRead[],
  templates: readonly StepTemplate[],
  tally: FuzzTally,
  redis: RedisProvider
): Promise<FuzzCase | undefined> {
  const play = await CaseRunner.start(like, tally, redis)
  const cursors: string[] = []
  const heads: bigint[] = []
  const past: CaseHistory = {
    ledger: play.sandbox.ledger,
    cursors,
    heads,
    resolvedReads: new Map(),
    tags: new Map(),
    previous: undefined,
    lastStep: undefined
  }
  try {
    for (const each of templates) {
      const { version } = play.sandbox.ledger.head
      if (heads.at(-1) !== version) heads.push(version)
      const step = resolveStep(each, wishes, past)
      const answers = await play.runStep(step)
      if (!('ask' in step)) continue
      for (const [at, { headers }] of answers.entries()) {
        const sent = step.ask[at]
        if (headers['x-node-cursor'] !== undefined) cursors.push(headers['x-node-cursor'])
        if (headers['etag'] !== undefined && sent !== undefined) past.tags.set(sent.target, headers['etag'])
      }
    }
    await play.finish()
    return undefined
  } catch (error) {
    return { why: (error as Error).message, ...play.playedCase }
  } finally {
    await play.stop()
  }
}
