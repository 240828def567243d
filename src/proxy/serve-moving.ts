import { type Chain } from '../chain/tracker.js'
import { reportsUpstreamFault } from '../api/upstream-response.js'
import { coalescingKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { fetchLatest } from './fetch-and-store.js'
import { auditHit } from './audit.js'
import { readMicroCache } from './micro-cache.js'
import { type Hit, type Outcome } from './outcomes.js'
import { type ProxyContext } from './proxy-context.js'

/** What was answered a moment ago, where an operator lets it be given again. */
export function serveMicroCached (context: ProxyContext, read: Read, keys: ReadKeys): Hit | undefined {
  const microCached = readMicroCache(context, read, keys)
  if (microCached !== undefined) auditHit(context, read, microCached.entry)
  return microCached
}

/**
 * A read that nothing kept can answer for long: never older than the moment it was asked, but for the staleness that an
 * operator chose.
 */
export async function serveMoving (context: ProxyContext, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const microCached = serveMicroCached(context, read, keys)
  if (microCached !== undefined) return microCached
  await context.admit?.()
  // Those who gathered behind a fetch have its answer too where it may be held that long; else they ask together.
  const load = async (): Promise<Outcome> =>
    readMicroCache(context, read, keys) ?? await forward(context, read, keys, chain)
  const key = coalescingKeyOf(read, keys.text)
  const coalesced = await context.latestCoalescer.run(key, load)
  return coalesced.isCollapsed && isUpstreamFault(coalesced.result)
    ? (await context.latestCoalescer.run(key, load)).result
    : coalesced.result
}

async function forward (context: ProxyContext, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const fetched = await fetchLatest(context, read, keys, chain)
  // The version that it was read at is the one stamped on that very answer; a page that turns out full is history, and
  // bears the present (law 4).
  const stamped = read.mayBeMoving && fetched.entry !== undefined ? undefined : fetched.response.stamped
  return { name: 'forwarded', fetched, position: stamped?.position ?? await servedPosition(context) }
}

/**
 * The position to show with an answer that bears none, such as node info; a process that knows none yet asks for it.
 */
export async function servedPosition (context: ProxyContext): Promise<Outcome['position']> {
  if (context.tracker.position === undefined) await context.resolveChain()
  return context.tracker.position
}

function isUpstreamFault (outcome: Outcome): boolean {
  return outcome.name === 'forwarded' && reportsUpstreamFault(outcome.fetched.response)
}
