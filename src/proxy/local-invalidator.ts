import { type Entry } from '../cache/entry.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type OwnStore, type StoreSpace } from '../cache/tier.js'
import { invalidates, type Invalidation } from '../cache/invalidation.js'
import { type Space } from '../chain/space.js'
import { type Accept } from '../api/accept.js'
import { isOfBlock, keysOf, microCacheKeyOf, stateFamilyOf, type Read, type EntryInterval } from '../api/read.js'

const formats: readonly Accept[] = ['json', 'bcs']
// Bounds remembered purges (law 10: nothing grows without bound); a fetch with more purges since its start counts as
// purged.
const maxRecentInvalidations = 256

/** Invalidates entries in the tiers of this process, and entries of fetches that a purge overtakes. */
export class LocalInvalidator {
  readonly #memory: MemoryTier
  readonly #tiers: readonly OwnStore[]
  #count = 0
  #space: string | undefined
  // Purges, the newest last; undefined stands for a purge of everything.
  readonly #recent: Array<Invalidation | undefined> = []

  /** Takes the tiers that no other replica shares; memory is one of them. */
  constructor (memory: MemoryTier, tiersBelow: readonly OwnStore[] = []) {
    this.#memory = memory
    this.#tiers = [memory, ...tiersBelow]
  }

  /** Number of purges so far; a fetch compares it with the number at its start, so purged data is not stored again. */
  get count (): number {
    return this.#count
  }

  /** Returns true if a purge since `sinceCount` covers an entry, or the key of the read that requested it. */
  hasInvalidated (entry: Entry, sinceCount: number, requestedKey = entry.key): boolean {
    const invalidationsSince = this.#count - sinceCount
    if (invalidationsSince > this.#recent.length) return true
    return invalidationsSince > 0 &&
      this.#recent.slice(-invalidationsSince).some(what =>
        what === undefined || invalidates(what, entry) || invalidates(what, { key: requestedKey, validity: undefined })
      )
  }

  /**
   * Hides entries at once; resolves once no later process finds them in these tiers. Resolves with true if any entry
   * was there.
   */
  async invalidate (space: StoreSpace, invalidation: Invalidation, id?: string): Promise<boolean> {
    this.#record(invalidation)
    const invalidated = this.#tiers.map(async tier => await tier.drop(space, invalidation, id))
    return (await Promise.all(invalidated)).includes(true)
  }

  /** Drops entries from memory alone, after another process has purged the shared tiers; true if there was any. */
  invalidateMemory (space: StoreSpace, invalidation: Invalidation): boolean {
    this.#record(invalidation)
    return this.#memory.drop(space, invalidation)
  }

  /** Hides everything at once; resolves when no later process finds any of it. */
  async invalidateAll (space: StoreSpace, id?: string): Promise<void> {
    this.#record(undefined)
    await Promise.all(this.#tiers.map(async tier => await tier.clear(space, id)))
  }

  /** Empties memory, because keys name another space: one that replaces ours after a purge, or one of another chain. */
  changeSpace ({ name, replaces }: Pick<Space, 'name' | 'replaces'>): void {
    this.#record(undefined)
    this.#memory.empty(this.#space === undefined || replaces.includes(this.#space) ? 'purged' : 'reset')
    this.#space = name
  }

  #record (invalidation: Invalidation | undefined): void {
    this.#count++
    this.#recent.push(invalidation)
    if (this.#recent.length > maxRecentInvalidations) this.#recent.shift()
  }
}

/** Lists all that may be stored for a read: both media types, blocks with and without transactions. */
export function invalidationOfRead (read: Read, space: Space): Invalidation {
  const flags = read.endpoint.offByDefault.map(flag => [flag, 'true'] as const)
  const queries = isOfBlock(read) ? [[], flags] : [read.query]
  const all = formats.flatMap(accept => queries.map(query => keysOf({ ...read, accept, query }, space)))
  // Covers every version of the read, because one interval of state may span many.
  const families = formats.map(accept => stateFamilyOf({ ...read, accept }, space)).filter(key => key !== undefined)
  const version = read.requestedVersion
  return {
    keys: [...new Set([...all.flatMap(keys => [keys.value, keys.text, microCacheKeyOf(keys)]), ...families])],
    intervals: all.flatMap(({ intervalFamily: family }): EntryInterval[] =>
      family === undefined || version === undefined ? [] : [{ family, first: version, last: version }]
    )
  }
}
