import { type Entry, type EntryParts, makeEntry, type PageRange } from '../../cache/entry.js'
import { keyOfPage } from '../../cache/shared-pages.js'
import { type Found } from '../../cache/shared-store.js'
import { type Stored } from '../../cache/stored.js'
import { type Chain } from '../../chain/tracker.js'
import { readEventPage } from '../../api/event-page.js'
import { eventsOf, pagesOf, type Read, type ReadKeys } from '../../api/read.js'
import { isReset } from '../ask.js'
import { ownLines } from '../own-lines.js'
import { askedAs, mayJoin } from './pages.js'
import { type Parts, type Shared } from '../parts.js'
import { spaceOf } from './streams.js'
import { lookUp } from '../window.js'

const maxU64 = 2n ** 64n - 1n

/** What the index of memory files an entry under. */
export type Filed = Pick<EntryParts, 'block' | 'page'>

/** A page of events to be looked for, and the stream that it is of. */
export interface SoughtPage {
  readonly read: Read
  readonly page: NonNullable<Read['page']>
  readonly keys: ReadKeys
  readonly chain: Chain
  readonly stream: string
}

/**
 * Looks for a page, or for those that have its events between them: each is kept for as long as it is kept there, and
 * what is asked for is had of them as ever.
 */
export async function recallPage (
  parts: Parts,
  shared: Shared,
  { read, page, keys, chain, stream }: SoughtPage
): Promise<Entry | undefined> {
  const wanted = eventsOf(page)
  // No node gives any such page.
  if (page.limit === 0n || wanted.last > maxU64) return undefined
  const purges = parts.forgetting.times
  const found = await shared.findPages(stream, wanted, mayJoin(parts, chain, page))
  if (found.length === 0 || isReset(parts, chain)) return undefined
  for (const { stored, ttlMs } of found) {
    const range = parts.tracker.hear(stored.stamped) ? rangeOfPage(stored, chain, stream) : undefined
    const entry = range && entryFrom(parts, { stored, ttlMs }, { page: range })
    // What was purged while it was on its way may be this.
    if (range === undefined || entry === undefined || parts.forgetting.hasMeant(entry, purges, askedAs(read, chain))) {
      continue
    }
    parts.memory.set(entry)
    parts.pageLimit.gaveAll(spaceOf(chain), range.last - range.first + 1n)
  }
  return lookUp(parts, read, keys)
}

// Whatever its key says, it is given as a part of others for what stands in it.
function rangeOfPage ({ key, body }: Stored, chain: Chain, stream: string): PageRange | undefined {
  const page = readEventPage(body)
  if (
    page?.first === undefined || page.last === undefined || page.stream === undefined || !page.isContiguous ||
    pagesOf(chain, page.stream) !== stream
  ) return undefined
  const range = { stream, first: page.first, last: page.last, offsets: page.offsets }
  return keyOfPage(stream, range) === key ? range : undefined
}

/** The entry of what was found. */
export function entryFrom (parts: Parts, { stored, ttlMs }: Found, filed: Filed): Entry {
  const { key, status, contentType, body, release, lowestVersion } = stored
  return makeEntry({
    key,
    status,
    contentType,
    body,
    release,
    lowestVersion,
    ownLines: ownLines(stored, parts.settings.emit, parts.tracker.family),
    expiresAtMs: parts.now() + ttlMs,
    ...filed
  })
}
