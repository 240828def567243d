import { type Entry } from '../cache/entry.js'
import { type Position } from '../ledger/position.js'
import { type Chain } from '../ledger/tracker.js'
import { keysOf, type Read, type ReadKeys } from '../reads/read.js'
import { unavailable } from '../reads/refusal.js'
import { fetchHistory, fetchLatest, isReset } from './fetch.js'
import { type Fetched, type Outcome } from './outcomes.js'
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
  if (!isOldRendering(parts, read, read.version, kept)) return hit(parts, read, read.version, kept)
  const fresh = await renderAfresh(parts, read, keys, chain, kept)
  // While that was tried the chain may have been reset, and what was kept of the old one is no answer any more.
  if (isReset(parts, chain)) return await answerRead(parts, read)
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

/** Law 8: JSON that a release rendered which no live node runs any more, and that a node can still render. */
function isOldRendering (parts: Parts, read: Read, version: bigint, kept: Entry): boolean {
  const running = parts.nodes.release
  return read.endpoint.renderedByRelease && read.accept === 'json' &&
    kept.release !== undefined && running !== undefined && kept.release !== running &&
    distanceBelow(parts.tracker.position, version) === undefined && !parts.renewals.isResting(kept)
}

/** The present rendering; undefined where no node gives one in time. What comes later is kept for the next read. */
async function renderAfresh (parts: Parts, read: Read, keys: ReadKeys, chain: Chain, kept: Entry): Promise<Outcome | undefined> {
  const flight = parts.flights.do(keys.value, async () => await fetchHistory(parts, read, keys, chain))
  const flown = await within(freshRenderingMs, flight.catch(() => undefined))
  if (flown?.result.entry !== undefined) return { name: flown.joined ? 'collapsed' : 'miss', fetched: flown.result, position: parts.tracker.position }
  parts.renewals.failed(kept)
  return undefined
}

async function within<T> (ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>(resolve => { timer = setTimeout(resolve, ms, undefined) })
  return await Promise.race([promise, late]).finally(() => { clearTimeout(timer) })
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
  if (flown.joined && !isForAll(flown.result, keys)) flown = await parts.flights.do(keys.text, fly)
  const { position } = parts.tracker
  if (flown.result.answer.status === 410) parts.tally.pruned(read.endpoint.name, 'upstream', distanceBelow(position, version))
  return { name: flown.joined ? 'collapsed' : 'miss', fetched: flown.result, position }
}

/** Whether those who joined may have it too: not a node's failure, nor what quotes a text that others did not send. */
function isForAll ({ answer, text }: Fetched & { readonly text: string }, keys: ReadKeys): boolean {
  return answer.status === 200 || (answer.status < 500 && text === keys.text)
}

/** A latest read, or one that moves: never older than the moment it was asked, and under the position stamped on that very answer. */
async function forward (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const fly = async (): Promise<Fetched> => await fetchLatest(parts, read, chain)
  let flown = await parts.latestFlights.do(keys.text, fly)
  if (flown.joined && flown.result.answer.status >= 500) flown = await parts.latestFlights.do(keys.text, fly)
  const stamped = read.speaksOf === undefined ? flown.result.answer.stamped?.position : undefined
  return { name: 'forwarded', fetched: flown.result, position: stamped ?? parts.tracker.position }
}
