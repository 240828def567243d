import { type ChainGeneration } from '../../chain/tracker.js'
import { type UpstreamResponse } from '../../api/upstream-response.js'
import { type EventPage, readEventPage } from '../../api/event-page.js'
import { type JudgedResponse } from '../../api/lifetime.js'
import { namesStream, type Read, requestedLimitOf, streamIndexKeyOf } from '../../api/read.js'
import { type ProxyContext } from '../proxy-context.js'

/** Learns the stream that a path leads to, and its last event. */
export function learnStream (
  context: ProxyContext,
  read: Read,
  chain: ChainGeneration,
  response: UpstreamResponse
): void {
  const readAt = response.stamped?.position.head.version
  if (read.endpoint.keyedBy !== 'page' || readAt === undefined) return
  // A 404 means that the resource or its field is gone, so the path leads to no stream.
  if (response.status === 404) context.streamNames.remove(streamIndexKeyOf(chain, read.path), readAt)
  const page = readPage(read, response)
  if (page?.last === undefined || page.highestVersion === undefined) return
  if (!namesStream(read)) learnName(context, streamIndexKeyOf(chain, read.path), page, chain, readAt)
  else if (page.stream !== read.path) return
  const end = { sequence: page.last, version: page.highestVersion }
  context.streamEnds.record(knownStreamKeyOf(context, read, chain), end, readAt, read.page === undefined)
}

/** Returns the stream of a read's path; undefined if it is unknown or expired. */
export function streamOf (
  { streamNames }: Pick<ProxyContext, 'streamNames'>,
  read: Read,
  chain: ChainGeneration
): string | undefined {
  const path = streamIndexKeyOf(chain, read.path)
  return namesStream(read) ? path : streamNames.find(path)?.stream
}

function learnName (
  { streamNames, settings }: ProxyContext,
  path: string,
  { stream }: EventPage,
  chain: ChainGeneration,
  readAt: bigint
): void {
  if (stream !== undefined) streamNames.learn(path, streamIndexKeyOf(chain, stream), readAt, settings.eventsTtlMs)
}

/**
 * Returns true if an empty page hides pruned events, as a later event is known (law 11: "gone" and "not there" are
 * facts, not guesses).
 */
export function hidesPruning (
  context: ProxyContext,
  read: Read,
  chain: ChainGeneration,
  { response, verdict }: JudgedResponse
): boolean {
  const readAt = response.stamped?.position.head.version
  return read.page !== undefined && readAt !== undefined && verdict.notStored === 'empty_page' &&
    context.streamEnds.reaches(knownStreamKeyOf(context, read, chain), read.page.start, readAt)
}

/**
 * Returns how a page may lack events that an upstream with a longer history has (law 11: "gone" and "not there" are
 * facts, not guesses). Nodes omit pruned events: docs/node-behaviour.md, "Pruned events".
 */
export function missingHistoryOf (
  context: ProxyContext,
  read: Read,
  chain: ChainGeneration,
  judged: JudgedResponse
): 'pruned' | 'partial' | undefined {
  const { response, verdict } = judged
  if (read.endpoint.keyedBy !== 'page' || response.status !== 200) return undefined
  const page = readPage(read, response)
  // A page that is not parsed may lack events.
  if (page === undefined) return 'partial'
  if (read.page === undefined) return isCompleteTail(context, read, page) ? undefined : 'partial'
  if (verdict.notStored === 'pruned_page' || hidesPruning(context, read, chain, judged)) return 'pruned'
  if (page.count > 0) return page.first === read.page.start ? undefined : 'partial'
  const oldest = response.stamped?.position.oldest.version
  return oldest !== undefined &&
      context.streamEnds.endsBefore(knownStreamKeyOf(context, read, chain), read.page.start, oldest)
    ? undefined
    : 'partial'
}

/** Returns true if the last events are complete: as many as requested, or back to the first event of the stream. */
function isCompleteTail ({ settings }: ProxyContext, read: Read, { count, first }: EventPage): boolean {
  return first === 0n || count >= (requestedLimitOf(read) ?? settings.eventsDefault)
}

function readPage (read: Read, response: UpstreamResponse): EventPage | undefined {
  if (
    read.endpoint.keyedBy !== 'page' || read.accept !== 'json' || response.status !== 200 || response.rest !== undefined
  ) return undefined
  return readEventPage(response.body)
}

/** Returns the key of facts about a stream: its own name, even an expired one, else the path. */
function knownStreamKeyOf ({ streamNames }: ProxyContext, read: Read, chain: ChainGeneration): string {
  const path = streamIndexKeyOf(chain, read.path)
  return namesStream(read) ? path : streamNames.lastKnown(path) ?? path
}
