import { makeEntry } from '../cache/entry.js'
import { NodeFailure } from '../nodes/node-failure.js'
import { type Question } from '../nodes/node.js'
import { type Chain } from '../ledger/tracker.js'
import { mediaTypes } from '../reads/accept.js'
import { type Answer, contentTypeOf, errorCodeOf } from '../reads/answer.js'
import { untruth, whyNotKept } from '../reads/lifetime.js'
import { atVersion, keysOf, type Read, type ReadKeys, targetOf } from '../reads/read.js'
import { type Refusal, unavailable } from '../reads/refusal.js'
import { ownLines } from './own-lines.js'
import { type Fetched } from './outcomes.js'
import { type Parts } from './parts.js'

/** Fetches the state at an explicit version, and keeps it when it is proven history. */
export async function fetchHistory (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Fetched & { text: string }> {
  const answer = await askTruly(parts, read)
  return { ...keep(parts, read, keys, chain, answer), text: keys.text }
}

/** Fetches a latest or moving read; what it read is kept under the version that it was read at. */
export async function fetchLatest (parts: Parts, read: Read, chain: Chain): Promise<Fetched> {
  const shown = parts.tracker.position?.head.version
  // A block speaks of its own version, and so is never late; a reset makes what was shown before mean nothing.
  const isLate = (answer: Answer): boolean => read.speaksOf === undefined && !isReset(parts, chain) && isBehind(answer, shown)
  let answer = await askTruly(parts, read)
  if (isLate(answer)) {
    answer = furthest(answer, await askTruly(parts, read).catch(() => answer))
    if (isLate(answer)) parts.tally.staleLatest()
  }
  const version = answer.stamped?.position.head.version
  if (version === undefined || !parts.settings.promoteLatest || read.endpoint.keyedBy !== 'version') {
    return { answer, entry: undefined, notKept: undefined }
  }
  const pinned = atVersion(read, version)
  return keep(parts, pinned, keysOf(pinned, chain), chain, answer)
}

/** A version that was already shown exists (law 11): a node that denies it lags, and behind one address another may have it. */
async function askTruly (parts: Parts, read: Read): Promise<Answer> {
  const answer = await askAndLearn(parts, read)
  if (!deniesShown(parts, read, answer)) return answer
  const again = await askAndLearn(parts, read)
  if (deniesShown(parts, read, again)) throw unavailable('the node lags behind the version asked for')
  return again
}

async function askAndLearn (parts: Parts, read: Read): Promise<Answer> {
  const answer = await parts.nodes.ask(questionOf(read)).catch((error: unknown) => { throw refusalFor(parts, read, error) })
  const learned = answer.stamped && parts.tracker.learn(answer.stamped.position, answer.stamped.family)
  const untrue = learned === 'other_chain' ? 'wrong_chain' : untruth(read, answer)
  if (untrue === undefined) return answer
  // It cannot be the answer to this read, so it is not handed on either: 503 rather than the wrong one.
  parts.tally.notKept(read.endpoint.name, untrue)
  throw unavailable('the node gave an answer that cannot be true')
}

/** Built from the same parts as the key (law 1). */
function questionOf (read: Read): Question {
  const { endpoint: { name, method }, accept, body } = read
  return { endpoint: name, method, target: targetOf(read), accept: mediaTypes[accept], body: body?.sent }
}

function keep (parts: Parts, read: Read, keys: ReadKeys, chain: Chain, answer: Answer): Fetched {
  const { maxEntryBytes, ignoreCacheControl, emit } = parts.settings
  // A chain that was reset while this read was under way leaves nothing behind under the old generation's keys.
  const notKept = isReset(parts, chain) ? 'wrong_chain' : whyNotKept(read, answer, { maxEntryBytes, ignoreCacheControl })
  if (notKept !== undefined) {
    parts.tally.notKept(read.endpoint.name, notKept)
    return { answer, entry: undefined, notKept }
  }
  const entry = makeEntry({
    status: answer.status === 200 ? 200 : 404,
    contentType: contentTypeOf(answer),
    body: answer.body,
    ownLines: ownLines(answer, emit, parts.tracker.family),
    release: answer.release
  })
  parts.memory.set(entry.status === 200 ? keys.value : keys.text, entry)
  return { answer, entry, notKept: undefined }
}

function refusalFor (parts: Parts, read: Read, error: unknown): Refusal {
  if (error instanceof NodeFailure && error.reason === 'cut_short') parts.tally.notKept(read.endpoint.name, 'incomplete')
  return unavailable('no node could answer')
}

/** Whether the chain that a read was pinned to is gone. */
export function isReset (parts: Parts, chain: Chain): boolean {
  return parts.tracker.chain?.generation !== chain.generation
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
function furthest (a: Answer, b: Answer): Answer {
  return b.stamped === undefined || isBehind(b, a.stamped?.position.head.version) ? a : b
}
