import { type Chain } from '../ledger/tracker.js'
import { classOf, type Read, type ReadKeys } from '../reads/read.js'
import { askTruly } from './ask.js'
import { fetchHistory, fetchLatest } from './fetch.js'
import { heldOutcome } from './held.js'
import { type Fetched, type Observation, type PinnedFetch } from './outcomes.js'
import { type Parts } from './parts.js'
import { lookUp } from './window.js'

/** Asks the node for each request, keeps what serving would have kept, and says what would have come of it. */
export async function observe (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Observation> {
  if (classOf(read) === 'moving') {
    const wouldBe = heldOutcome(parts, read, keys)?.name ?? 'forwarded'
    return observed(parts, wouldBe, await fetchLatest(parts, read, keys, chain))
  }
  if (lookUp(parts, read, keys) !== undefined) {
    const { answer } = await askTruly(parts, read)
    return observed(parts, 'hit_memory', { answer, entry: undefined, notKept: undefined })
  }
  const fly = async (): Promise<PinnedFetch> => await fetchHistory(parts, read, keys, chain)
  // The first of a burst stands in the table of flights, so that the others can be told from misses of their own.
  if (parts.flights.has(keys.value)) return observed(parts, 'collapsed', await fly())
  return observed(parts, 'miss', (await parts.flights.do(keys.value, fly)).result)
}

function observed (parts: Parts, wouldBe: Observation['wouldBe'], fetched: Fetched): Observation {
  return { name: 'observed', wouldBe, fetched, position: fetched.answer.stamped?.position ?? parts.tracker.position }
}
