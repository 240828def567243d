import { type Entry } from '../../cache/entry.js'
import { type StreamEvents } from '../../cache/page-index.js'
import { type ChainGeneration } from '../../chain/tracker.js'
import { type EventPage } from '../../api/event-page.js'
import { eventRangeOf, namesStream, pageKeyOf, streamIndexKeyOf, type Read, type ReadKeys } from '../../api/read.js'
import { type ProxyContext } from '../proxy-context.js'
import { streamOf } from './event-streams.js'

/** Returns the requested events under the read's own path, not under the stream of the path. */
export function requestedEventsOf ({ page, path }: Read, chain: ChainGeneration): StreamEvents | undefined {
  return page && { stream: streamIndexKeyOf(chain, path), ...eventRangeOf(page) }
}

/**
 * Returns the key and range of a full page under the name of its stream, whatever path requested it. Undefined if no
 * guid names the stream.
 */
export function pageLocationOf (
  read: Read,
  chain: ChainGeneration,
  page: EventPage | undefined
): { readonly key: string, readonly range: StreamEvents } | undefined {
  if (page?.stream === undefined || read.page === undefined) return undefined
  const stream = streamIndexKeyOf(chain, page.stream)
  return { key: pageKeyOf(stream, read.page), range: { stream, ...eventRangeOf(read.page) } }
}

/** Looks a page up under its own path, then under the stream that the path leads to. */
export function lookUpPage (
  context: ProxyContext,
  read: Read,
  page: NonNullable<Read['page']>,
  keys: ReadKeys
): Entry | undefined {
  const { memory, tracker: { chain } } = context
  // A page without a guid is stored only under its own path.
  const ownPage = memory.get(keys.value)
  const stream = ownPage === undefined && chain !== undefined ? streamOf(context, read, chain) : undefined
  return stream === undefined ? ownPage : memory.get(pageKeyOf(stream, page))
}

/** Returns the expiry of the stream name that a page read depends on; Infinity if it depends on none. */
export function streamKnownUntilMs (
  { streamNames }: Pick<ProxyContext, 'streamNames'>,
  read: Read,
  chain: ChainGeneration
): number {
  const name = read.page === undefined || namesStream(read)
    ? undefined
    : streamNames.find(streamIndexKeyOf(chain, read.path))
  return name?.expiresAtMs ?? Infinity
}
