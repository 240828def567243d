import { type Entry } from '../cache/entry.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type StreamNames } from './events/stream-names.js'
import { type StreamEvents } from '../cache/page-index.js'
import { invalidates, type Invalidation } from '../cache/invalidation.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { type Accept } from '../api/accept.js'
import { eventRangeOf, isOfBlock, keysOf, microCacheKeyOf, streamIndexKeyOf, type Read } from '../api/read.js'

const formats: readonly Accept[] = ['json', 'bcs']
// Bounds memory (law 10: nothing grows without bound); a fetch with more purges since its start counts as purged.
const maxRecentInvalidations = 256

/** Invalidates entries in this process, and entries of fetches that a purge overtakes. */
export class LocalInvalidator {
  readonly #memory: MemoryTier
  readonly #streamNames: StreamNames
  #count = 0
  // Newest last; undefined is a purge of everything.
  readonly #recent: Array<Invalidation | undefined> = []

  constructor (memory: MemoryTier, streamNames: StreamNames) {
    this.#memory = memory
    this.#streamNames = streamNames
  }

  /** Number of purges so far; a fetch compares it with the number at its start, so purged data is not stored again. */
  get count (): number {
    return this.#count
  }

  /** Returns true if a purge since `sinceCount` covers an entry, or the events that its read requested. */
  hasInvalidated ({ key, block, page }: Entry, sinceCount: number, requestedEvents?: StreamEvents): boolean {
    const invalidationsSince = this.#count - sinceCount
    if (invalidationsSince > this.#recent.length) return true
    const names = { key, range: block, blockIndexKey: block?.blockIndexKey }
    const isInvalidated = (what: Invalidation): boolean =>
      invalidates(what, { ...names, page }) ||
      (requestedEvents !== undefined && invalidates(what, { ...names, page: requestedEvents }))
    return invalidationsSince > 0 &&
      this.#recent.slice(-invalidationsSince).some(what => what === undefined || isInvalidated(what))
  }

  /**
   * Returns a function that builds the invalidation of a read for any chain. Resolves the stream of the path first,
   * because the invalidation removes its name.
   */
  invalidationOf (read: Read, chain: ChainGeneration): (on: ChainGeneration) => Invalidation {
    const stream = this.#streamNames.lastKnown(streamIndexKeyOf(chain, read.path))?.slice(
      streamIndexKeyOf(chain, '').length
    )
    return on => invalidationOf(read, on, stream)
  }

  invalidate (invalidation: Invalidation): void {
    const { keys, blocks, pages = [] } = invalidation
    // This process may know the stream of a path that the sender of the purge did not know.
    const all = [
      ...pages,
      ...pages.flatMap(page => ({ ...page, stream: this.#streamNames.lastKnown(page.stream) ?? page.stream }))
    ]
    this.#record({ keys, blocks, pages: all })
    for (const key of keys) {
      this.#memory.delete(key)
      this.#streamNames.remove(key)
    }
    for (const { blocks: family, version } of blocks) this.#memory.deleteBlock(family, version)
    for (const events of all) this.#memory.deletePages(events)
  }

  /** Deletes an entry that was stored despite a purge since `sinceCount`; returns true if it did. */
  removeIfInvalidated (entry: Entry | undefined, sinceCount: number, requestedEvents?: StreamEvents): boolean {
    if (entry === undefined || !this.hasInvalidated(entry, sinceCount, requestedEvents)) return false
    this.#memory.delete(entry.key)
    return true
  }

  invalidateAll (): void {
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
export function invalidationOf (read: Read, chain: ChainGeneration, stream?: string): Invalidation {
  const flags = read.endpoint.offByDefault.map(flag => [flag, 'true'] as const)
  const queries = isOfBlock(read) ? [[], flags] : [read.query]
  const all = formats.flatMap(accept => queries.map(query => keysOf({ ...read, accept, query }, chain)))
  const { page } = read
  const paths = page === undefined || page.limit === 0n
    ? []
    : [...new Set([read.path, stream ?? read.path])].map(path => streamIndexKeyOf(chain, path))
  return {
    keys: [...new Set([...all.flatMap(keys => [keys.value, keys.text, microCacheKeyOf(keys)]), ...paths])],
    ...(page !== undefined && paths.length > 0 &&
      { pages: paths.map(path => ({ stream: path, ...eventRangeOf(page) })) }),
    blocks: all.flatMap(({ blockIndexKey }) =>
      blockIndexKey === undefined || read.requestedVersion === undefined
        ? []
        : [{ blocks: blockIndexKey, version: read.requestedVersion }]
    )
  }
}
