import { type Chain } from '../ledger/tracker.js'
import { classOf, type Read, type ReadKeys } from '../reads/read.js'
import { shownPosition } from './answer-moving.js'
import { askCurrently, askTruly, type Judged } from './ask.js'
import { fetchHistory, fetchLatest } from './fetch.js'
import { heldOutcome } from './held.js'
import { type Fetched, type Observation, type PinnedFetch } from './outcomes.js'
import { type Parts } from './parts.js'
import { distanceGone, isOldRendering, lookUp } from './window.js'

/** Asks the node for each request, keeps what serving would have kept and no more, and says what would have come of it. */
export async function observe (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Observation> {
  if (classOf(read) === 'moving') {
    const wouldHit = heldOutcome(parts, read, keys) !== undefined
    return wouldHit
      ? await observed(parts, 'hit_memory', unkept(await askCurrently(parts, read, chain)))
      : await observed(parts, 'forwarded', await fetchLatest(parts, read, keys, chain))
  }
  const kept = lookUp(parts, read, keys)
  if (kept !== undefined && !isOldRendering(parts, read, kept)) return await observed(parts, 'hit_memory', unkept(await askTruly(parts, read)))
  if (kept === undefined && distanceGone(parts, read) !== undefined) return await observed(parts, 'refused', unkept(await askTruly(parts, read)))
  const fly = async (): Promise<PinnedFetch> => await fetchHistory(parts, read, keys, chain)
  // The first of a burst stands in the table of flights, so that the others can be told from misses of their own.
  const wouldJoin = parts.flights.has(keys.value)
  const fetched = wouldJoin ? await fly() : (await parts.flights.do(keys.value, fly)).result
  if (kept === undefined || fetched.entry !== undefined) return await observed(parts, wouldJoin ? 'collapsed' : 'miss', fetched)
  // What cannot be rendered afresh would have been served as it was (law 8).
  parts.renewals.failed(kept)
  return await observed(parts, 'hit_memory', fetched)
}

function unkept ({ answer }: Judged): Fetched {
  return { answer, entry: undefined, notKept: undefined }
}

async function observed (parts: Parts, wouldBe: Observation['wouldBe'], fetched: Fetched): Promise<Observation> {
  return { name: 'observed', wouldBe, fetched, position: fetched.answer.stamped?.position ?? await shownPosition(parts) }
}
