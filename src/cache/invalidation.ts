import { type EntryInterval } from '../api/read.js'
import { type Entry } from './entry.js'

/** Entries to invalidate: by key or family, and by any version inside their intervals. */
export interface Invalidation {
  readonly keys: readonly string[]
  readonly intervals: readonly EntryInterval[]
}

/** Key and interval of an entry, by which an invalidation covers it. */
export type EntryIdentity = Pick<Entry, 'key' | 'validity'>

/** Returns true if an invalidation covers an entry. */
export function invalidates ({ keys, intervals }: Invalidation, { key, validity }: EntryIdentity): boolean {
  if (keys.includes(key)) return true
  return validity !== undefined &&
    (keys.includes(validity.family) || intervals.some(other => doOverlap(other, validity)))
}

function doOverlap (one: EntryInterval, other: EntryInterval): boolean {
  return one.family === other.family && one.first <= other.last && other.first <= one.last
}
