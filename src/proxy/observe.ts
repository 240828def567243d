import { type Chain } from '../chain/tracker.js'
import { type Judged } from '../api/lifetime.js'
import { classOf, flightKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { shownPosition } from './answer-moving.js'
import { askCurrently, askTruly } from './ask.js'
import { fetchHistory, fetchLatest } from './fetch.js'
import { heldOutcome } from './held.js'
import { type Fetched, type Observation } from './outcomes.js'
import { type Parts } from './parts.js'
import { recall } from './recall.js'
import { distanceGone, isOldRendering, lookUp } from './window.js'

/**
 * Asks the node for each request, keeps what serving would have kept and no more, and says what would have come of it.
 */
export async function observe (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Observation> {
  const wouldBe = async (name: Observation['wouldBe'], fetched: Seen): Promise<Observation> =>
    await observed(parts, read, name, fetched)
  if (classOf(read) === 'moving') {
    const isHeld = heldOutcome(parts, read, keys) !== undefined
    return isHeld
      ? await wouldBe('hit_memory', unkept(await askCurrently(parts, read, chain)))
      : await wouldBe('forwarded', { ...await fetchLatest(parts, read, keys, chain), isHistory: false })
  }
  const inMemory = lookUp(parts, read, keys)
  const kept = inMemory ?? await recall(parts, read, keys, chain)
  const wouldHit = inMemory === undefined ? 'hit_redis' : 'hit_memory'
  if (kept !== undefined && !isOldRendering(parts, read, kept)) {
    return await wouldBe(wouldHit, unkept(await ask(parts, read, chain)))
  }
  if (kept === undefined && distanceGone(parts, read) !== undefined) {
    return await wouldBe('gone', unkept(await ask(parts, read, chain)))
  }
  // The first of a burst stands in the table of flights, so that the others can be told from misses of their own.
  const wouldJoin = parts.flights.has(flightKeyOf(read, keys.value))
  const fetching = fetchHistory(parts, read, keys, chain)
  if (!wouldJoin) {
    await parts.flights.do(flightKeyOf(read, keys.value), async () => ({ from: 'node', fetched: await fetching }))
  }
  const fetched = await fetching
  const seen = { ...fetched, isHistory: fetched.entry !== undefined }
  if (kept === undefined || fetched.entry !== undefined) return await wouldBe(wouldJoin ? 'collapsed' : 'miss', seen)
  // What cannot be rendered afresh would have been served as it was (law 8).
  parts.renewals.failed(kept)
  return await wouldBe(wouldHit, seen)
}

// What may be of the moment is asked of a node that is far enough here too, as where nothing is kept of it.
async function ask (parts: Parts, read: Read, chain: Chain): Promise<Judged> {
  return read.isOpen ? await askCurrently(parts, read, chain) : await askTruly(parts, read)
}

/** What came of asking, and whether it is history. */
type Seen = Fetched & { readonly isHistory: boolean }

function unkept ({ answer, verdict }: Judged): Seen {
  return { answer, entry: undefined, notKept: undefined, isHistory: verdict.lifetime !== undefined }
}

async function observed (
  parts: Parts,
  read: Read,
  wouldBe: Observation['wouldBe'],
  { isHistory, ...fetched }: Seen
): Promise<Observation> {
  // History bears the present position here too, which never goes back (law 4); all else the one that it was read at.
  const stamped = isHistory || (classOf(read) === 'immutable' && !read.isOpen) ? undefined : fetched.answer.stamped
  return { name: 'observed', wouldBe, fetched, position: stamped?.position ?? await shownPosition(parts) }
}
