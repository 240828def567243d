import { type ChainGeneration } from '../chain/tracker.js'
import { reportsUpstreamFault } from '../api/upstream-response.js'
import { coalescingKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { fetchLatest } from './fetch-and-store.js'
import { auditHit } from './audit.js'
import { readMicroCache } from './micro-cache.js'
import { type Hit, type Outcome } from './outcomes.js'
import { type ProxyContext } from './proxy-context.js'

/** Returns the micro-cached response for a read; undefined if there is none that an operator's maximum age allows. */
export function serveMicroCached (context: ProxyContext, read: Read, keys: ReadKeys): Hit | undefined {
  const microCached = readMicroCache(context, read, keys)
  if (microCached !== undefined) auditHit(context, read, microCached.entry)
  return microCached
}

/**
 * Serves a latest read (law 5: a latest read is never older than its request). An operator may allow micro-cached
 * responses a maximum age.
 */
export async function serveMoving (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<Outcome> {
  const microCached = serveMicroCached(context, read, keys)
  if (microCached !== undefined) return microCached
  await context.admit?.()
  // Reads that queued behind a fetch use its micro-cached response if allowed; otherwise they share the next fetch.
  const load = async (): Promise<Outcome> =>
    readMicroCache(context, read, keys) ?? await forward(context, read, keys, chain)
  const key = coalescingKeyOf(read, keys.text)
  const coalesced = await context.latestCoalescer.run(key, load)
  return coalesced.isCollapsed && outcomeHasUpstreamFault(coalesced.result)
    ? (await context.latestCoalescer.run(key, load)).result
    : coalesced.result
}

async function forward (context: ProxyContext, read: Read, keys: ReadKeys, chain: ChainGeneration): Promise<Outcome> {
  const fetched = await fetchLatest(context, read, keys, chain)
  // A latest response carries its own stamp; a page that turns out full is history and carries the served position (law
  // 4: headers are the present, bodies are the past).
  const stamped = read.mayBeMoving && fetched.entry !== undefined ? undefined : fetched.response.stamped
  return { name: 'forwarded', fetched, position: stamped?.position ?? await servedPosition(context) }
}

/** Returns the position for responses without one, such as node info; resolves the chain if the position is unknown. */
export async function servedPosition (context: ProxyContext): Promise<Outcome['position']> {
  if (context.tracker.position === undefined) await context.resolveChain()
  return context.tracker.position
}

function outcomeHasUpstreamFault (outcome: Outcome): boolean {
  return outcome.name === 'forwarded' && reportsUpstreamFault(outcome.fetched.response)
}
