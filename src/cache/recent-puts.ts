import { LRUCache } from 'lru-cache'
import { type EntryIdentity, type Invalidation, invalidates } from './invalidation.js'

/** Writes of the last 2 s, any of which may have followed another replica's delete. */
export class RecentPuts {
  readonly #identities = new LRUCache<string, EntryIdentity>({ max: 5000, ttl: 2000 })

  add ({ key, validity }: EntryIdentity): void {
    this.#identities.set(key, { key, validity })
  }

  /** Returns true if an invalidation covers any recent write. */
  hasAnyInvalidated (what: Invalidation): boolean {
    return [...this.#identities.values()].some(identity => invalidates(what, identity))
  }
}
