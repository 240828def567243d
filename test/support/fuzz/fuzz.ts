import fc from 'fast-check'
import { type Case, type Setting } from './case.js'
import { type RedisAtHand } from './meeting.js'
import { Play } from './play.js'
import { shortened } from './shorten.js'
import { Tally } from './tally.js'
import { type Past, resolve, setting, template, type Template } from './template.js'
import { wish, type Wish } from './wish.js'

/** What a run of random cases came to. */
export interface Fuzzed {
  readonly tally: Tally
  /** The shortest that was found of what went wrong. */
  readonly found: { readonly case: Case, readonly seed: number } | undefined
}

/** When to stop: at so many requests, or after so long. */
export interface Bounds {
  readonly requests: number
  readonly ms: number
}

const casesAtOnce = 4
const longest = 70
// What goes wrong is made shorter for so long, first as it was drawn and then to the letter.
const shrinkMs = 10_000

/** Plays random cases until the bounds are reached, or an answer is wrong. */
export async function fuzz (seed: number, bounds: Bounds, redis: RedisAtHand): Promise<Fuzzed> {
  const tally = new Tally()
  const begunAt = performance.now()
  for (let round = seed; tally.total < bounds.requests && performance.now() - begunAt < bounds.ms; round++) {
    const found = await failing(round, tally, redis)
    if (found !== undefined) return { tally, found: { case: await shortened(found, 3 * shrinkMs, redis), seed: round } }
  }
  return { tally, found: undefined }
}

async function failing (seed: number, tally: Tally, redis: RedisAtHand): Promise<Case | undefined> {
  let shortest: Case | undefined
  let until = Infinity
  let broken: unknown
  const property = fc.asyncProperty(
    setting,
    fc.array(wish, { minLength: 2, maxLength: 3, size: 'max' }),
    fc.array(template, { minLength: 1, maxLength: longest, size: 'max' }),
    async (like, wishes, templates) => {
      if (performance.now() > until) return
      // What fails while it is made shorter is no part of the run.
      const wrong = await playOnce(like, wishes, templates, shortest === undefined ? tally : new Tally(), redis).catch(
        (error: unknown) => {
          // What cannot even be started or ended is no case to make shorter.
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

async function playOnce (
  like: Setting,
  wishes: readonly Wish[],
  templates: readonly Template[],
  tally: Tally,
  redis: RedisAtHand
): Promise<Case | undefined> {
  const play = await Play.start(like, tally, redis)
  const cursors: string[] = []
  const heads: bigint[] = []
  const past: Past = {
    ledger: play.sandbox.ledger,
    cursors,
    heads,
    plains: new Map(),
    tags: new Map(),
    previous: undefined,
    asked: undefined
  }
  try {
    for (const each of templates) {
      const { version } = play.sandbox.ledger.head
      if (heads.at(-1) !== version) heads.push(version)
      const step = resolve(each, wishes, past)
      const answers = await play.take(step)
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
    return { why: (error as Error).message, ...play.case }
  } finally {
    await play.end()
  }
}
