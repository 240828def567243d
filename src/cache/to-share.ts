import { LRUCache } from 'lru-cache'
import { type Stored } from './stored.js'

/** An answer to be shared, the family of blocks that it is filed under if it is one, and how long it stays true. */
export interface ToShare {
  readonly stored: Stored
  readonly blocks: string | undefined
  /** Undefined: for as long as Redis keeps anything. */
  readonly ttlMs: number | undefined
}

/** An answer that waits to be shared, and since when. */
export interface Kept extends ToShare {
  readonly keptAtMs: number
}

/** What is to be forgotten: the keys of entries, and where a block is known by a version. */
export interface ToForget {
  readonly keys: readonly string[]
  readonly blocks: ReadonlyArray<{ readonly blocks: string, readonly version: bigint }>
}

/** The names that an answer is shared under. */
type Names = Pick<Stored, 'key' | 'range'> & Pick<ToShare, 'blocks'>

/** Whether an answer is of those that are to be forgotten. */
export function isToForget ({ keys, blocks }: ToForget, { key, range, blocks: family }: Names): boolean {
  return keys.includes(key) || blocks.some(block => block.blocks === family && range !== undefined && range.first <= block.version && block.version <= range.last)
}

/** What this process wrote since the others may have heard of a purge. */
export class WrittenLately {
  readonly #names = new LRUCache<string, Names>({ max: 5000, ttl: 2000 })

  add ({ stored: { key, range }, blocks }: ToShare): void {
    this.#names.set(key, { key, range, blocks })
  }

  /** Whether any of it is to be forgotten. */
  hasAnyOf (what: ToForget): boolean {
    return [...this.#names.values()].some(names => isToForget(what, names))
  }
}
