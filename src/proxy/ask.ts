import { type Chain } from '../chain/tracker.js'
import { type Look } from '../upstreams/attempts.js'
import { chainMismatch } from '../chain/chain-mismatch.js'
import { Fenced } from '../upstreams/welcome.js'
import { NodeFailure } from '../upstreams/node-failure.js'
import { type Question } from '../upstreams/question.js'
import { mediaTypes } from '../api/accept.js'
import { type Answer, errorCodeOf } from '../api/answer.js'
import { judge, type Judged, type NotKeptReason, untruth } from '../api/lifetime.js'
import { type Read, targetOf } from '../api/read.js'
import { type Refusal, unavailable } from '../api/refusal.js'
import { type Parts } from './parts.js'
import { lackOf, saysPruned } from './events/streams.js'

/**
 * The same of a read of the moment, and whether its node lags: nothing to give again, since none can say how old it is.
 */
export interface JudgedNow extends Judged {
  readonly isLate: boolean
}

/**
 * A version that was already shown exists (law 11): nodes that deny it lag, and behind one address another may have it.
 */
export async function askTruly (parts: Parts, read: Read): Promise<Judged> {
  return await askUnlessDenied(parts, read, whenever)
}

/**
 * An answer of the moment that is behind the position already shown when it was asked for is asked of a node that is
 * further, and of the last again (law 5); what is behind the version that a client asks for expressly is never an
 * answer.
 */
export async function askCurrently (parts: Parts, read: Read, chain: Chain): Promise<JudgedNow> {
  const shown = furthest(parts.tracker.position?.head.version, read.atLeast)
  // A full page is history wherever the node stands; a reset makes what was shown before mean nothing.
  const isLate = ({ answer, verdict }: Judged): boolean =>
    (!read.isOpen || verdict.lifetime === undefined) &&
    (isTooOld(answer, read.atLeast) || (!isReset(parts, chain) && isBehind(answer, shown)))
  const wanted: Wanted = { atLeast: shown, isLate, lackOf: judged => lackOf(parts, read, chain, judged) }
  const judged = await askUnlessDenied(parts, read, wanted)
  if (!isLate(judged)) return { ...judged, isLate: false }
  // Another replica may have shown what no node of this one has reached yet.
  if (shown !== undefined && !parts.nodes.mayHaveReached(shown)) return counted(judged)
  const again = await askUnlessDenied(parts, read, wanted).catch(() => undefined)
  if (again === undefined) return counted(judged)
  const [further, other] = isFurther(again.answer, judged.answer) ? [again, judged] : [judged, again]
  letGo(other)
  return isLate(further) ? counted(further) : { ...further, isLate: false }

  function counted (late: Judged): JudgedNow {
    if (isTooOld(late.answer, read.atLeast)) {
      letGo(late)
      throw lagging()
    }
    parts.tally.staleLatest()
    return { ...late, isLate: true }
  }
}

/** Whether the chain that a read was pinned to is gone. */
export function isReset (parts: Parts, chain: Chain): boolean {
  return parts.tracker.chain?.generation !== chain.generation
}

// How far the node must be that answers, whether one was not, and what one may have forgotten.
interface Wanted {
  readonly atLeast: bigint | undefined
  readonly isLate: (judged: Judged) => boolean
  readonly lackOf: (judged: Judged) => 'gone' | 'thin' | undefined
}

// What nodes say of what they have not got to yet; a state that is not there is another matter.
const denials = new Set<unknown>(['version_not_found', 'block_not_found', 'transaction_not_found'])

const whenever: Wanted = { atLeast: undefined, isLate: () => false, lackOf: () => undefined }

async function askUnlessDenied (parts: Parts, read: Read, wanted: Wanted): Promise<Judged> {
  const judged = await askAndLearn(parts, read, wanted)
  if (judged !== undefined) return judged
  // Of a height that was shown no more is known than that the version shown with it is not below it.
  const version = read.speaksOf ?? parts.tracker.position?.head.version
  const again = version !== undefined && parts.nodes.mayHaveReached(version)
    ? await askAndLearn(parts, read, wanted)
    : undefined
  if (again === undefined) throw lagging()
  return again
}

/** No node has got as far as was asked for, though one had. */
export function lagging (): Refusal {
  return unavailable('the nodes lag behind the version asked for')
}

/**
 * Asks and learns from each answer that comes; undefined where those who answered deny a version that was already
 * shown.
 */
async function askAndLearn (parts: Parts, read: Read, wanted: Wanted): Promise<Judged | undefined> {
  parts.requireLeisure?.()
  const before = parts.tracker.chain?.generation
  let seen: Judged | undefined
  let untrue: NotKeptReason | undefined
  let isDenied = false
  const look: Look = answer => {
    const learned = answer.stamped && parts.tracker.learn(answer.stamped.position, answer.stamped.family)
    seen = { answer, verdict: judge(read, answer, parts.settings) }
    isDenied = deniesShown(parts, read, answer)
    untrue = learned === 'other_chain' ? 'wrong_chain' : untruth(read, answer) ?? wrongOf(seen.verdict)
    if (untrue !== undefined || isDenied) return 'untrue'
    const lack = saysPruned(answer) ? 'gone' : wanted.lackOf(seen)
    if (lack === 'gone' || !wanted.isLate(seen)) return lack
    return lack === 'thin' ? 'thin_behind' : 'behind'
  }
  let answer: Answer
  try {
    answer = await parts.nodes.ask(questionOf(parts, read), {
      version: read.speaksOf,
      atLeast: wanted.atLeast,
      events: eventsIn(read)
    }, look)
  } catch (error) {
    if (isDenied) return undefined
    throw untrue === undefined ? refusalFor(parts, read, error) : untrueRefusal(parts, read, untrue)
  }
  // Another chain has been found out while it was under way, and nobody can say of which of them it is (law 7).
  if (parts.tracker.chain?.generation !== before) {
    letGo({ answer })
    return await askAndLearn(parts, read, wanted)
  }
  if (answer.status === 410) parts.pruning.learn(answer)
  return seen?.answer === answer ? seen : { answer, verdict: judge(read, answer, parts.settings) }
}

// It cannot be the answer to this read, so it is not handed on either: 503 rather than the wrong one.
function untrueRefusal (parts: Parts, read: Read, reason: NotKeptReason): Refusal {
  parts.tally.notKept(read.endpoint.name, reason)
  return unavailable('the node gave an answer that cannot be true')
}

/** Built from the same parts as the key (law 1). */
export function questionOf ({ client }: Pick<Parts, 'client'>, read: Read): Question {
  const { endpoint: { name, method }, accept, body } = read
  const headers = { accept: mediaTypes[accept], ...(body !== undefined && { 'content-type': body.type }) }
  return { endpoint: name, method, target: targetOf(read), headers, body: body?.sent, client, isIdempotent: true }
}

function eventsIn ({ endpoint, query }: Read): 'from' | 'last' | undefined {
  return endpoint.keyedBy !== 'page' ? undefined : query.some(([name]) => name === 'start') ? 'from' : 'last'
}

function refusalFor (parts: Parts, read: Read, error: unknown): Refusal {
  if (error instanceof Fenced) parts.tally.notKept(read.endpoint.name, 'wrong_chain')
  if (error instanceof NodeFailure && error.reason === 'cut_short') {
    parts.tally.notKept(read.endpoint.name, 'incomplete')
  }
  return unavailable(chainMismatch(parts.nodes.members, parts.tracker) ?? 'no node could answer')
}

// It tells of something else than was asked for.
function wrongOf ({ notKept }: Judged['verdict']): NotKeptReason | undefined {
  return notKept === 'wrong_block' || notKept === 'wrong_transaction' ? notKept : undefined
}

/** Whether a node denies a version or a height that was already shown, as one that lags does (law 11). */
export function deniesShown (
  parts: Parts,
  { speaksOf, height }: Pick<Read, 'speaksOf' | 'height'>,
  answer: Answer
): boolean {
  const head = parts.tracker.position?.head
  if ((answer.status !== 404 && answer.status !== 400) || head === undefined) return false
  const wasShown = speaksOf === undefined
    ? height !== undefined && height <= head.blockHeight
    : speaksOf <= head.version
  // Of a list that starts above their head nodes say that its start is no valid one.
  return wasShown &&
    (answer.status === 404
      ? denials.has(errorCodeOf(answer))
      : isBehind(answer, speaksOf) && errorCodeOf(answer) === 'invalid_input')
}

export function isBehind (answer: Answer, shown: bigint | undefined): boolean {
  return answer.stamped !== undefined && shown !== undefined && answer.stamped.position.head.version < shown
}

/**
 * Whether an answer was not read at the least version that a client asks for, or cannot be shown to have been: that
 * something is not there is of some version.
 */
export function isTooOld (answer: Answer, atLeast: bigint | undefined): boolean {
  if (atLeast === undefined) return false
  return isBehind(answer, atLeast) ||
    (answer.stamped === undefined && answer.status === 404 && String(errorCodeOf(answer)).endsWith('_not_found'))
}

function furthest (a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a
}

// An answer without a position, such as a gateway's 429, is no word on where the chain stands.
function isFurther (a: Answer, b: Answer): boolean {
  return a.stamped !== undefined && isBehind(b, a.stamped.position.head.version)
}

/** Nobody will read the rest of an answer that is not handed on. */
function letGo ({ answer }: Pick<Judged, 'answer'>): void {
  answer.rest?.destroy()
}
