import { LRUCache } from 'lru-cache'
import { type StreamEvents } from './page-index.js'
import { type StoredEntry } from './stored-entry.js'

export { type StreamEvents } from './page-index.js'

/**
 * An answer to be shared, the family of blocks that it is filed under if it is one, the events that it has if it is a
 * page, and how long it stays true.
 */
export interface RedisWrite {
  readonly stored: StoredEntry
  readonly blockIndexKey: string | undefined
  readonly page?: StreamEvents | undefined
  /** Where the path leads that it was asked for by, where other replicas are to be told. */
  readonly streamName?: StreamNameWrite | undefined
  /** Undefined: for as long as Redis keeps anything. */
  readonly ttlMs: number | undefined
}

/** A name in the form of an answer, and for how long it is believed. */
export interface StreamNameWrite {
  readonly stored: StoredEntry
  readonly ttlMs: number
}

/** An answer that waits to be shared, and since when. */
export interface QueuedWrite extends RedisWrite {
  readonly queuedAtMs: number
}

/**
 * What is to be forgotten: the keys of entries, where a block is known by a version, and where pages are by what they
 * have any event of.
 */
export interface Invalidation {
  readonly keys: readonly string[]
  readonly blocks: ReadonlyArray<{ readonly blocks: string, readonly version: bigint }>
  readonly pages?: readonly StreamEvents[] | undefined
}

/** The names that an answer is shared under. */
type EntryIdentity = Pick<StoredEntry, 'key' | 'range'> & Pick<RedisWrite, 'blockIndexKey'> & {
  readonly page?: StreamEvents | undefined
}

/** Whether an answer is of those that are to be forgotten. */
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

/** What this process wrote since the others may have heard of a purge. */
export class RecentWrites {
  readonly #identities = new LRUCache<string, EntryIdentity>({ max: 5000, ttl: 2000 })

  add ({ stored: { key, range }, blockIndexKey, page }: RedisWrite): void {
    this.#identities.set(key, { key, range, blockIndexKey, page })
  }

  /** Whether any of it is to be forgotten. */
  hasAnyInvalidated (what: Invalidation): boolean {
    return [...this.#identities.values()].some(names => invalidates(what, names))
  }
}
