import { LRUCache } from 'lru-cache'
import { type StreamEvents } from './page-index.js'
import { type StoredEntry } from './stored-entry.js'

export { type StreamEvents } from './page-index.js'

/** Entry to write to Redis, with its index records and its lifetime. */
export interface RedisWrite {
  readonly stored: StoredEntry
  readonly blockIndexKey: string | undefined
  readonly page?: StreamEvents | undefined
  /** Stream that the requested path resolves to, so that other replicas resolve it too; undefined if not shared. */
  readonly streamName?: StreamNameWrite | undefined
  /** Undefined means the maximum lifetime of the Redis tier. */
  readonly ttlMs: number | undefined
}

/** Stream name in the form of an entry, with its lifetime. */
export interface StreamNameWrite {
  readonly stored: StoredEntry
  readonly ttlMs: number
}

/** Write in the queue, with the time at which waiting began. */
export interface QueuedWrite extends RedisWrite {
  readonly queuedAtMs: number
}

/** Entries to invalidate: by key, blocks by any version inside, pages by any event inside. */
export interface Invalidation {
  readonly keys: readonly string[]
  readonly blocks: ReadonlyArray<{ readonly blocks: string, readonly version: bigint }>
  readonly pages?: readonly StreamEvents[] | undefined
}

/** Key and index records that identify an entry in Redis. */
type EntryIdentity = Pick<StoredEntry, 'key' | 'range'> & Pick<RedisWrite, 'blockIndexKey'> & {
  readonly page?: StreamEvents | undefined
}

/** Returns true if an invalidation covers an entry. */
export function invalidates (
  { keys, blocks, pages = [] }: Invalidation,
  { key, range, blockIndexKey: family, page }: EntryIdentity
): boolean {
  return keys.includes(key) || (page !== undefined && pages.some(purged => doOverlap(purged, page))) ||
    blocks.some(block =>
      block.blocks === family && range !== undefined && range.first <= block.version && block.version <= range.last
    )
}

function doOverlap (one: StreamEvents, other: StreamEvents): boolean {
  return one.stream === other.stream && one.first <= other.last && other.first <= one.last
}

/** Writes of the last 2 s, any of which may have followed another replica's delete. */
export class RecentWrites {
  readonly #identities = new LRUCache<string, EntryIdentity>({ max: 5000, ttl: 2000 })

  add ({ stored: { key, range }, blockIndexKey, page }: RedisWrite): void {
    this.#identities.set(key, { key, range, blockIndexKey, page })
  }

  /** Returns true if an invalidation covers any recent write. */
  hasAnyInvalidated (what: Invalidation): boolean {
    return [...this.#identities.values()].some(names => invalidates(what, names))
  }
}
