import { type Chain } from '../chain/tracker.js'
import { speaksOfNode } from '../api/answer.js'
import { flightKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { fetchLatest } from './fetch.js'
import { auditHit } from './audit.js'
import { heldOutcome } from './held.js'
import { type Hit, type Outcome } from './outcomes.js'
import { type Parts } from './parts.js'

/** What was answered a moment ago, where an operator lets it be given again. */
export function answerHeld (parts: Parts, read: Read, keys: ReadKeys): Hit | undefined {
  const held = heldOutcome(parts, read, keys)
  if (held !== undefined) auditHit(parts, read, held.entry)
  return held
}

/**
 * A read that nothing kept can answer for long: never older than the moment it was asked, but for the staleness that an
 * operator chose.
 */
export async function answerMoving (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const held = answerHeld(parts, read, keys)
  if (held !== undefined) return held
  await parts.admit?.()
  // Those who gathered behind a fetch have its answer too where it may be held that long; else they ask together.
  const fly = async (): Promise<Outcome> => heldOutcome(parts, read, keys) ?? await forward(parts, read, keys, chain)
  const key = flightKeyOf(read, keys.text)
  const flown = await parts.latestFlights.do(key, fly)
  return flown.joined && isFailure(flown.result) ? (await parts.latestFlights.do(key, fly)).result : flown.result
}

async function forward (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const fetched = await fetchLatest(parts, read, keys, chain)
  // The version that it was read at is the one stamped on that very answer; a page that turns out full is history, and
  // bears the present (law 4).
  const stamped = read.isOpen && fetched.entry !== undefined ? undefined : fetched.answer.stamped
  return { name: 'forwarded', fetched, position: stamped?.position ?? await shownPosition(parts) }
}

/**
 * The position to show with an answer that bears none, such as node info; a process that knows none yet asks for it.
 */
export async function shownPosition (parts: Parts): Promise<Outcome['position']> {
  if (parts.tracker.position === undefined) await parts.settle()
  return parts.tracker.position
}

function isFailure (outcome: Outcome): boolean {
  return outcome.name === 'forwarded' && speaksOfNode(outcome.fetched.answer)
}
