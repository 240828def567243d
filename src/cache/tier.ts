import { type ReadKeys } from '../api/read.js'
import { type Invalidation } from './invalidation.js'
import { type StoredEntry } from './entry-codec.js'

/** Cache tiers in the order of look-ups: the words that header, access log and metric label share. */
export const tierNames = ['memory', 'disk', 'redis'] as const

/** One of the closed list. */
export type TierName = typeof tierNames[number]

/** Tiers that count their entries and bytes. */
export const countedTierNames = ['memory', 'disk'] as const satisfies readonly TierName[]

/** State of a tier: its size where it counts one, and its reachability where it can be unreachable. */
export interface TierStatus {
  readonly entries?: number
  readonly bytes?: number
  readonly maxBytes?: number
  /** True if the sizes are those of all workers together. */
  readonly isShared?: boolean
  readonly state?: 'up' | 'down' | 'off'
  /** Reason if the tier is down. */
  readonly reason?: string
}

/** Names an entry by its keys, or by a version inside its interval. */
export type EntrySelector =
  | { readonly by: 'key', readonly keys: ReadKeys }
  | { readonly by: 'version', readonly family: string, readonly version: bigint }

/**
 * Contract of every tier, held by test/cache/tier-contract.test.ts. An expired, invalidated, damaged or unreachable
 * entry is a miss (law 6: the cache can only help).
 */
export interface CacheTier<Written, Found> {
  readonly name: TierName
  readonly status: TierStatus
  get(selector: EntrySelector): Found | undefined | Promise<Found | undefined>
  /** Stores an entry, at once or in the background; an entry that is too large is not stored. */
  put(entry: Written): unknown
  /**
   * Invalidates entries, including those still on their way into the tier, and returns true if it had any; rejects if
   * the tier cannot do so.
   */
  invalidate(what: Invalidation): boolean | Promise<boolean>
  /** Finishes pending writes within a time limit, and frees what the process holds. */
  close(): void | Promise<void>
}

/** Tier below memory; look-ups go through these in order, and memory gets what they find. */
export interface LowerTier extends CacheTier<TierWrite, FoundEntry> {
  readonly name: Exclude<TierName, 'memory'>
  /** Problems for the status page, as readable sentences. */
  readonly warnings: readonly string[]
  /** Drops entries on their way into the tier, because keys name another space from now on. */
  dropPending(): void
}

/** Tier of this process or machine alone: it gets every purge, also those of replicas. A shared tier is purged once. */
export interface OwnTier {
  /** Hides the entries at once, and resolves when no later process finds them either, with true if it had any. */
  invalidate(what: Invalidation): boolean | Promise<boolean>
  /** Hides everything at once, because purges may have been missed; resolves as `invalidate` does. */
  clear(): void | Promise<void>
}

/** Entry to write to a lower tier, with its lifetime. */
export interface TierWrite {
  readonly stored: StoredEntry
  /** Undefined means the maximum lifetime of the tier. */
  readonly ttlMs: number | undefined
}

/** Entry found in a lower tier, and its remaining lifetime. */
export interface FoundEntry {
  readonly stored: StoredEntry
  readonly ttlMs: number
}

/** Counters of a tier. */
export interface TierMetrics {
  wrote(tier: TierName): void
  evicted(tier: TierName): void
  foundCorrupt(): void
}
