import { type Entry, makeEntry } from '../cache/entry.js'
import { type Found } from '../cache/shared-store.js'
import { type Chain } from '../ledger/tracker.js'
import { type Read, type ReadKeys } from '../reads/read.js'
import { isReset } from './ask.js'
import { ownLines } from './own-lines.js'
import { type Parts } from './parts.js'
import { isServed } from './window.js'

/** Looks for a read in what replicas share, and keeps what is found in memory for as long as it is kept there. */
export async function recall (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Entry | undefined> {
  if (parts.shared === undefined) return undefined
  const purges = parts.forgetting.times
  const found = await parts.shared.find(keys, read.speaksOf)
  // The position that it was read at is proven; one that cannot be of this chain tells that the entry is not either.
  if (found === undefined || isReset(parts, chain) || !parts.tracker.hear(found.stored.stamped) || !isServed(parts, read, { ...found.stored, block: found.stored.range })) return undefined
  const entry = entryOf(parts, keys, found)
  // What was purged while it was on its way may be this.
  if (!parts.forgetting.hasMeant(entry, purges)) parts.memory.set(entry)
  return entry
}

function entryOf (parts: Parts, { blocks }: ReadKeys, { stored, ttlMs }: Found): Entry {
  const { key, status, contentType, body, release, lowestVersion, range } = stored
  return makeEntry({
    key,
    status,
    contentType,
    body,
    release,
    lowestVersion,
    ownLines: ownLines(stored, parts.settings.emit, parts.tracker.family),
    expiresAtMs: parts.now() + ttlMs,
    block: range !== undefined && blocks !== undefined ? { blocks, ...range } : undefined
  })
}
