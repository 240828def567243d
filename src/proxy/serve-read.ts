import { type Entry } from '../cache/entry.js'
import { type ChainGeneration } from '../chain/tracker.js'
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
import { type RequestVariantEntry } from './request-variant-entry.js'
import { serveInObserveMode } from './serve-in-observe-mode.js'
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

// Limits the wait for a refreshed rendering (law 8: rendering can change, history cannot).
const refreshTimeoutMs = 500

/** Serves a parsed request from memory without awaiting; undefined if the read needs `serveRead`. */
export function serveFromMemory (context: ProxyContext, parsed: RequestVariantEntry): Hit | undefined {
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
 * Serves a read:
 * 1. Pin the chain and generation, which every key names (law 7: chains never mix).
 * 2. Wait, within a limit, for a version above the served head; then pin again.
 * 3. Fetch moving reads, unless the micro-cache may serve them (law 5: a latest read is never older than its request).
 * 4. Look up in memory, then in Redis; refresh a retired rendering (law 8: rendering can change, history cannot).
 * 5. Respond 410 for history that every upstream has pruned (law 11: "gone" and "not there" are facts, not guesses).
 * 6. Fetch once for all equal reads, judge the response, and store it (law 3: only proven history is stored).
 * 7. Return the outcome with the position to stamp on it (law 4: headers are the present, bodies are the past).
 */
export async function serveRead (context: ProxyContext, read: Read): Promise<Outcome> {
  if (read.requestedVersion !== undefined) {
    context.lowestRequested.record(read.requestedVersion, context.tracker.position)
  }
  let chain = await pinChain(context)
  if (isAboveServedHead(context, read)) {
    await context.admit?.()
    await waitForVersions(context, read)
    // The chain may have been reset during the wait.
    chain = await pinChain(context)
  }
  const outcome = await serve(context, read, chain)
  countPruned(context, read, outcome)
  return outcome
}

/** Pins the chain and generation for the keys of a read; rejects with 503 while no upstream has reported a chain. */
async function pinChain (context: ProxyContext): Promise<ChainGeneration> {
  if (context.tracker.chain === undefined) await context.resolveChain()
  const { chain } = context.tracker
  if (chain === undefined) {
    throw unavailableError(
      describeChainMismatch(context.upstreamPool.upstreams, context.tracker) ??
        'no upstream has been reached yet, so the chain is unknown'
    )
  }
  return chain
}

async function serve (context: ProxyContext, read: Read, chain: ChainGeneration): Promise<Outcome> {
  const keys = keysOf(read, chain)
  if (context.settings.isObserving) {
    await context.admit?.()
    return await serveInObserveMode(context, read, keys, chain)
  }
  if (classOf(read) === 'moving') return await serveMoving(context, read, keys, chain)
  const cached = lookUp(context, read, keys)
  if (cached !== undefined) return await serveCached(context, read, keys, chain, cached, 'hit_memory')
  return context.admit === undefined
    ? await fetchCoalesced(context, read, keys, chain)
    : await fetchIfAdmitted(context, read, keys, chain)
}

/** Serves a cached entry, or its refreshed rendering if that arrives in time. */
async function serveCached (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration,
  cached: Entry,
  name: Hit['name']
): Promise<Outcome> {
  if (!isRetiredRendering(context, read, cached)) return makeHit(context, read, cached, name)
  const refreshed = await refreshRendering(context, read, keys, chain, cached, name)
  // A reset during the refresh makes the cached entry void (law 7: chains never mix).
  if (isReset(context, chain)) return await serve(context, read, await pinChain(context))
  return refreshed ?? makeHit(context, read, cached, name)
}

function makeHit (context: ProxyContext, read: Read, entry: Entry, name: Hit['name']): Hit {
  const { position } = context.tracker
  auditHit(context, read, entry)
  return { name, entry, kind: prunedDistance(position, read, entry) === undefined ? 'history' : 'pruned', position }
}

/**
 * Looks in Redis before it charges a rate-limited client: hits and local 410s cost no upstream request. Charges before
 * joining a fetch, so a rejection fails no other client.
 */
async function fetchIfAdmitted (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<Outcome> {
  const { result: fromRedis } = await context.redisCoalescer.run(
    keys.text,
    async () => await lookUpInRedis(context, read, keys, chain)
  )
  if (fromRedis !== undefined) return await serveCached(context, read, keys, chain, fromRedis, 'hit_redis')
  if (locallyPrunedDistance(context, read) === undefined) await context.admit?.()
  // Meanwhile the chain may have been reset, or another request may have stored the entry.
  if (isReset(context, chain)) return await serve(context, read, await pinChain(context))
  const cached = lookUp(context, read, keys)
  return cached === undefined
    ? await fetchCoalesced(context, read, keys, chain)
    : await serveCached(context, read, keys, chain, cached, 'hit_memory')
}

/** Coalesces equal reads into one Redis look-up and one fetch. */
async function fetchCoalesced (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<Outcome> {
  const load = (): Promise<HistoryResult> => loadHistory(context, read, keys, chain)
  let coalesced = await context.historyCoalescer.run(coalescingKeyOf(read, keys.value), load)
  if (coalesced.isCollapsed && !canShareResult(read, coalesced.result, keys)) {
    // A partial page or pending transaction may predate a request that joined late (law 5: a latest read is never older
    // than its request).
    if (read.mayBeMoving) return await serveMoving(context, read, keys, chain)
    coalesced = await context.historyCoalescer.run(keys.text, load)
  }
  const { result, isCollapsed } = coalesced
  switch (result.from) {
    case 'redis':
      return await serveCached(context, read, keys, chain, result.entry, 'hit_redis')
    case 'pruned':
      throw prunedError(context, read, result.version, result.distance)
    case 'upstream': {
      const { fetched } = result
      const stamped = read.mayBeMoving && fetched.entry === undefined ? fetched.response.stamped?.position : undefined
      return { name: isCollapsed ? 'collapsed' : 'miss', fetched, position: stamped ?? context.tracker.position }
    }
  }
}

async function loadHistory (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<HistoryResult> {
  // With an admission check, `fetchIfAdmitted` has already looked in Redis.
  const entry = context.admit === undefined ? await lookUpInRedis(context, read, keys, chain) : undefined
  if (entry !== undefined) return { from: 'redis', entry }
  const distance = locallyPrunedDistance(context, read)
  if (distance === undefined || read.requestedVersion === undefined) {
    return await loadFromUpstream(context, read, keys, chain)
  }
  return { from: 'pruned', version: read.requestedVersion, distance }
}

async function loadFromUpstream (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration
): Promise<HistoryResult> {
  return { from: 'upstream', fetched: await fetchHistory(context, read, keys, chain) }
}

/**
 * Returns true if coalesced reads may share a result. Upstream faults and latest responses are not shared; a not-found
 * is shared only by equal texts, which it quotes.
 */
function canShareResult (read: Read, result: HistoryResult, keys: ReadKeys): boolean {
  if (result.from !== 'upstream') {
    return result.from === 'pruned' || result.entry.status === 200 || result.entry.key === keys.text
  }
  const { response, entry, textKey } = result.fetched
  if (read.mayBeMoving) return entry !== undefined
  return response.status === 200 || (!reportsUpstreamFault(response) && textKey === keys.text)
}

/** Fetches the rendering of a live release; undefined if none arrives in time. A late one is stored for later reads. */
async function refreshRendering (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration,
  cached: Entry,
  name: Hit['name']
): Promise<Outcome | undefined> {
  // Serves the cached rendering to a client over its limit, not a 429.
  if (context.admit !== undefined && !await context.admit().then(() => true, () => false)) return undefined
  const refresh = context.historyCoalescer.run(
    `refresh ${keys.value}`,
    async () => await loadRefreshed(context, read, keys, chain, name)
  )
  const coalesced = await withTimeout(refreshTimeoutMs, refresh.catch(() => undefined))
  if (coalesced?.result.from === 'redis') return makeHit(context, read, coalesced.result.entry, 'hit_redis')
  const fetched = coalesced?.result.from === 'upstream' ? coalesced.result.fetched : undefined
  if (coalesced !== undefined && fetched?.entry !== undefined) {
    return { name: coalesced.isCollapsed ? 'collapsed' : 'miss', fetched, position: context.tracker.position }
  }
  // Destroys a body that is too large to store or arrives too late, since no client reads it.
  refresh.then(({ result, isCollapsed }) => {
    if (!isCollapsed && result.from === 'upstream') result.fetched.response.rest?.destroy()
  }, () => {})
  context.failedRefreshes.record(cached)
  return undefined
}

// Another replica may have stored the refreshed rendering; an entry just read from Redis needs no second look-up.
async function loadRefreshed (
  context: ProxyContext,
  read: Read,
  keys: ReadKeys,
  chain: ChainGeneration,
  name: Hit['name']
): Promise<HistoryResult> {
  const entry = name === 'hit_redis' ? undefined : await lookUpInRedis(context, read, keys, chain)
  return entry !== undefined && !isRetiredRendering(context, read, entry)
    ? { from: 'redis', entry }
    : await loadFromUpstream(context, read, keys, chain)
}
