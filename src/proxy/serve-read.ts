import { type ResponsePosition } from '../api/position.js'
import { reportsUpstreamFault } from '../api/upstream-response.js'
import { coalescingKeyOf, type Read } from '../api/read.js'
import { type Coalesced, Coalescer, type FetchLease, FreshCoalescer } from '../cache/coalescer.js'
import { type MissCause } from '../cache/removals.js'
import { type Follower } from '../follow/follower.js'
import { withTimeout } from '../with-timeout.js'
import { auditHit, observeLatest } from './audit.js'
import { commitFetched } from './commit.js'
import { learnLastEvent, LastKnownEvents } from './event-history.js'
import { discardBody, fetchJudged, type FetchParts, isLaggingError } from './fetch.js'
import { reachInAll } from './shared-position.js'
import { atFollowedHead, followedHeadFor } from './followed-reads.js'
import { adopt, servableEntry, lookUpTraced, lookUpBelowMemory, lookUpInMemory, lookUpInTiers } from './look-up.js'
import {
  type CachedEntry,
  type FetchOutcome,
  type FetchResult,
  type Hit,
  isShareable,
  type Loaded,
  type Outcome
} from './outcomes.js'
import { noClient, pinTo, pinToCurrentChain, type PinnedRead, type ReadClient } from './pinned-read.js'
import { countPrunedResponse, highestVersionOf, rejectPruned, rejectPrunedPage } from './pruned-reads.js'
import { type MemoParts, type ParsedRequest } from './parsed-request.js'
import { isAboveKnownHead, waitForVersions, type WaitParts } from './wait-for-version.js'
import { type EndpointName } from '../api/endpoints.js'
import { PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { Compressor } from '../cache/compressor.js'
import { type MemoryTier } from '../cache/memory-tier.js'

/** Parts of every step of a read. */
export type ReadParts = FetchParts & MemoParts & WaitParts & {
  readonly movingCoalescer: FreshCoalescer<Loaded>,
  /** Coalesces fetches of all hosts; undefined without a tier that the hosts share. */
  readonly fetchLeases: { take(key: string): Promise<FetchLease | undefined> } | undefined,
  readonly metrics: { missed(endpoint: EndpointName, cause: MissCause): void }
}

/** Makes the state that the steps of a read remember between reads. */
export function readState (memory: MemoryTier) {
  return {
    compressor: new Compressor(memory),
    lastKnownEvents: new LastKnownEvents(),
    historyCoalescer: new Coalescer<Loaded>(isShareable),
    lowerTierCoalescer: new Coalescer<CachedEntry | undefined>(() => true),
    movingCoalescer: new FreshCoalescer<Loaded>(isShareable),
    prunedErrorBuilder: new PrunedErrorBuilder(),
    failedRefreshes: new WeakMap<Buffer, number>()
  }
}

// Limits the wait for a refreshed rendering (law 8: rendering can change, history cannot).
const refreshTimeoutMs = 500

/** Serves a parsed request from memory without awaiting; undefined if the read needs `serveRead`. */
export function serveFromMemory (context: ReadParts, parsed: ParsedRequest): Hit | undefined {
  const { space, known, sharedHeads } = context.tracker
  if (space === undefined || sharedHeads?.has(known?.position.head.version) === false) return undefined
  const pinned = parsed.pinnedTo(space)
  const cached = lookUpInMemory(context, pinned)
  return cached === undefined || cached.isRetired ? undefined : serveHit(context, pinned, cached)
}

/**
 * Serves a read:
 * 1. Pin the space, which every key names (law 7: chains never mix). Note its version for the forecast of pruning.
 * 2. Wait, within a limit, for a version above the known head, after charging the client; then pin again. A latest read
 *    waits for the followed head (`bringUp`).
 * 3. Look up in memory, then in lower tiers; latest reads at the followed head, other moving reads in the micro-cache
 *    (law 5: a latest read is never older than its request). Refresh a retired rendering (law 8: rendering can change,
 *    history cannot).
 * 4. Respond 410 for history that every upstream has pruned (law 11: "gone" and "not there" are facts, not guesses).
 * 5. Charge the client, unless step 2 or 3 did, because from here on the read costs an upstream request.
 * 6. Coalesce equal reads into one fetch, judge its response, and store it (law 3: only proven history is stored).
 * 7. Return the outcome with the position to stamp on it (law 4: headers are the present, bodies are the past).
 *
 * If processes share one head, they must agree before step 1, and have the position of the response after step 7.
 */
export async function serveRead (context: ReadParts, read: Read, client: ReadClient = noClient): Promise<Outcome> {
  // Waits first, so that nothing is fetched for a read that gets a 503 anyway.
  const { sharedHeads } = context.tracker
  if (sharedHeads !== undefined) await sharedHeads.reach(undefined)
  if (read.requestedVersion !== undefined) {
    context.lowestRequested.record(read.requestedVersion, context.tracker.position)
  }
  const arrivedAtMs = context.now()
  const { space } = context.tracker
  let pinned = space === undefined
    ? await pinToCurrentChain(context, read, client, arrivedAtMs)
    : pinTo(space, read, client, arrivedAtMs)
  if (isAboveKnownHead(context, read)) {
    await client.admit?.()
    await waitForVersions(context, read, client)
    // Pins again, because the chain may have been reset during the wait.
    pinned = await pinToCurrentChain(context, read, client, arrivedAtMs)
  }
  if (pinned.acceptsFollowedHead) await context.follower?.bringUp(arrivedAtMs)
  let outcome = await serve(context, pinned)
  // Repeats after a reset during look-up or refresh, which makes a cached entry void (law 7: chains never mix).
  while (outcome === undefined) outcome = await serve(context, await pinToCurrentChain(context, read, client))
  if (outcome.name !== 'hit') {
    countPrunedResponse(context, read, outcome.fetched)
    rejectPrunedPage(context, outcome.fetched)
    if (outcome.name !== 'collapsed') context.metrics.missed(read.endpoint.name, missCauseOf(context, pinned, outcome))
  }
  return sharedHeads === undefined ? outcome : await reachInAll(context, sharedHeads, read, outcome)
}

/** Returns why a read was no hit; an unfinished page or transaction is as moving as a latest read. */
function missCauseOf (
  { memory: { removals } }: ReadParts,
  { read, keys }: PinnedRead,
  { name, followedAt, fetched: { entry } }: FetchOutcome
): MissCause {
  return name === 'forwarded' || followedAt !== undefined || (read.mayBeMoving && entry === undefined)
    ? 'moving'
    : removals.causeOf(entry?.key ?? keys.value)
}

/** Serves a read on one chain; undefined if the chain was reset meanwhile, and nothing fetched can be served. */
async function serve (context: ReadParts, pinned: PinnedRead): Promise<Outcome | undefined> {
  const { read, readClass, client, acceptsFollowedHead } = pinned
  const { follower } = context
  const cached = lookUpTraced(context, pinned) ??
    (readClass === 'moving' || context.lowerTiers.length === 0 ? undefined : await lookUpBelowMemory(context, pinned))
  if (cached !== undefined) return await serveCached(context, pinned, cached)
  rejectPruned(context, read)
  // Charges before joining a fetch, so that a rejection fails no other client.
  if (client.admit !== undefined) await client.admit()
  if (readClass !== 'moving') return await serveHistory(context, pinned)
  return follower !== undefined && acceptsFollowedHead
    ? await serveAtFollowedHead(context, follower, pinned)
    : await serveMoving(context, pinned)
}

/** Reads at the followed head, so that the response is stored there; without one, at whatever head an upstream has. */
async function serveAtFollowedHead (
  context: ReadParts,
  follower: Follower,
  pinned: PinnedRead
): Promise<Outcome | undefined> {
  const followed = followedHeadFor(context, follower, pinned)
  if (followed === undefined) return await serveMoving(context, pinned)
  try {
    const outcome = await serveHistory(context, atFollowedHead(pinned, followed))
    const isCurrent = context.tracker.isCurrent(pinned.space)
    if (isCurrent && (outcome.name === 'hit' || !reportsUpstreamFault(outcome.fetched.response))) return outcome
    if (outcome.name !== 'hit') discardBody(outcome.fetched)
    // Drops the response after a reset, which voids the followed head: the response may be of the new chain.
    return isCurrent ? await serveMoving(context, pinned) : undefined
  } catch (error) {
    if (!context.tracker.isCurrent(pinned.space)) return undefined
    // Reads at any head: the upstream whose tail was read may have failed, and the others lag behind that head.
    if (isLaggingError(error)) return await serveMoving(context, pinned)
    throw error
  }
}

/** Serves a cached entry, or its refreshed rendering if that arrives in time. */
async function serveCached (
  context: ReadParts,
  pinned: PinnedRead,
  cached: CachedEntry
): Promise<Outcome | undefined> {
  if (!cached.isRetired) return serveHit(context, pinned, cached)
  const refreshed = await refreshRendering(context, pinned, cached)
  if (!context.tracker.isCurrent(pinned.space)) return undefined
  if (refreshed !== undefined) {
    if (refreshed.name === 'miss') context.memory.removals.record(cached.entry.key, 'expired')
    return refreshed
  }
  // Checks again, because upstreams may have pruned the entry's version during the refresh.
  const present = servableEntry(context, pinned, cached.tier, cached.entry)
  return present === undefined ? await serve(context, pinned) : serveHit(context, pinned, present)
}

function serveHit (context: ReadParts, pinned: PinnedRead, cached: CachedEntry): Hit {
  const { read } = pinned
  const { tier, entry, kind, prunedVersions, hasWaited } = cached
  const followedAt = cached.followedAt ?? pinned.followedAt?.position
  if (followedAt !== undefined) {
    context.follower?.recordSaved()
    auditHit(context, read, entry, followedAt)
    return { name: 'hit', tier, entry, kind: 'followed', position: followedAt, followedAt }
  }
  auditHit(context, read, entry)
  if (prunedVersions !== undefined) context.metrics.pruned(read.endpoint.name, 'cache', prunedVersions)
  // Stamps latest state with the position at which it was read, other responses with the served position.
  const position = kind === 'moving' && read.endpoint.keyedBy === 'version' ? entry.readAt : context.tracker.position
  return { name: 'hit', tier, entry, kind, position, hasWaited: hasWaited === true }
}

/** Loads history once for all equal reads, on other hosts too. */
async function serveHistory (context: ReadParts, pinned: PinnedRead): Promise<Outcome> {
  const { read, keys } = pinned
  const key = coalescingKeyOf(read, keys.value)
  let coalesced = await traceWait(
    pinned,
    () => context.historyCoalescer.run(key, () => loadHistory(context, pinned, key))
  )
  if (coalesced.isCollapsed && !canShare(pinned, coalesced.result)) {
    // Fetches again what may predate a request that joined late: a partial page or pending transaction (law 5: a latest
    // read is never older than its request).
    if (read.mayBeMoving) return await serveMoving(context, pinned)
    coalesced = await context.historyCoalescer.run(keys.text, () => load(context, pinned))
  }
  return outcomeOf(context, pinned, coalesced)
}

/**
 * Loads once for all equal reads that arrived before the load began (law 5: a latest read is never older than its
 * request).
 */
async function serveMoving (context: ReadParts, pinned: PinnedRead): Promise<Outcome> {
  const key = coalescingKeyOf(pinned.read, pinned.keys.text)
  const loadOnce = (): Promise<Coalesced<Loaded>> => context.movingCoalescer.run(key, () => load(context, pinned))
  let { result, isCollapsed } = await traceWait(pinned, loadOnce)
  if (isCollapsed && !isCachedEntry(result) && reportsUpstreamFault(result.response)) {
    result = (await loadOnce()).result
  }
  if (isCachedEntry(result)) return serveHit(context, pinned, result)
  const stamped = stampOfLatest(pinned.read, result)
  if (stamped !== undefined) context.tracker.show(stamped)
  else if (context.tracker.position === undefined) {
    pinned.client.bytes?.holdWaiting(result.response.body)
    await context.resolveChain()
  }
  return { name: 'forwarded', fetched: result, position: stamped?.position ?? context.tracker.position }
}

/** Records the wait of a traced read for the fetch of another; a read that fetched itself has spans of attempts. */
function traceWait<T> ({ client: { span } }: PinnedRead, run: () => Promise<Coalesced<T>>): Promise<Coalesced<T>> {
  if (span === undefined) return run()
  const wait = span.child('wait for a coalesced fetch')
  return run().then(coalesced => {
    if (coalesced.isCollapsed) wait.end()
    return coalesced
  })
}

/** Takes what another request has stored meanwhile, else fetches. */
function load (context: ReadParts, pinned: PinnedRead): Promise<Loaded> {
  const cached = lookUpInMemory(context, pinned)
  return cached?.isRetired === false
    ? Promise.resolve({ ...cached, textKey: pinned.keys.text })
    : fetchAndCommit(context, pinned)
}

/** Loads history, once for all hosts if sharing may help. */
function loadHistory (context: ReadParts, pinned: PinnedRead, key: string): Promise<Loaded> {
  const { fetchLeases, upstreamPool } = context
  // Loads a latest read alone, because it may be newer than another host's fetch (law 5: a latest read is never older
  // than its request).
  const isForAll = !pinned.read.mayBeMoving && pinned.followedAt === undefined
  return fetchLeases === undefined || !isForAll || upstreamPool.isNear
    ? load(context, pinned)
    : loadForAll(context, pinned, fetchLeases, key)
}

/**
 * Fetches on one of the hosts that load a read at the same time; the others take the entry that this host has stored.
 */
async function loadForAll (
  context: ReadParts,
  pinned: PinnedRead,
  leases: NonNullable<ReadParts['fetchLeases']>,
  key: string
): Promise<Loaded> {
  const span = pinned.client.span?.child('wait for a lease')
  const sinceCount = context.invalidator.count
  const lease = await leases.take(key)
  span?.end()
  if (lease === undefined) return await load(context, pinned)
  try {
    const found = lookUpInMemory(context, pinned) ??
      (lease.found === undefined ? undefined : adopt(context, 'memory', pinned, lease.found, sinceCount)) ??
      (lease.hasWaited ? await lookUpInTiers(context, pinned) : undefined)
    if (found?.isRetired !== false) return await fetchAndCommit(context, pinned, lease)
    lease.end(true, { wasFound: true })
    return { ...found, hasWaited: lease.hasWaited, textKey: pinned.keys.text }
  } catch (error) {
    lease.end(false)
    throw error
  }
}

/** Fetches from an upstream, judges the response, learns from it, and stores what may be stored. */
async function fetchAndCommit (
  context: ReadParts,
  pinned: PinnedRead,
  lease?: FetchLease
): Promise<FetchResult> {
  const start = { atMs: context.now(), invalidationCount: context.invalidator.count, lease }
  const judged = await fetchJudged(context, pinned)
  learnLastEvent(context, pinned, judged.response)
  if (context.follower?.isServing === false) observeLatest(context, context.follower, pinned, judged.response)
  return commitFetched(context, pinned, judged, start)
}

/**
 * Returns true if coalesced reads may share what one of them loaded. Upstream faults and latest responses are not
 * shared; a not-found is shared only by equal texts, which it quotes.
 */
function canShare ({ read, keys }: PinnedRead, loaded: Loaded): boolean {
  if (read.mayBeMoving) return loaded.entry !== undefined
  const { status } = loaded.entry ?? loaded.response
  if (status === 200) return true
  return loaded.textKey === keys.text && (isCachedEntry(loaded) || !reportsUpstreamFault(loaded.response))
}

function outcomeOf (
  context: ReadParts,
  pinned: PinnedRead,
  { result, isCollapsed }: Coalesced<Loaded>
): Hit | FetchOutcome {
  if (isCachedEntry(result)) return serveHit(context, pinned, result)
  const name = isCollapsed ? 'collapsed' : 'miss'
  const followedAt = pinned.followedAt?.position
  if (followedAt !== undefined) {
    if (isCollapsed) context.follower?.recordSaved()
    return { name, fetched: result, position: followedAt, followedAt }
  }
  showIfAboveHead(context, pinned.read, result)
  const stamped = pinned.read.mayBeMoving ? stampOfLatest(pinned.read, result) : undefined
  return { name, fetched: result, position: stamped?.position ?? context.tracker.position }
}

/**
 * Returns the position that came with a response to a read that may be moving. Undefined for a full page and a 410,
 * which are history and carry the served position, because an upstream with old versions may lag (law 4: headers are
 * the present, bodies are the past).
 */
function stampOfLatest ({ mayBeMoving }: Read, { entry, response }: FetchResult): ResponsePosition | undefined {
  return (mayBeMoving && entry !== undefined) || response.status === 410 ? undefined : response.stamped
}

/** Raises the served head to the position of a response about a version above it. */
function showIfAboveHead (context: ReadParts, read: Read, { entry, response }: FetchResult): void {
  const version = highestVersionOf(read, entry)
  const served = context.tracker.position?.head.version
  const isAbove = version === undefined || served === undefined || version > served
  if (isAbove && response.stamped !== undefined) context.tracker.show(response.stamped)
}

/** Loads the rendering of a live release; undefined if none arrives in time. A late one is stored for later reads. */
async function refreshRendering (
  context: ReadParts,
  pinned: PinnedRead,
  cached: CachedEntry
): Promise<Hit | FetchOutcome | undefined> {
  const { admit } = pinned.client
  // Serves the cached rendering, not a 429, to a client over its limit.
  if (admit !== undefined && !await admit().then(() => true, () => false)) return undefined
  const loading = loadRefreshed(context, pinned, cached).catch(() => undefined)
  const refreshed = await withTimeout(refreshTimeoutMs, loading)
  if (refreshed !== undefined && (refreshed.name === 'hit' || refreshed.fetched.entry !== undefined)) return refreshed
  // Destroys a body that is too large to store or arrives too late, since no client reads it.
  loading.then(late => {
    if (late?.name === 'miss') late.fetched.response.rest?.destroy()
  }, () => {})
  context.failedRefreshes.set(cached.entry.body, context.now())
  return undefined
}

/** Loads a refreshed rendering: another replica may have stored it, unless a lower tier has the retired one. */
async function loadRefreshed (
  context: ReadParts,
  pinned: PinnedRead,
  cached: CachedEntry
): Promise<Hit | FetchOutcome> {
  const found = cached.tier === 'memory' ? await lookUpBelowMemory(context, pinned) : undefined
  if (found?.isRetired === false) return serveHit(context, pinned, found)
  const key = `refresh ${pinned.keys.value}`
  return outcomeOf(context, pinned, await context.historyCoalescer.run(key, () => load(context, pinned)))
}

function isCachedEntry (loaded: Loaded): loaded is CachedEntry & Loaded {
  return 'tier' in loaded
}
