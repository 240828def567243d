import { type Entry, type PageRange } from '../../cache/entry.js'
import { joinedPage } from './joined-page.js'
import { type StreamEvents } from '../../cache/to-share.js'
import { type Chain } from '../../chain/tracker.js'
import { type EventPage } from '../../api/event-page.js'
import { eventsOf, namesStream, pageKeyOf, pagesOf, type Read, type ReadKeys } from '../../api/read.js'
import { type Parts } from '../parts.js'
import { spaceOf, streamOf } from './streams.js'

/** The events that a read asks for by its own path, wherever that leads. */
export function askedAs ({ page, path }: Read, chain: Chain): StreamEvents | undefined {
  return page && { stream: pagesOf(chain, path), ...eventsOf(page) }
}

/**
 * Under which key, and as which events of which stream, a full page is kept: by whichever path it came, under the name
 * of its stream, where its guid tells that.
 */
export function filedAs (
  read: Read,
  chain: Chain,
  page: EventPage | undefined
): { readonly key: string, readonly range: PageRange } | undefined {
  if (page?.stream === undefined || read.page === undefined) return undefined
  const stream = pagesOf(chain, page.stream)
  return { key: pageKeyOf(stream, read.page), range: { stream, ...eventsOf(read.page), offsets: page.offsets } }
}

/**
 * What is kept of a page of events: the page itself, or one put together from others of its stream, by whichever path
 * and with whatever start and limit they came. What was put together is kept as it is, in a small share of the tier:
 * given again it costs nothing, has its coded forms, and can be read afresh like any other.
 */
export function lookUpPage (
  parts: Parts,
  read: Read,
  page: NonNullable<Read['page']>,
  keys: ReadKeys
): Entry | undefined {
  const { memory, tracker: { chain } } = parts
  // Of a stream that no guid names a page is kept for its own path alone.
  const own = memory.get(keys.value)
  const stream = own === undefined && chain !== undefined ? streamOf(parts, read, chain) : undefined
  if (stream === undefined || chain === undefined) return own
  const key = pageKeyOf(stream, page)
  const kept = key === keys.value ? undefined : memory.get(key)
  if (kept !== undefined || !mayJoin(parts, chain, page)) return kept
  const joined = joinedPage(memory, { stream, key, ...eventsOf(page) }, release => parts.nodes.isGone(release))
  if (joined !== undefined) memory.setJoined(joined)
  return joined
}

/** Whether a page of so many events is one that a node would give. */
export function mayJoin (
  { pageLimit }: Pick<Parts, 'pageLimit'>,
  chain: Chain,
  { limit }: NonNullable<Read['page']>
): boolean {
  return limit > 0n && pageLimit.allows(spaceOf(chain), limit)
}

/** For how long the path of a read is believed to lead to the stream whose page was found. */
export function believedUntilMs ({ streamNames }: Pick<Parts, 'streamNames'>, read: Read, chain: Chain): number {
  const name = read.page === undefined || namesStream(read) ? undefined : streamNames.find(pagesOf(chain, read.path))
  return name?.expiresAtMs ?? Infinity
}
