import { type Chain } from '../ledger/tracker.js'
import { NodeFailure } from '../nodes/node-failure.js'
import { type Question } from '../nodes/question.js'
import { mediaTypes } from '../reads/accept.js'
import { type Answer, errorCodeOf } from '../reads/answer.js'
import { judge, type NotKeptReason, untruth, type Verdict } from '../reads/lifetime.js'
import { type Read, targetOf } from '../reads/read.js'
import { type Refusal, unavailable } from '../reads/refusal.js'
import { type Parts } from './parts.js'

/** A node's answer and what is to be thought of it. */
export interface Judged {
  readonly answer: Answer
  readonly verdict: Verdict
}

/** The same of a read of the moment, and whether its node lags: nothing to give again, since none can say how old it is. */
export interface JudgedNow extends Judged {
  readonly isLate: boolean
}

/** A version that was already shown exists (law 11): a node that denies it lags, and behind one address another may have it. */
export async function askTruly (parts: Parts, read: Read): Promise<Judged> {
  const judged = await askAndLearn(parts, read)
  if (!deniesShown(parts, read, judged.answer)) return judged
  letGo(judged)
  const again = await askAndLearn(parts, read)
  if (!deniesShown(parts, read, again.answer)) return again
  letGo(again)
  throw unavailable('the node lags behind the version asked for')
}

/** An answer of the moment that is behind the position already shown when it was asked for is asked for again (law 5). */
export async function askCurrently (parts: Parts, read: Read, chain: Chain): Promise<JudgedNow> {
  const shown = parts.tracker.position?.head.version
  // A full page is history wherever the node stands; a reset makes what was shown before mean nothing.
  const isLate = ({ answer, verdict }: Judged): boolean =>
    (read.page === undefined || verdict.lifetime === undefined) && !isReset(parts, chain) && isBehind(answer, shown)
  const judged = await askTruly(parts, read)
  if (!isLate(judged)) return { ...judged, isLate: false }
  // Another replica may have shown what no node of this one has reached yet.
  if (shown !== undefined && !parts.nodes.hasReached(shown)) return counted(judged)
  const again = await askTruly(parts, read).catch(() => undefined)
  if (again === undefined) return counted(judged)
  const [further, other] = isFurther(again.answer, judged.answer) ? [again, judged] : [judged, again]
  letGo(other)
  return isLate(further) ? counted(further) : { ...further, isLate: false }

  function counted (late: Judged): JudgedNow {
    parts.tally.staleLatest()
    return { ...late, isLate: true }
  }
}

/** Whether the chain that a read was pinned to is gone. */
export function isReset (parts: Parts, chain: Chain): boolean {
  return parts.tracker.chain?.generation !== chain.generation
}

async function askAndLearn (parts: Parts, read: Read): Promise<Judged> {
  const before = parts.tracker.chain?.generation
  const answer = await parts.nodes.ask(questionOf(read)).catch((error: unknown) => { throw refusalFor(parts, read, error) })
  // Another chain has been found out while it was under way, and nobody can say of which of them it is (law 7).
  if (parts.tracker.chain?.generation !== before) {
    letGo({ answer })
    return await askAndLearn(parts, read)
  }
  const learned = answer.stamped && parts.tracker.learn(answer.stamped.position, answer.stamped.family)
  if (answer.status === 410) parts.pruning.learn(answer)
  const untrue = learned === 'other_chain' ? 'wrong_chain' : untruth(read, answer)
  const verdict = judge(read, answer, parts.settings)
  if (untrue === undefined && verdict.notKept !== 'wrong_block') return { answer, verdict }
  letGo({ answer })
  throw untrueRefusal(parts, read, untrue ?? 'wrong_block')
}

// It cannot be the answer to this read, so it is not handed on either: 503 rather than the wrong one.
function untrueRefusal (parts: Parts, read: Read, reason: NotKeptReason): Refusal {
  parts.tally.notKept(read.endpoint.name, reason)
  return unavailable('the node gave an answer that cannot be true')
}

/** Built from the same parts as the key (law 1). */
function questionOf (read: Read): Question {
  const { endpoint: { name, method }, accept, body } = read
  const headers = { accept: mediaTypes[accept], ...(body !== undefined && { 'content-type': mediaTypes.json }) }
  return { endpoint: name, method, target: targetOf(read), headers, body: body?.sent, isIdempotent: true }
}

function refusalFor (parts: Parts, read: Read, error: unknown): Refusal {
  if (error instanceof NodeFailure && error.reason === 'cut_short') parts.tally.notKept(read.endpoint.name, 'incomplete')
  return unavailable('no node could answer')
}

function deniesShown (parts: Parts, read: Read, answer: Answer): boolean {
  const shown = parts.tracker.position?.head.version
  if (answer.status !== 404 || shown === undefined || read.speaksOf === undefined || read.speaksOf > shown) return false
  const code = errorCodeOf(answer)
  return code === 'version_not_found' || code === 'block_not_found'
}

function isBehind (answer: Answer, shown: bigint | undefined): boolean {
  return answer.stamped !== undefined && shown !== undefined && answer.stamped.position.head.version < shown
}

// An answer without a position, such as a gateway's 429, is no word on where the chain stands.
function isFurther (a: Answer, b: Answer): boolean {
  return a.stamped !== undefined && isBehind(b, a.stamped.position.head.version)
}

/** Nobody will read the rest of an answer that is not handed on. */
function letGo ({ answer }: Pick<Judged, 'answer'>): void {
  answer.rest?.destroy()
}
