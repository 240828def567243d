import { type Question } from '../nodes/question.js'
import { type Answer } from '../reads/answer.js'
import { unavailable } from '../reads/refusal.js'
import { type Parts } from './parts.js'

/** What a client asks on a route that varve does not know. */
export type PassedQuestion = Omit<Question, 'endpoint' | 'isIdempotent'>

/** Asks once for a client what varve does not know, and learns the position; the signal takes the question back. */
export async function passOn (parts: Parts, question: PassedQuestion, signal: AbortSignal): Promise<Answer> {
  const isIdempotent = question.method === 'GET' || question.method === 'HEAD'
  const answer = await parts.nodes.pass({ ...question, endpoint: 'other', isIdempotent }, signal).catch(() => { throw unavailable('no node could answer') })
  const learned = answer.stamped && parts.tracker.learn(answer.stamped.position, answer.stamped.family)
  if (answer.status === 410) parts.tally.pruned('other', 'upstream', undefined)
  if (learned !== 'other_chain') return answer
  answer.rest?.destroy()
  throw unavailable('the node serves another chain')
}
