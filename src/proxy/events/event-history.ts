import { type UpstreamResponse } from '../../api/upstream-response.js'
import { type EventPageSummary, readEventPageSummary } from '../../api/event-page-summary.js'
import { type JudgedResponse, type StoreVerdict } from '../../api/store-verdict.js'
import { namesStream, type Read, requestedLimitOf, streamIndexKeyOf } from '../../api/read.js'
import { defaultEventLimit } from '../../api/read-request.js'
import { type PinnedRead } from '../pinned-read.js'
import { type ProxyContext } from '../proxy-context.js'

/** Learns the stream that a path leads to, and its last event. */
export function learnStream (context: ProxyContext, pinned: PinnedRead, response: UpstreamResponse): void {
  const { read, chain, eventsFamily } = pinned
  const readAt = response.stamped?.position.head.version
  if (eventsFamily === undefined || readAt === undefined) return
  const { streamsByHandle, lastKnownEvents, settings: { eventsTtlMs } } = context
  // A 404 means that the resource or its field is gone, so the path leads to no stream.
  if (response.status === 404) streamsByHandle.remove(eventsFamily, readAt)
  const page = readPage(read, response)
  if (page?.last === undefined || page.highestVersion === undefined) return
  if (namesStream(read) && page.stream !== read.path) return
  const stream = namesStream(read) || page.stream === undefined
    ? knownStreamOf(context, read, eventsFamily)
    : streamsByHandle.learn(eventsFamily, streamIndexKeyOf(chain, page.stream), readAt, eventsTtlMs) ?? eventsFamily
  const end = { sequence: page.last, version: page.highestVersion }
  lastKnownEvents.record(stream, end, readAt, read.page === undefined)
}

/** Place where events may lack history that another upstream has: before the page, or in it. */
export type MissingHistory = 'pruned' | 'partial'

/** Verdict on events, and how they may lack history. */
export interface JudgedEvents {
  readonly verdict: StoreVerdict
  readonly missing: MissingHistory | undefined
}

/**
 * Adds to a verdict how events may lack history that an upstream with a longer one has (law 11: "gone" and "not there"
 * are facts, not guesses). Nodes omit pruned events: docs/node-behaviour.md, "Pruned events".
 */
export function judgeEventHistory (
  context: ProxyContext,
  read: Read,
  eventsFamily: string,
  { response, verdict }: JudgedResponse
): JudgedEvents {
  if (response.status !== 200) return { verdict, missing: undefined }
  const page = readPage(read, response)
  // A page that is not parsed may lack events.
  if (page === undefined) return { verdict, missing: 'partial' }
  if (read.page === undefined) return { verdict, missing: isCompleteTail(read, page) ? undefined : 'partial' }
  if (verdict.notStored === 'pruned_page') return { verdict, missing: 'pruned' }
  const { start } = read.page
  if (page.count > 0) return { verdict, missing: page.first === start ? undefined : 'partial' }
  const position = response.stamped?.position
  if (position === undefined) return { verdict, missing: 'partial' }
  const stream = knownStreamOf(context, read, eventsFamily)
  // An empty page hides pruned events if a later event is known.
  if (context.lastKnownEvents.reaches(stream, start, position.head.version)) {
    return { verdict: { lifetime: undefined, notStored: 'pruned_page' }, missing: 'pruned' }
  }
  const isEnd = context.lastKnownEvents.endsBefore(stream, start, position.oldest.version)
  return { verdict, missing: isEnd ? undefined : 'partial' }
}

/** Returns true if the last events are complete: as many as requested, or back to the first event of the stream. */
function isCompleteTail (read: Read, { count, first }: EventPageSummary): boolean {
  return first === 0n || count >= (requestedLimitOf(read) ?? defaultEventLimit)
}

function readPage (read: Read, response: UpstreamResponse): EventPageSummary | undefined {
  if (
    read.endpoint.keyedBy !== 'page' || read.accept !== 'json' || response.status !== 200 || response.rest !== undefined
  ) return undefined
  return readEventPageSummary(response.body)
}

/** Returns the key of facts about a stream: its own name, even an expired one, else the path. */
function knownStreamOf ({ streamsByHandle }: ProxyContext, read: Read, eventsFamily: string): string {
  return namesStream(read) ? eventsFamily : streamsByHandle.lastKnown(eventsFamily) ?? eventsFamily
}

/** Returns the expiry of the stream name that a page read depends on; Infinity if it depends on none. */
export function streamNameExpiryMs (
  { streamsByHandle }: Pick<ProxyContext, 'streamsByHandle'>,
  { read, eventsFamily }: PinnedRead
): number {
  const name = read.page === undefined || eventsFamily === undefined || namesStream(read)
    ? undefined
    : streamsByHandle.find(eventsFamily)
  return name?.expiresAtMs ?? Infinity
}
