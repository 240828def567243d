import { compare } from '../api/position.js'
import { type Answer } from '../api/answer.js'
import { type Member } from './member.js'
import { type Route } from './route.js'

/**
 * Why another node may do better than an answer: it cannot be true, and is never handed on; it is from behind what was
 * shown; it says that the node has forgotten what was asked for, or perhaps, by saying nothing of it, and that from
 * behind what was shown; the node is sick; or it has asked for rest.
 */
export type Flaw = 'untrue' | 'behind' | 'gone' | 'thin' | 'thin_behind' | 'sick' | 'resting'

/** An answer that was not final, and who gave it. */
export interface Given {
  readonly answer: Answer
  readonly flaw: Flaw
  readonly member: Member
}

/** Whether a node may have forgotten what was asked for. */
export function isForgetful ({ flaw }: Pick<Given, 'flaw'>): boolean {
  return flaw === 'gone' || flaw === 'thin' || flaw === 'thin_behind'
}

/** Whether it is a node's word on itself, and not on the question. */
export function isOfItself ({ flaw }: Pick<Given, 'flaw'>): boolean {
  return flaw === 'sick' || flaw === 'resting'
}

/**
 * Of the real answers, where no node gave a better one, the most telling: a node's own word on the question before one
 * on itself.
 */
export function bestOf (given: readonly Given[], { events }: Pick<Route, 'events'>): Given | undefined {
  // One that lags and still knows of something is better than one that has forgotten it.
  const behind = given.find(({ flaw }) => flaw === 'behind')
  // That events from a number on are gone is for the longest history to say; of pages the one that leaves out least is
  // the best word.
  const longest = longestIn(given)
  const forgetful = events !== 'last' && longest?.flaw === 'gone' ? longest : fullestIn(given) ?? longest
  if (
    forgetful !== undefined &&
    (behind === undefined || (forgetful.flaw === 'thin' && behind.answer.body.length <= forgetful.answer.body.length))
  ) return forgetful
  const others = given.filter(given => !isForgetful(given))
  return others.sort((a, b) => rankOf(a.answer) - rankOf(b.answer) || byHead(a.answer, b.answer))[0]
}

/** Of those that may have forgotten, the word of the one with the longest history. */
export function longestIn (given: readonly Given[]): Given | undefined {
  const oldestOf = ({ member: { window } }: Given): bigint => window?.oldest ?? 0n
  return given.filter(isForgetful).sort((a, b) => compare(oldestOf(a), oldestOf(b)) || byHead(a.answer, b.answer))[0]
}

/** The page that leaves out least, and of equal ones the newest. */
function fullestIn (given: readonly Given[]): Given | undefined {
  const pages = given.filter(({ flaw }) => flaw === 'thin' || flaw === 'thin_behind')
  return pages.sort((a, b) => b.answer.body.length - a.answer.body.length || byHead(a.answer, b.answer))[0]
}

function rankOf ({ status }: Answer): number {
  if (status < 400) return 0
  if (status !== 429 && status < 500) return 1
  return status === 429 ? 2 : 3
}

// Of what is all behind the furthest is the least so (law 5).
function byHead (a: Answer, b: Answer): number {
  const [headA = -1n, headB = -1n] = [a, b].map(({ stamped }) => stamped?.position.head.version)
  return compare(headB, headA)
}
