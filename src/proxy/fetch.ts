import { makeEntry } from '../cache/entry.js'
import { NodeFailure } from '../nodes/node-failure.js'
import { type Question } from '../nodes/node.js'
import { type Chain, type Learned } from '../ledger/tracker.js'
import { mediaTypes } from '../reads/accept.js'
import { type Answer, contentTypeOf, errorCodeOf } from '../reads/answer.js'
import { untruth, whyNotKept } from '../reads/lifetime.js'
import { atVersion, keysOf, type Read, type ReadKeys, targetOf } from '../reads/read.js'
import { type Refusal, unavailable } from '../reads/refusal.js'
import { ownLines } from './own-lines.js'
import { type Fetched } from './outcomes.js'
import { type Parts } from './parts.js'

/** Fetches the state at an explicit version, and keeps it when it is proven history. */
export async function fetchHistory (parts: Parts, read: Read, keys: ReadKeys, chain: Chain, timeoutMs?: number): Promise<Fetched & { text: string }> {
  let answer = await askAndLearn(parts, read, chain, timeoutMs)
  // A version that was already shown exists (law 11); behind one address another node may have it.
  if (deniesShown(parts, read, answer)) answer = await askAndLearn(parts, read, chain, timeoutMs)
  if (deniesShown(parts, read, answer)) throw unavailable('the node lags behind the version asked for')
  return { ...keep(parts, read, keys, chain, answer), text: keys.text }
}

/** Fetches a latest or moving read; what it read is kept under the version that it was read at. */
export async function fetchLatest (parts: Parts, read: Read, chain: Chain): Promise<Fetched> {
  const shown = parts.tracker.position?.head.version
  let answer = await askAndLearn(parts, read, chain)
  if (isBehind(answer, shown)) {
    answer = furthest(answer, await askAndLearn(parts, read, chain).catch(() => answer))
    if (isBehind(answer, shown)) parts.tally.staleLatest()
  }
  const version = answer.stamped?.position.head.version
  if (version === undefined || !parts.settings.promoteLatest || read.endpoint.keyedBy !== 'version') {
    return { answer, entry: undefined, notKept: undefined }
  }
  const pinned = atVersion(read, version)
  return keep(parts, pinned, keysOf(pinned, chain), chain, answer)
}

async function askAndLearn (parts: Parts, read: Read, chain: Chain, timeoutMs?: number): Promise<Answer> {
  const answer = await parts.nodes.ask(questionOf(read, timeoutMs)).catch((error: unknown) => { throw refusalFor(parts, read, error) })
  const learned = learn(parts, answer)
  const untrue = learned === 'other_chain' ? 'wrong_chain' : untruth(read, answer, chain.id)
  if (untrue === undefined) return answer
  // It cannot be the answer to this read, so it is not handed on either: 503 rather than the wrong one.
  parts.tally.notKept(read.endpoint.name, untrue)
  throw unavailable('the node gave an answer that cannot be true')
}

/** Built from the same parts as the key (law 1). */
function questionOf (read: Read, timeoutMs: number | undefined): Question {
  const { endpoint, accept, body } = read
  const { name, method } = endpoint
  return { endpoint: name, method, target: targetOf(read), accept: mediaTypes[accept], ...(body && { body: body.sent }), ...(timeoutMs && { timeoutMs }) }
}

function learn (parts: Parts, answer: Answer): Learned | undefined {
  if (answer.stamped === undefined) return undefined
  const learned = parts.tracker.learn(answer.stamped.position, answer.stamped.family)
  if (learned === 'reset') parts.tally.reset()
  return learned
}

function keep (parts: Parts, read: Read, keys: ReadKeys, chain: Chain, answer: Answer): Fetched {
  const { maxEntryBytes, ignoreCacheControl, emit } = parts.settings
  // A chain that was reset while this read was under way leaves nothing behind under the old generation's keys.
  const moved = parts.tracker.chain?.generation !== chain.generation
  const notKept = moved ? 'wrong_chain' : whyNotKept(read, answer, { chainId: chain.id, maxEntryBytes, ignoreCacheControl })
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

function deniesShown (parts: Parts, read: Read, answer: Answer): boolean {
  const shown = parts.tracker.position?.head.version
  return answer.status === 404 && shown !== undefined && read.version !== undefined && read.version <= shown &&
    errorCodeOf(answer) === 'version_not_found'
}

function isBehind (answer: Answer, shown: bigint | undefined): boolean {
  return answer.stamped !== undefined && shown !== undefined && answer.stamped.position.head.version < shown
}

function furthest (a: Answer, b: Answer): Answer {
  return a.stamped !== undefined && isBehind(b, a.stamped.position.head.version) ? a : b
}
