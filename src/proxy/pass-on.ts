import { type Look } from '../upstreams/attempts.js'
import { chainMismatch } from '../chain/chain-mismatch.js'
import { type Question } from '../upstreams/question.js'
import { type Answer } from '../api/answer.js'
import { readMinVersion } from '../api/min-version.js'
import { isRead, versionIn } from '../api/unknown-route.js'
import { unavailable } from '../api/refusal.js'
import { arrive, isAhead } from './arrival.js'
import { deniesShown, isBehind, isTooOld, lagging } from './ask.js'
import { type Parts } from './parts.js'
import { saysPruned } from './events/streams.js'

/** What a client asks on a route that varve does not know, with the least version that it asks for. */
export type PassedQuestion = Omit<Question, 'endpoint' | 'isIdempotent' | 'client'> & {
  readonly minVersion?: string | readonly string[] | undefined
}

/**
 * Asks for a client what varve does not know, what may write of one node alone, and learns the position; the signal
 * takes the question back.
 */
export async function passOn (
  parts: Parts,
  { minVersion, ...question }: PassedQuestion,
  signal: AbortSignal
): Promise<Answer> {
  const isIdempotent = isRead(question.method)
  const version = versionIn(question.target)
  if (version !== undefined && isIdempotent) parts.asked.note(version, parts.tracker.position)
  // What may write is nothing to wait for.
  const needs = isIdempotent
    ? { speaksOf: version, atLeast: readMinVersion(minVersion) }
    : { speaksOf: undefined, atLeast: undefined }
  parts.requireLeisure?.()
  await parts.admit?.()
  if (isAhead(parts, needs)) await arrive(parts, needs)
  const atLeast = parts.tracker.position?.head.version
  let isOther = false
  const look: Look = answer => {
    isOther = answer.stamped !== undefined &&
      parts.tracker.learn(answer.stamped.position, answer.stamped.family) === 'other_chain'
    if (isOther || deniesShown(parts, { speaksOf: version, height: undefined }, answer)) return 'untrue'
    if (saysPruned(answer)) return 'gone'
    // Whatever it is that is asked for, clients are not led back in time where another node has got there.
    return isBehind(answer, atLeast) || (version === undefined && isTooOld(answer, needs.atLeast))
      ? 'behind'
      : undefined
  }
  const answer = await parts.nodes.pass(
    { ...question, endpoint: 'other', client: parts.client, isIdempotent },
    { version, atLeast, events: undefined },
    look,
    signal
  )
    .catch(() => {
      throw unavailable(
        chainMismatch(parts.nodes.members, parts.tracker) ??
          (isOther ? 'the node serves another chain' : 'no node could answer')
      )
    })
  // The state at a version is the same wherever its node stands.
  if (version === undefined && isTooOld(answer, needs.atLeast)) {
    answer.rest?.destroy()
    throw lagging()
  }
  if (answer.status === 410) parts.tally.pruned('other', 'upstream', undefined)
  return answer
}
