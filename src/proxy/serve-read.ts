import { type Entry } from '../cache/entry.js'
import { type Chain } from '../chain/tracker.js'
import { describeChainMismatch } from '../chain/chain-mismatch.js'
import { reportsUpstreamFault } from '../api/upstream-response.js'
import { classOf, coalescingKeyOf, keysOf, type Read, type ReadKeys } from '../api/read.js'
import { unavailableError } from '../api/error-response.js'
import { withTimeout } from '../with-timeout.js'
import { serveMicroCached, serveMoving } from './serve-moving.js'
import { waitForVersions, isAboveServedHead } from './wait-for-version.js'
import { isReset } from './fetch-and-judge.js'
import { auditHit } from './audit.js'
import { fetchHistory } from './fetch-and-store.js'
import { type ParsedRequest } from './parsed-request.js'
import { observe } from './observe.js'
import { type Hit, type HistoryResult, type Outcome } from './outcomes.js'
import { type ProxyContext } from './proxy-context.js'
import { lookUpInRedis } from './redis-lookup.js'
import {
  prunedDistance,
  locallyPrunedDistance,
  prunedError,
  isRetiredRendering,
  lookUp,
  countPruned
} from './memory-lookup.js'

// How long a client waits for a fresh rendering before it gets the kept one (law 8).
const refreshTimeoutMs = 500

/**
 * What is at hand for a read in a spelling that is known, in this very turn; undefined for what has to go the whole
 * way.
 */
export function serveFromMemory (context: ProxyContext, parsed: ParsedRequest): Hit | undefined {
  const { chain } = context.tracker
  if (chain === undefined || context.settings.isObserving) return undefined
  const { read } = parsed
  const keys = parsed.keysIn(chain)
  if (classOf(read) === 'moving') return serveMicroCached(context, read, keys)
  const cached = lookUp(context, read, keys)
  if (cached === undefined || isRetiredRendering(context, read, cached)) return undefined
  const outcome = makeHit(context, read, cached, 'hit_memory')
  countPruned(context, read, outcome)
  return outcome
}

/**
 * The life of a read: pin the chain, wait for it where that is asked for, key, look up, fetch once, and say where the
 * chain stands now.
 */
export async function serveRead (context: ProxyContext, read: Read): Promise<Outcome> {
  if (read.requestedVersion !== undefined) {
    context.lowestRequested.record(read.requestedVersion, context.tracker.position)
  }
  let chain = await pinChain(context)
  if (isAboveServedHead(context, read)) {
    await context.admit?.()
    await waitForVersions(context, read)
    // It may be another one by now.
    chain = await pinChain(context)
  }
  const outcome = await serve(context, read, chain)
  countPruned(context, read, outcome)
  return outcome
}

/** The chain and generation that this read is about; a process that has not seen its node yet asks for them first. */
async function pinChain (context: ProxyContext): Promise<Chain> {
  if (context.tracker.chain === undefined) await context.resolveChain()
  const { chain } = context.tracker
  if (chain === undefined) {
    throw unavailableError(
      describeChainMismatch(context.upstreamPool.upstreams, context.tracker) ??
        'no node has been reached yet, so the chain is not known'
    )
  }
  return chain
}

async function serve (context: ProxyContext, read: Read, chain: Chain): Promise<Outcome> {
  const keys = keysOf(read, chain)
  if (context.settings.isObserving) {
    await context.admit?.()
    return await observe(context, read, keys, chain)
  }
  if (classOf(read) === 'moving') return await serveMoving(context, read, keys, chain)
  const cached = lookUp(context, read, keys)
  if (cached !== undefined) return await serveCached(context, read, keys, chain, cached, 'hit_memory')
  return context.admit === undefined
    ? await fetchCoalesced(context, read, keys, chain)
    : await fetchIfAdmitted(context, read, keys, chain)
}

/** Answers with what is kept, unless it can be had in the rendering of today. */
async function serveCached (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  cached: Entry,
  name: Hit['name']
): Promise<Outcome> {
  if (!isRetiredRendering(context, read, cached)) return makeHit(context, read, cached, name)
  const refreshed = await refreshRendering(context, read, keys, chain, cached, name)
  // While that was tried the chain may have been reset, and what was kept of the old one is no answer any more.
  if (isReset(context, chain)) return await serve(context, read, await pinChain(context))
  return refreshed ?? makeHit(context, read, cached, name)
}

function makeHit (context: ProxyContext, read: Read, entry: Entry, name: Hit['name']): Hit {
  const { position } = context.tracker
  auditHit(context, read, entry)
  return { name, entry, kind: prunedDistance(position, read, entry) === undefined ? 'history' : 'pruned', position }
}

/**
 * As `fetchOnce` does, for a client that may not ask for all that it likes: what costs a node nothing is not taken from
 * that, and others' flights are not its to refuse.
 */
async function fetchIfAdmitted (context: ProxyContext, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const { result: fromRedis } = await context.redisCoalescer.run(
    keys.text,
    async () => await lookUpInRedis(context, read, keys, chain)
  )
  if (fromRedis !== undefined) return await serveCached(context, read, keys, chain, fromRedis, 'hit_redis')
  if (locallyPrunedDistance(context, read) === undefined) await context.admit?.()
  // While that was found out the chain may have been reset, or somebody else have read it.
  if (isReset(context, chain)) return await serve(context, read, await pinChain(context))
  const cached = lookUp(context, read, keys)
  return cached === undefined
    ? await fetchCoalesced(context, read, keys, chain)
    : await serveCached(context, read, keys, chain, cached, 'hit_memory')
}

/** One look into what replicas share and one fetch for a burst of equal reads. */
async function fetchCoalesced (context: ProxyContext, read: Read, keys: ReadKeys, chain: Chain): Promise<Outcome> {
  const load = (): Promise<HistoryResult> => loadHistory(context, read, keys, chain)
  let coalesced = await context.historyCoalescer.run(coalescingKeyOf(read, keys.value), load)
  if (coalesced.isCollapsed && !canShareResult(read, coalesced.result, keys)) {
    // A page that is not full, like a transaction that is not committed, is of the moment, and whoever joined may have
    // asked after its node was asked (law 5).
    if (read.mayBeMoving) return await serveMoving(context, read, keys, chain)
    coalesced = await context.historyCoalescer.run(keys.text, load)
  }
  const { result, isCollapsed } = coalesced
  switch (result.from) {
    case 'redis':
      return await serveCached(context, read, keys, chain, result.entry, 'hit_redis')
    case 'nowhere':
      throw prunedError(context, read, result.version, result.distance)
    case 'node': {
      const { fetched } = result
      const stamped = read.mayBeMoving && fetched.entry === undefined ? fetched.response.stamped?.position : undefined
      return { name: isCollapsed ? 'collapsed' : 'miss', fetched, position: stamped ?? context.tracker.position }
    }
  }
}

async function loadHistory (context: ProxyContext, read: Read, keys: ReadKeys, chain: Chain): Promise<HistoryResult> {
  // Who had to be admitted has looked there before that.
  const entry = context.admit === undefined ? await lookUpInRedis(context, read, keys, chain) : undefined
  if (entry !== undefined) return { from: 'redis', entry }
  const distance = locallyPrunedDistance(context, read)
  if (distance === undefined || read.requestedVersion === undefined) {
    return await loadFromUpstream(context, read, keys, chain)
  }
  return { from: 'nowhere', version: read.requestedVersion, distance }
}

async function loadFromUpstream (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: Chain
): Promise<HistoryResult> {
  return { from: 'node', fetched: await fetchHistory(context, read, keys, chain) }
}

/**
 * Whether those who joined may have it too: not a node's failure, nor what quotes a text that others did not send, nor
 * what moves.
 */
function canShareResult (read: Read, result: HistoryResult, keys: ReadKeys): boolean {
  if (result.from !== 'node') {
    return result.from === 'nowhere' || result.entry.status === 200 || result.entry.key === keys.text
  }
  const { response, entry, textKey } = result.fetched
  if (read.mayBeMoving) return entry !== undefined
  return response.status === 200 || (!reportsUpstreamFault(response) && textKey === keys.text)
}

/** The present rendering; undefined where no node gives one in time. What comes later is kept for the next read. */
async function refreshRendering (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  cached: Entry,
  name: Hit['name']
): Promise<Outcome | undefined> {
  // Who may not ask a node for more has what is kept.
  if (context.admit !== undefined && !await context.admit().then(() => true, () => false)) return undefined
  const refresh = context.historyCoalescer.run(
    `refresh ${keys.value}`,
    async () => await loadRefreshed(context, read, keys, chain, name)
  )
  const coalesced = await withTimeout(refreshTimeoutMs, refresh.catch(() => undefined))
  if (coalesced?.result.from === 'redis') return makeHit(context, read, coalesced.result.entry, 'hit_redis')
  const fetched = coalesced?.result.from === 'node' ? coalesced.result.fetched : undefined
  if (coalesced !== undefined && fetched?.entry !== undefined) {
    return { name: coalesced.isCollapsed ? 'collapsed' : 'miss', fetched, position: context.tracker.position }
  }
  // Nobody reads what has become too large to keep, or came too late.
  refresh.then(({ result, isCollapsed }) => {
    if (!isCollapsed && result.from === 'node') result.fetched.response.rest?.destroy()
  }, () => {})
  context.failedRefreshes.record(cached)
  return undefined
}

// Another replica may have read it afresh already; what has just come from there need not be looked for again.
async function loadRefreshed (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  name: Hit['name']
): Promise<HistoryResult> {
  const entry = name === 'hit_redis' ? undefined : await lookUpInRedis(context, read, keys, chain)
  return entry !== undefined && !isRetiredRendering(context, read, entry)
    ? { from: 'redis', entry }
    : await loadFromUpstream(context, read, keys, chain)
}
