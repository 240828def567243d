import { LRUCache } from 'lru-cache'
import { type PageRange } from './entry.js'
import { type EventRange } from './page-index.js'
import { type Stored } from './stored.js'

/**
 * An answer to be shared, the family of blocks that it is filed under if it is one, the events that it has if it is a
 * page, and how long it stays true.
 */
export interface ToShare {
  readonly stored: Stored
  readonly blocks: string | undefined
  readonly page?: PageRange | undefined
  /** Where the path leads that it was asked for by, where other replicas are to be told. */
  readonly name?: ToldName | undefined
  /** Undefined: for as long as Redis keeps anything. */
  readonly ttlMs: number | undefined
}

/** A name in the form of an answer, and for how long it is believed. */
export interface ToldName {
  readonly stored: Stored
  readonly ttlMs: number
}

/** An answer that waits to be shared, and since when. */
export interface Kept extends ToShare {
  readonly keptAtMs: number
}

/**
 * What is to be forgotten: the keys of entries, where a block is known by a version, and where pages are by what they
 * have any event of.
 */
export interface ToForget {
  readonly keys: readonly string[]
  readonly blocks: ReadonlyArray<{ readonly blocks: string, readonly version: bigint }>
  readonly pages?: readonly StreamEvents[] | undefined
}

/** A run of events, by the name of their stream or by a path that leads to it. */
export interface StreamEvents extends EventRange {
  readonly stream: string
}

/** The names that an answer is shared under. */
type Names = Pick<Stored, 'key' | 'range'> & Pick<ToShare, 'blocks'> & { readonly page?: StreamEvents | undefined }

/** Whether an answer is of those that are to be forgotten. */
export function isToForget (
  { keys, blocks, pages = [] }: ToForget,
  { key, range, blocks: family, page }: Names
): boolean {
  return keys.includes(key) || (page !== undefined && pages.some(wanted => haveInCommon(wanted, page))) ||
    blocks.some(block =>
      block.blocks === family && range !== undefined && range.first <= block.version && block.version <= range.last
    )
}

function haveInCommon (one: StreamEvents, other: StreamEvents): boolean {
  return one.stream === other.stream && one.first <= other.last && other.first <= one.last
}

/** What this process wrote since the others may have heard of a purge. */
export class WrittenLately {
  readonly #names = new LRUCache<string, Names>({ max: 5000, ttl: 2000 })

  add ({ stored: { key, range }, blocks, page }: ToShare): void {
    this.#names.set(key, { key, range, blocks, page })
  }

  /** Whether any of it is to be forgotten. */
  hasAnyOf (what: ToForget): boolean {
    return [...this.#names.values()].some(names => isToForget(what, names))
  }
}
