import { type Stored, storedFormat } from './stored.js'

/** Told of what becomes of shared entries. */
export interface SharedTally {
  wroteShared(): void
  foundCorrupt(): void
}

/** What a shared store needs to know. */
export interface SharedOptions {
  readonly keyPrefix: string
  readonly ttlSeconds: number
  readonly tally: SharedTally
  readonly now: () => number
  /** Whether it is settled with the other replicas which entries are to be read and written. */
  readonly isAgreed: () => boolean
}

/** An answer that was found, and for how long it may be kept. */
export interface Found {
  readonly stored: Stored
  readonly ttlMs: number
}

/** What every key in Redis begins with: the operator's prefix and the version of the form. */
export function storePrefix (keyPrefix: string): string {
  return `${keyPrefix}:${storedFormat}:`
}
