import { type Entry, type EntryParts } from '../cache/entry.js'
import { neverStoredReason } from '../api/store-verdict.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { microCacheKeyOf, type Read } from '../api/read.js'
import { type PinnedRead, type PinParts } from './pinned-read.js'
import { type Config } from '../config/schema.js'
import { type MemoryTier } from '../cache/memory-tier.js'

/** Parts of the micro-cache. */
export interface MicroCacheParts extends Pick<PinParts, 'tracker'> {
  readonly memory: MemoryTier
  readonly settings: Pick<Config, 'latest'>
}

/** Returns the maximum age of a micro-cached response; 0 disables the micro-cache. */
export function microCacheMs (
  { stateMs, indexMs, infoMs, gasMs }: Omit<Config['latest'], 'promote'>,
  { endpoint }: Read
): number {
  if (endpoint.keyedBy === 'version') return stateMs
  // Caches no newest events, end of a stream or pending transaction: their clients need the present one.
  if (endpoint.keyedBy !== 'moving') return 0
  return endpoint.name === 'index' ? indexMs : endpoint.name === 'info' ? infoMs : gasMs
}

/** Returns the micro-cached response, unless it is below the client's minimum version. */
export function readMicroCache (context: MicroCacheParts, { read, keys }: PinnedRead): Entry | undefined {
  const entry = microCacheMs(context.settings.latest, read) === 0
    ? undefined
    : context.memory.getByKey(microCacheKeyOf(keys))
  if (entry === undefined) return undefined
  const readAt = entry.readAt?.head.version
  if (read.minVersion !== undefined && (readAt === undefined || readAt < read.minVersion)) return undefined
  // Rejects an index behind the served head, because its body is the position (law 4: headers are the present, bodies
  // are the past).
  const served = context.tracker.position?.head.version
  return read.endpoint.name === 'index' && (readAt === undefined || served === undefined || readAt < served)
    ? undefined
    : entry
}

/**
 * Returns key, expiry and position of a latest response in the micro-cache; undefined if it may not be stored there.
 * Its age counts from the request (law 5: a latest read is never older than its request).
 */
export function microCachePartsOf (
  context: MicroCacheParts,
  pinned: PinnedRead,
  response: UpstreamResponse,
  requestedAtMs: number
): Pick<EntryParts, 'key' | 'expiresAtMs' | 'readAt'> | undefined {
  const { read, keys } = pinned
  const ttlMs = microCacheMs(context.settings.latest, read)
  if (ttlMs === 0 || neverStoredReason(read, response) !== undefined) return undefined
  const readAt = response.stamped?.position
  // Stores no state without a position, whose age is unknown, and no not-found except of state.
  if (read.endpoint.keyedBy === 'version' ? readAt === undefined : response.status !== 200) return undefined
  return { key: microCacheKeyOf(keys), expiresAtMs: requestedAtMs + ttlMs, readAt }
}
