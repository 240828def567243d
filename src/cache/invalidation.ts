import { accountIn, type EntryInterval } from '../api/read.js'
import { type Entry } from './entry.js'

/** Entries to invalidate: by key or family, by any version inside their intervals, and by an account. */
export interface Invalidation {
  readonly keys: readonly string[]
  readonly intervals: readonly EntryInterval[]
  readonly account?: string
}

/** Key and interval of an entry, by which an invalidation covers it. */
export type EntryIdentity = Pick<Entry, 'key' | 'validity'>

/** Returns true if an invalidation covers an entry. */
export function invalidates ({ keys, intervals, account }: Invalidation, { key, validity }: EntryIdentity): boolean {
  if (keys.includes(key) || (account !== undefined && dependsOnAccount(key, account))) return true
  return validity !== undefined &&
    (keys.includes(validity.family) || intervals.some(other => doOverlap(other, validity)))
}

/** Returns true if the response under a key can depend on an account or a table. */
export function dependsOnAccount (key: string, account: string): boolean {
  const found = accountIn(key)
  return found === account || found === ''
}

function doOverlap (one: EntryInterval, other: EntryInterval): boolean {
  return one.family === other.family && one.first <= other.last && other.first <= one.last
}
