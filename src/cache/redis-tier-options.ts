import { type StoredEntry, entryFormat } from './stored-entry.js'

/** Counters of a Redis tier. */
export interface RedisTierMetrics {
  wroteToRedis(): void
  foundCorrupt(): void
}

/** Settings and callbacks of a Redis tier. */
export interface RedisTierOptions {
  readonly keyPrefix: string
  readonly ttlSeconds: number
  readonly metrics: RedisTierMetrics
  readonly now: () => number
  /** Reports agreement among replicas on the entries to read and write. */
  readonly isAgreed: () => boolean
}

/** Entry found in Redis, and its remaining lifetime. */
export interface FoundEntry {
  readonly stored: StoredEntry
  readonly ttlMs: number
}

/** Builds the prefix of every Redis key: the operator's prefix and the format version. */
export function redisKeyPrefix (keyPrefix: string): string {
  return `${keyPrefix}:${entryFormat}:`
}
