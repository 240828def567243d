import { type Invalidation } from './invalidation.js'
import { type StoredEntry } from './entry-codec.js'

/** Cache tiers in the order of look-ups: the words that header, access log and metric label share. */
export const tierNames = ['memory', 'disk', 'redis'] as const

/** Name of a tier in outcomes. */
export type TierName = typeof tierNames[number]

/** Tiers that are logs. To a client a hit in the log that workers share in memory is a hit in memory. */
export type LogTierName = 'shared' | 'disk'

/** Name of a tier as operators see it. */
export type StoreName = TierName | LogTierName

/** Tiers that count their entries and bytes. */
export const countedTierNames = ['memory', 'shared', 'disk'] as const satisfies readonly StoreName[]
/** Tiers that count what they store. */
export const storeNames = [...countedTierNames, 'redis'] as const satisfies readonly StoreName[]

/** State of a tier: its size if it counts one, and whether it can be reached. */
export interface TierStatus {
  readonly entries?: number
  readonly bytes?: number
  readonly maxBytes?: number
  readonly state?: 'up' | 'down' | 'off'
  /** Reason if the tier is down. */
  readonly reason?: string
}

/** Space of entries: their keys and families begin with its name (law 7: chains never mix). */
export interface StoreSpace {
  readonly chainId: number
  readonly name: string
}

/**
 * Contract of every tier, held by test/cache/tier-contract.test.ts. An expired, dropped, damaged or unreachable entry
 * is a miss (law 6: the cache can only help).
 */
export interface Store<Written, Found> {
  readonly name: StoreName
  readonly status: TierStatus
  get(space: StoreSpace, key: string): Found | undefined | Promise<Found | undefined>
  /** Finds the entry of a family whose interval contains a version. */
  covering(space: StoreSpace, family: string, version: bigint): Found | undefined | Promise<Found | undefined>
  /** Stores an entry, at once or in the background; an entry that is too large is not stored. */
  put(space: StoreSpace, entry: Written): unknown
  /**
   * Drops entries, also entries on their way into the tier; returns true if the tier had any, and rejects if it cannot
   * drop them.
   */
  drop(space: StoreSpace, what: Invalidation): boolean | Promise<boolean>
  /** Finishes pending writes within a time limit, and frees what the process holds. */
  close(): void | Promise<void>
}

/** Tier below memory; look-ups go through these in order, and memory gets what they find. */
export interface LowerStore extends Store<StoreWrite, FoundEntry> {
  readonly name: Exclude<StoreName, 'memory'>
  /** Problems for the status page, as readable sentences. */
  readonly warnings: readonly string[]
}

/**
 * Tier of this process or host. It gets every purge, also those of replicas. It hides dropped entries at once, and
 * resolves once no later process finds them.
 */
export interface OwnStore {
  /** Drops as every tier does; a purge that several processes of this host apply has an id. */
  drop(space: StoreSpace, what: Invalidation, id?: string): boolean | Promise<boolean>
  /** Drops everything, because purges may have been missed. */
  clear(space: StoreSpace, id?: string): void | Promise<void>
}

/** Entry to write to a lower tier, with its lifetime. */
export interface StoreWrite {
  readonly stored: StoredEntry
  /** Undefined means the maximum lifetime of the tier. */
  readonly ttlMs: number | undefined
  /** Start of its fetch: a purge since then covers it. Undefined means now. */
  readonly fetchedAtMs?: number
  /**
   * Runs with true when a tier that hosts share has the entry, with false if the tier does not get the entry yet or at
   * all; only the first call counts.
   */
  readonly onShared?: ((isStored: boolean) => void) | undefined
}

/** Write in the queue of a tier, with the time at which waiting began. */
export interface QueuedWrite extends StoreWrite {
  readonly space: StoreSpace
  readonly queuedAtMs: number
}

/** Entry found in a lower tier, and its remaining lifetime. */
export interface FoundEntry {
  readonly stored: StoredEntry
  readonly ttlMs: number
}

/** Counters of a tier. */
export interface TierMetrics {
  wrote(tier: StoreName): void
  evicted(tier: StoreName): void
  foundCorrupt(): void
}
