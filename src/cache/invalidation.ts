import { LRUCache } from 'lru-cache'
import { type EntryInterval } from '../api/read.js'
import { type Entry } from './entry.js'

/** Entries to invalidate: by key or family, and by any version or event inside their intervals. */
export interface Invalidation {
  readonly keys: readonly string[]
  readonly intervals: readonly EntryInterval[]
}

/** Key and interval of an entry, by which an invalidation covers it. */
type EntryIdentity = Pick<Entry, 'key' | 'validity'>

/** Returns true if an invalidation covers an entry. */
export function invalidates ({ keys, intervals }: Invalidation, { key, validity }: EntryIdentity): boolean {
  if (keys.includes(key)) return true
  return validity !== undefined && (
    (validity.kind === 'versions' && keys.includes(validity.family)) ||
    intervals.some(other => doOverlap(other, validity))
  )
}

function doOverlap (one: EntryInterval, other: EntryInterval): boolean {
  return one.family === other.family && one.first <= other.last && other.first <= one.last
}

/** Writes of the last 2 s, any of which may have followed another replica's delete. */
export class RecentWrites {
  readonly #identities = new LRUCache<string, EntryIdentity>({ max: 5000, ttl: 2000 })

  add ({ key, validity }: EntryIdentity): void {
    this.#identities.set(key, { key, validity })
  }

  /** Returns true if an invalidation covers any recent write. */
  hasAnyInvalidated (what: Invalidation): boolean {
    return [...this.#identities.values()].some(identity => invalidates(what, identity))
  }
}
