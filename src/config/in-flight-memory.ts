import { type Config } from './schema.js'

const minInFlightMb = 64
// Fits at least this many responses of `cache.maxEntryMb`.
const minEntries = 2
const inFlightShare = 1 / 4

/** Returns the budget for bytes outside the cache in MB: `limits.inFlightMb`, or its default for all workers. */
export function inFlightMbOf ({ limits, cache: { memory, maxEntryMb }, workers }: Config): number {
  const each = Math.max(minInFlightMb, minEntries * maxEntryMb)
  return limits.inFlightMb ?? Math.ceil(Math.max(each * workers, memory.maxMb * inFlightShare))
}
