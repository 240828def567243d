import { type Entry } from '../cache/entry.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type StreamNames } from './events/stream-names.js'
import { type StreamEvents } from '../cache/page-index.js'
import { invalidates, type Invalidation } from '../cache/invalidation.js'
import { type Chain } from '../chain/tracker.js'
import { type Accept } from '../api/accept.js'
import { eventRangeOf, isOfBlock, keysOf, microCacheKeyOf, streamIndexKeyOf, type Read } from '../api/read.js'

const formats: readonly Accept[] = ['json', 'bcs']
// A fetch under way looks back no further; beyond that it is taken to be meant.
const maxRecentInvalidations = 256

/** Forgets what was purged, here and now. */
export class Invalidator {
  readonly #memory: MemoryTier
  readonly #streamNames: StreamNames
  #count = 0
  // The newest last; undefined for everything.
  readonly #recent: Array<Invalidation | undefined> = []

  constructor (memory: MemoryTier, streamNames: StreamNames) {
    this.#memory = memory
    this.#streamNames = streamNames
  }

  /** How many times anything was purged: what was found before it was purged must not be kept after that. */
  get count (): number {
    return this.#count
  }

  /**
   * Whether an entry was meant by anything that was purged since so many times; a page also by the path that it was
   * asked for by.
   */
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
   * Everything that is kept of a read, on whatever chain: to which stream its path leads is known now, and nobody may
   * know it any more once this is forgotten.
   */
  invalidationOf (read: Read, chain: Chain): (on: Chain) => Invalidation {
    const stream = this.#streamNames.lastKnown(streamIndexKeyOf(chain, read.path))?.slice(
      streamIndexKeyOf(chain, '').length
    )
    return on => invalidationOf(read, on, stream)
  }

  invalidate (invalidation: Invalidation): void {
    const { keys, blocks, pages = [] } = invalidation
    // Here a path may lead to a stream that whoever told of this knew nothing of.
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

  /** Forgets what was kept though it was purged since so many times; whether it was. */
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
 * Everything that is kept of a read, in either representation; of a block, with and without its transactions; of a page
 * of events, each page of its stream that has any of them, and where its path leads: whoever knows that says which
 * stream it is.
 */
export function invalidationOf (read: Read, chain: Chain, stream?: string): Invalidation {
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
