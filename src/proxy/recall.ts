import { type Entry } from '../cache/entry.js'
import { streamIn } from '../cache/shared-name.js'
import { type Found } from '../cache/shared-store.js'
import { type Chain } from '../chain/tracker.js'
import { readEventPage } from '../api/event-page.js'
import { pagesOf, type Read, type ReadKeys } from '../api/read.js'
import { isReset } from './ask.js'
import { type Parts } from './parts.js'
import { entryFrom, type Filed, recallPage } from './events/recall-page.js'
import { streamOf } from './events/streams.js'
import { isServed } from './window.js'

/** Looks for a read in what replicas share, and keeps what is found in memory for as long as it is kept there. */
export async function recall (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Entry | undefined> {
  if (parts.shared === undefined) return undefined
  const { page } = read
  const stream = page && streamOf(parts, read, chain)
  if (page !== undefined && stream !== undefined) {
    return await recallPage(parts, parts.shared, { read, page, keys, chain, stream })
  }
  const purges = parts.forgetting.times
  // What replicas know of where a path of events leads, before what they have of a stream that no guid names.
  const path = pagesOf(chain, read.path)
  const found = await parts.shared.find(page === undefined ? keys : { ...keys, value: path }, read.speaksOf)
  // The position that it was read at is proven; one that cannot be of this chain tells that the entry is not either.
  if (
    found === undefined || isReset(parts, chain) || !parts.tracker.hear(found.stored.stamped) ||
    !isServed(parts, read, { ...found.stored, block: found.stored.range })
  ) return undefined
  const named = page && streamIn(found.stored)
  if (page !== undefined && named !== undefined) {
    if (parts.forgetting.times !== purges) return undefined
    parts.streamNames.learn(path, named, found.stored.stamped.position.head.version, found.ttlMs)
    // Here it was seen since that it leads nowhere.
    if (parts.streamNames.find(path)?.stream !== named) return undefined
    return await recallPage(parts, parts.shared, { read, page, keys, chain, stream: named })
  }
  // What stands there instead of a name is no page; and versions of varve that did not look at guids kept every page
  // for its path.
  if (page !== undefined && (found.stored.key === path || readEventPage(found.stored.body)?.stream !== undefined)) {
    return undefined
  }
  const entry = entryFrom(parts, found, rangeIn(found, keys))
  // What was purged while it was on its way may be this.
  if (!parts.forgetting.hasMeant(entry, purges)) parts.memory.set(entry)
  return entry
}

function rangeIn ({ stored: { range } }: Found, { blocks }: ReadKeys): Filed {
  return { block: range !== undefined && blocks !== undefined ? { blocks, ...range } : undefined }
}
