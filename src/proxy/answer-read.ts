import { type Entry } from '../cache/entry.js'
import { type Position } from '../ledger/position.js'
import { type Chain } from '../ledger/tracker.js'
import { keysOf, type Read, type ReadKeys } from '../reads/read.js'
import { unavailable } from '../reads/refusal.js'
import { fetchHistory, fetchLatest } from './fetch.js'
import { type Outcome } from './outcomes.js'
import { type Parts } from './parts.js'

// How long a client waits for a fresh rendering before it gets the kept one (law 8).
const freshRenderingMs = 500

/** The life of a read: pin the chain, key, look up, fetch once, and say where the chain stands now. */
export async function answerRead (parts: Parts, read: Read): Promise<Outcome> {
  const chain = await pin(parts)
  const keys = keysOf(read, chain)
  if (read.version === undefined) return await forward(parts, read, keys, chain)
  const kept = lookUp(parts, keys)
  if (kept === undefined) return await fetchOnce(parts, read, read.version, keys, chain)
  const fresh = isOldRendering(parts, read, kept) ? await renderAfresh(parts, read, keys, chain) : undefined
  return fresh ?? hit(parts, read, read.version, kept)
}

/** The chain and generation that this read is about; a process that has not seen its node yet asks for them first. */
async function pin (parts: Parts): Promise<Chain> {
  if (parts.tracker.chain === undefined) await parts.nodes.poll()
  const { chain } = parts.tracker
  if (chain === undefined) throw unavailable('no node has been reached yet, so the chain is not known')
  return chain
}

/** A value is shared by all spellings of a read; a not-found, which echoes the client's text, by equal texts alone. */
function lookUp (parts: Parts, keys: ReadKeys): Entry | undefined {
  return parts.memory.get(keys.value) ?? (keys.text === keys.value ? undefined : parts.memory.get(keys.text))
}

/** Law 8: JSON that a release rendered which no live node runs any more. */
function isOldRendering (parts: Parts, read: Read, kept: Entry): boolean {
  const running = parts.nodes.release
  return read.endpoint.renderedByRelease && read.accept === 'json' &&
    kept.release !== undefined && running !== undefined && kept.release !== running
}

/** The present rendering; undefined where no node gives one in time, or none has the version any more. */
async function renderAfresh (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome | undefined> {
  try {
    const { result, joined } = await parts.flights.do(keys.value, async () => await fetchHistory(parts, read, keys, chain, freshRenderingMs))
    return result.entry === undefined ? undefined : { name: joined ? 'collapsed' : 'miss', fetched: result, position: parts.tracker.position }
  } catch {
    return undefined
  }
}

function hit (parts: Parts, read: Read, version: bigint, entry: Entry): Outcome {
  const { position } = parts.tracker
  const distance = distanceBelow(position, version)
  if (distance !== undefined) parts.tally.pruned(read.endpoint.name, 'cache', distance)
  return { name: 'hit_memory', entry, isPruned: distance !== undefined, position }
}

/** How far below the oldest version that a node still has; undefined for what is not below it. */
function distanceBelow (position: Position | undefined, version: bigint): bigint | undefined {
  return position !== undefined && version < position.oldest.version ? position.oldest.version - version : undefined
}

/** One fetch for a burst of equal reads. */
async function fetchOnce (parts: Parts, read: Read, version: bigint, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const fly = (): ReturnType<typeof fetchHistory> => fetchHistory(parts, read, keys, chain)
  let flown = await parts.flights.do(keys.value, fly)
  // Anything but a value may quote the text that was sent, and this caller may have sent another.
  if (flown.joined && flown.result.answer.status !== 200 && flown.result.text !== keys.text) flown = await parts.flights.do(keys.text, fly)
  const { position } = parts.tracker
  if (flown.result.answer.status === 410) parts.tally.pruned(read.endpoint.name, 'upstream', distanceBelow(position, version))
  return { name: flown.joined ? 'collapsed' : 'miss', fetched: flown.result, position }
}

/** A latest read, or one that moves: never older than the moment it was asked, and under the position stamped on that very answer. */
async function forward (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const fetched = await parts.latestFlights.do(keys.text, () => fetchLatest(parts, read, chain))
  return { name: 'forwarded', fetched, position: fetched.answer.stamped?.position ?? parts.tracker.position }
}
