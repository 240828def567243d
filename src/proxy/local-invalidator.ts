import { type Entry } from '../cache/entry.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type OwnTier } from '../cache/tier.js'
import { type StreamsByHandle } from './events/streams-by-handle.js'
import { invalidates, type Invalidation } from '../cache/invalidation.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { type Accept } from '../api/accept.js'
import {
  isOfBlock,
  keysOf,
  microCacheKeyOf,
  pageIntervalOf,
  stateFamilyOf,
  streamIndexKeyOf,
  type Read,
  type EntryInterval
} from '../api/read.js'

const formats: readonly Accept[] = ['json', 'bcs']
// Bounds memory (law 10: nothing grows without bound); a fetch with more purges since its start counts as purged.
const maxRecentInvalidations = 256

/** Names under which a read was requested: its key, and its events by its own path. */
export interface ReadNames {
  readonly key: string
  readonly events: EntryInterval | undefined
}

/** Invalidates entries in the tiers of this process, and entries of fetches that a purge overtakes. */
export class LocalInvalidator {
  readonly #memory: MemoryTier
  readonly #tiers: readonly OwnTier[]
  readonly #streamsByHandle: StreamsByHandle
  #count = 0
  // Newest last; undefined is a purge of everything.
  readonly #recent: Array<Invalidation | undefined> = []

  /** Takes the tiers that no other replica shares; memory is one of them. */
  constructor (memory: MemoryTier, streamsByHandle: StreamsByHandle, tiersBelow: readonly OwnTier[] = []) {
    this.#memory = memory
    this.#tiers = [memory, ...tiersBelow]
    this.#streamsByHandle = streamsByHandle
  }

  /** Number of purges so far; a fetch compares it with the number at its start, so purged data is not stored again. */
  get count (): number {
    return this.#count
  }

  /** Returns true if a purge since `sinceCount` covers an entry, or what its read requested. */
  hasInvalidated (entry: Entry, sinceCount: number, requested?: ReadNames): boolean {
    const invalidationsSince = this.#count - sinceCount
    if (invalidationsSince > this.#recent.length) return true
    const isInvalidated = (what: Invalidation): boolean =>
      invalidates(what, entry) ||
      (requested !== undefined && invalidates(what, { key: requested.key, validity: requested.events }))
    return invalidationsSince > 0 &&
      this.#recent.slice(-invalidationsSince).some(what => what === undefined || isInvalidated(what))
  }

  /**
   * Returns a function that builds the invalidation of a read for any chain. Resolves the stream of the path first,
   * because the invalidation removes its name.
   */
  invalidationOf (read: Read, chain: ChainGeneration): (on: ChainGeneration) => Invalidation {
    const stream = this.#streamsByHandle.lastKnown(streamIndexKeyOf(chain, read.path))?.slice(
      streamIndexKeyOf(chain, '').length
    )
    return on => invalidationOfRead(read, on, stream)
  }

  /** Hides entries at once; resolves when no later process finds them in these tiers, with true if one had any. */
  async invalidate (invalidation: Invalidation): Promise<boolean> {
    const { keys, intervals } = invalidation
    // This process may know the stream of a path that the sender of the purge did not know.
    const inStreams = intervals.flatMap(interval => {
      const family = this.#streamsByHandle.lastKnown(interval.family)
      return family === undefined ? [] : { ...interval, family }
    })
    const all = { keys, intervals: [...intervals, ...inStreams] }
    this.#record(all)
    const invalidated = this.#tiers.map(async tier => await tier.invalidate(all))
    for (const key of keys) this.#streamsByHandle.remove(key)
    return (await Promise.all(invalidated)).includes(true)
  }

  /** Hides everything at once; resolves when no later process finds any of it. */
  async invalidateAll (): Promise<void> {
    this.#record(undefined)
    await Promise.all(this.#tiers.map(async tier => {
      await tier.clear()
    }))
  }

  /** Empties memory, as keys name another generation; lower tiers may still have entries of that one. */
  changeGeneration (): void {
    this.#record(undefined)
    this.#memory.clear()
  }

  #record (invalidation: Invalidation | undefined): void {
    this.#count++
    this.#recent.push(invalidation)
    if (this.#recent.length > maxRecentInvalidations) this.#recent.shift()
  }
}

/**
 * Lists all that may be stored for a read: both media types, blocks with and without transactions, overlapping event
 * pages, and stream names. `stream` is the stream of an event path, if known.
 */
export function invalidationOfRead (read: Read, chain: ChainGeneration, stream?: string): Invalidation {
  const flags = read.endpoint.offByDefault.map(flag => [flag, 'true'] as const)
  const queries = isOfBlock(read) ? [[], flags] : [read.query]
  const all = formats.flatMap(accept => queries.map(query => keysOf({ ...read, accept, query }, chain)))
  // One interval of state may cover many versions, so every version of the read goes.
  const families = formats.map(accept => stateFamilyOf({ ...read, accept }, chain)).filter(key => key !== undefined)
  const { page, requestedVersion: version } = read
  const paths = page === undefined || page.limit === 0n
    ? []
    : [...new Set([read.path, stream ?? read.path])].map(path => streamIndexKeyOf(chain, path))
  return {
    keys: [...new Set([...all.flatMap(keys => [keys.value, keys.text, microCacheKeyOf(keys)]), ...paths, ...families])],
    intervals: [
      ...all.flatMap(({ intervalFamily: family }): EntryInterval[] =>
        family === undefined || version === undefined
          ? []
          : [{ kind: 'versions', family, first: version, last: version }]
      ),
      ...(page === undefined ? [] : paths.map(path => pageIntervalOf(path, page)))
    ]
  }
}
