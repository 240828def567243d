import { type Entry } from '../cache/entry.js'
import { type Chain } from '../chain/tracker.js'
import { chainMismatch } from '../chain/chain-mismatch.js'
import { speaksOfNode } from '../api/answer.js'
import { classOf, flightKeyOf, keysOf, type Read, type ReadKeys } from '../api/read.js'
import { unavailable } from '../api/refusal.js'
import { within } from '../within.js'
import { answerHeld, answerMoving } from './answer-moving.js'
import { arrive, isAhead } from './arrival.js'
import { isReset } from './ask.js'
import { auditHit } from './audit.js'
import { fetchHistory } from './fetch.js'
import { type KnownRead } from './known-read.js'
import { observe } from './observe.js'
import { type Hit, type Landing, type Outcome } from './outcomes.js'
import { type Parts } from './parts.js'
import { recall } from './recall.js'
import { distanceBelow, distanceGone, goneRefusal, isOldRendering, lookUp, tellPruned } from './window.js'

// How long a client waits for a fresh rendering before it gets the kept one (law 8).
const freshRenderingMs = 500

/**
 * What is at hand for a read in a spelling that is known, in this very turn; undefined for what has to go the whole
 * way.
 */
export function answerAtHand (parts: Parts, known: KnownRead): Hit | undefined {
  const { chain } = parts.tracker
  if (chain === undefined || parts.settings.isObserving) return undefined
  const { read } = known
  const keys = known.keysIn(chain)
  if (classOf(read) === 'moving') return answerHeld(parts, read, keys)
  const kept = lookUp(parts, read, keys)
  if (kept === undefined || isOldRendering(parts, read, kept)) return undefined
  const outcome = hit(parts, read, kept, 'hit_memory')
  tellPruned(parts, read, outcome)
  return outcome
}

/**
 * The life of a read: pin the chain, wait for it where that is asked for, key, look up, fetch once, and say where the
 * chain stands now.
 */
export async function answerRead (parts: Parts, read: Read): Promise<Outcome> {
  if (read.speaksOf !== undefined) parts.asked.note(read.speaksOf, parts.tracker.position)
  let chain = await pin(parts)
  if (isAhead(parts, read)) {
    await parts.admit?.()
    await arrive(parts, read)
    // It may be another one by now.
    chain = await pin(parts)
  }
  const outcome = await answer(parts, read, chain)
  tellPruned(parts, read, outcome)
  return outcome
}

/** The chain and generation that this read is about; a process that has not seen its node yet asks for them first. */
async function pin (parts: Parts): Promise<Chain> {
  if (parts.tracker.chain === undefined) await parts.settle()
  const { chain } = parts.tracker
  if (chain === undefined) {
    throw unavailable(
      chainMismatch(parts.nodes.members, parts.tracker) ?? 'no node has been reached yet, so the chain is not known'
    )
  }
  return chain
}

async function answer (parts: Parts, read: Read, chain: Chain): Promise<Outcome> {
  const keys = keysOf(read, chain)
  if (parts.settings.isObserving) {
    await parts.admit?.()
    return await observe(parts, read, keys, chain)
  }
  if (classOf(read) === 'moving') return await answerMoving(parts, read, keys, chain)
  const kept = lookUp(parts, read, keys)
  if (kept !== undefined) return await answerKept(parts, read, keys, chain, kept, 'hit_memory')
  return parts.admit === undefined
    ? await fetchOnce(parts, read, keys, chain)
    : await fetchIfAdmitted(parts, read, keys, chain)
}

/** Answers with what is kept, unless it can be had in the rendering of today. */
async function answerKept (
  parts: Parts,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  kept: Entry,
  name: Hit['name']
): Promise<Outcome> {
  if (!isOldRendering(parts, read, kept)) return hit(parts, read, kept, name)
  const fresh = await renderAfresh(parts, read, keys, chain, kept, name)
  // While that was tried the chain may have been reset, and what was kept of the old one is no answer any more.
  if (isReset(parts, chain)) return await answer(parts, read, await pin(parts))
  return fresh ?? hit(parts, read, kept, name)
}

function hit (parts: Parts, read: Read, entry: Entry, name: Hit['name']): Hit {
  const { position } = parts.tracker
  auditHit(parts, read, entry)
  return { name, entry, kind: distanceBelow(position, read, entry) === undefined ? 'history' : 'pruned', position }
}

/**
 * As `fetchOnce` does, for a client that may not ask for all that it likes: what costs a node nothing is not taken from
 * that, and others' flights are not its to refuse.
 */
async function fetchIfAdmitted (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const { result: shared } = await parts.looks.do(keys.text, async () => await recall(parts, read, keys, chain))
  if (shared !== undefined) return await answerKept(parts, read, keys, chain, shared, 'hit_redis')
  if (distanceGone(parts, read) === undefined) await parts.admit?.()
  // While that was found out the chain may have been reset, or somebody else have read it.
  if (isReset(parts, chain)) return await answer(parts, read, await pin(parts))
  const kept = lookUp(parts, read, keys)
  return kept === undefined
    ? await fetchOnce(parts, read, keys, chain)
    : await answerKept(parts, read, keys, chain, kept, 'hit_memory')
}

/** One look into what replicas share and one fetch for a burst of equal reads. */
async function fetchOnce (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const fly = (): Promise<Landing> => land(parts, read, keys, chain)
  let flown = await parts.flights.do(flightKeyOf(read, keys.value), fly)
  if (flown.joined && !isForAll(read, flown.result, keys)) {
    // A page that is not full, like a transaction that is not committed, is of the moment, and whoever joined may have
    // asked after its node was asked (law 5).
    if (read.isOpen) return await answerMoving(parts, read, keys, chain)
    flown = await parts.flights.do(keys.text, fly)
  }
  const { result, joined } = flown
  switch (result.from) {
    case 'redis':
      return await answerKept(parts, read, keys, chain, result.entry, 'hit_redis')
    case 'nowhere':
      throw goneRefusal(parts, read, result.version, result.distance)
    case 'node': {
      const { fetched } = result
      const stamped = read.isOpen && fetched.entry === undefined ? fetched.answer.stamped?.position : undefined
      return { name: joined ? 'collapsed' : 'miss', fetched, position: stamped ?? parts.tracker.position }
    }
  }
}

async function land (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Landing> {
  // Who had to be admitted has looked there before that.
  const entry = parts.admit === undefined ? await recall(parts, read, keys, chain) : undefined
  if (entry !== undefined) return { from: 'redis', entry }
  const distance = distanceGone(parts, read)
  if (distance === undefined || read.speaksOf === undefined) return await ask(parts, read, keys, chain)
  return { from: 'nowhere', version: read.speaksOf, distance }
}

async function ask (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Landing> {
  return { from: 'node', fetched: await fetchHistory(parts, read, keys, chain) }
}

/**
 * Whether those who joined may have it too: not a node's failure, nor what quotes a text that others did not send, nor
 * what moves.
 */
function isForAll (read: Read, landing: Landing, keys: ReadKeys): boolean {
  if (landing.from !== 'node') {
    return landing.from === 'nowhere' || landing.entry.status === 200 || landing.entry.key === keys.text
  }
  const { answer, entry, text } = landing.fetched
  if (read.isOpen) return entry !== undefined
  return answer.status === 200 || (!speaksOfNode(answer) && text === keys.text)
}

/** The present rendering; undefined where no node gives one in time. What comes later is kept for the next read. */
async function renderAfresh (
  parts: Parts,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  kept: Entry,
  name: Hit['name']
): Promise<Outcome | undefined> {
  // Who may not ask a node for more has what is kept.
  if (parts.admit !== undefined && !await parts.admit().then(() => true, () => false)) return undefined
  const flight = parts.flights.do(`afresh ${keys.value}`, async () => await landAfresh(parts, read, keys, chain, name))
  const flown = await within(freshRenderingMs, flight.catch(() => undefined))
  if (flown?.result.from === 'redis') return hit(parts, read, flown.result.entry, 'hit_redis')
  const fetched = flown?.result.from === 'node' ? flown.result.fetched : undefined
  if (flown !== undefined && fetched?.entry !== undefined) {
    return { name: flown.joined ? 'collapsed' : 'miss', fetched, position: parts.tracker.position }
  }
  // Nobody reads what has become too large to keep, or came too late.
  flight.then(({ result, joined }) => {
    if (!joined && result.from === 'node') result.fetched.answer.rest?.destroy()
  }, () => {})
  parts.renewals.failed(kept)
  return undefined
}

// Another replica may have read it afresh already; what has just come from there need not be looked for again.
async function landAfresh (
  parts: Parts,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  name: Hit['name']
): Promise<Landing> {
  const entry = name === 'hit_redis' ? undefined : await recall(parts, read, keys, chain)
  return entry !== undefined && !isOldRendering(parts, read, entry)
    ? { from: 'redis', entry }
    : await ask(parts, read, keys, chain)
}
