import { type Chain } from '../../chain/tracker.js'
import { type Answer, errorOf } from '../../api/answer.js'
import { type EventPage, readEventPage } from '../../api/event-page.js'
import { type Judged } from '../../api/lifetime.js'
import { namesStream, pagesOf, type Read } from '../../api/read.js'
import { type Parts } from '../parts.js'

/**
 * Remembers to which stream of events a path leads, how far that is known to reach, and how many events of it a node
 * gives.
 */
export function learnStream (parts: Parts, read: Read, chain: Chain, answer: Answer): void {
  const readAt = answer.stamped?.position.head.version
  if (read.endpoint.keyedBy !== 'page' || readAt === undefined) return
  // The resource or its field is gone: whatever it led to, it does not any more.
  if (answer.status === 404) parts.streamNames.forget(pagesOf(chain, read.path), readAt)
  const page = pageIn(read, answer)
  if (page?.last === undefined || page.highestVersion === undefined) return
  if (!namesStream(read)) learnName(parts, pagesOf(chain, read.path), page, chain, readAt)
  else if (page.stream !== read.path) return
  const stream = knownAs(parts, read, chain)
  if (read.page !== undefined) {
    learnLimit(parts, read.page, page, chain, parts.streamEnds.reaches(stream, page.last + 1n, readAt))
  }
  parts.streamEnds.saw(stream, { sequence: page.last, version: page.highestVersion }, readAt, read.page === undefined)
}

/** The stream that a read of events is of, as far as its path tells that now. */
export function streamOf ({ streamNames }: Pick<Parts, 'streamNames'>, read: Read, chain: Chain): string | undefined {
  const path = pagesOf(chain, read.path)
  return namesStream(read) ? path : streamNames.find(path)?.stream
}

function learnName (
  { streamNames, settings }: Parts,
  path: string,
  { stream }: EventPage,
  chain: Chain,
  readAt: bigint
): void {
  if (stream !== undefined) streamNames.learn(path, pagesOf(chain, stream), readAt, settings.eventsTtlMs)
}

function learnLimit (
  { pageLimit }: Parts,
  asked: NonNullable<Read['page']>,
  { count, first, isContiguous }: EventPage,
  chain: Chain,
  hasMore: boolean
): void {
  if (first !== asked.start || !isContiguous) return
  if (BigInt(count) === asked.limit) pageLimit.gaveAll(spaceOf(chain), asked.limit)
  else if (hasMore) pageLimit.gaveOnly(spaceOf(chain), BigInt(count))
}

/**
 * Whether an empty page is none of the end of the stream: a later event was seen (law 11), and the node has got that
 * far.
 */
export function hidesPruning (parts: Parts, read: Read, chain: Chain, { answer, verdict }: Judged): boolean {
  const readAt = answer.stamped?.position.head.version
  return read.page !== undefined && readAt !== undefined && verdict.notKept === 'empty_page' &&
    parts.streamEnds.reaches(knownAs(parts, read, chain), read.page.start, readAt)
}

/**
 * True if a response reports pruning, which for events can be a 500: docs/node-behaviour.md, "Pruned events".
 */
export function saysPruned ({ status, ...rest }: Answer): boolean {
  return status === 410 || (status === 500 && /pruned/i.test(String(errorOf({ status, ...rest })?.['message'])))
}

/**
 * What a page of events may lack that a node with a longer history still has (law 11): events name no version, so a
 * node that has forgotten them leaves them out, or says nothing at all.
 */
export function lackOf (parts: Parts, read: Read, chain: Chain, judged: Judged): 'gone' | 'thin' | undefined {
  const { answer, verdict } = judged
  if (read.endpoint.keyedBy !== 'page' || answer.status !== 200) return undefined
  const page = pageIn(read, answer)
  // What cannot be read may lack anything.
  if (page === undefined) return 'thin'
  if (read.page === undefined) return isWholeEnd(parts, read, page) ? undefined : 'thin'
  if (verdict.notKept === 'pruned_page' || hidesPruning(parts, read, chain, judged)) return 'gone'
  if (page.count > 0) return page.first === read.page.start ? undefined : 'thin'
  const oldest = answer.stamped?.position.oldest.version
  return oldest !== undefined && parts.streamEnds.endsBefore(knownAs(parts, read, chain), read.page.start, oldest)
    ? undefined
    : 'thin'
}

/**
 * The last events of a stream are all there where there are as many as were asked for, or the very first among them.
 */
function isWholeEnd ({ settings }: Parts, { query }: Read, { count, first }: EventPage): boolean {
  const limit = query.find(([name]) => name === 'limit')?.[1]
  return first === 0n || count >= Number(limit ?? settings.eventsDefault)
}

function pageIn (read: Read, answer: Answer): EventPage | undefined {
  if (
    read.endpoint.keyedBy !== 'page' || read.accept !== 'json' || answer.status !== 200 || answer.rest !== undefined
  ) return undefined
  return readEventPage(answer.body)
}

/**
 * What is known of a stream is filed under its own name, also while nobody would vouch for it that the path still leads
 * there.
 */
function knownAs ({ streamNames }: Parts, read: Read, chain: Chain): string {
  const path = pagesOf(chain, read.path)
  return namesStream(read) ? path : streamNames.lastOf(path) ?? path
}

/** What chains are told from each other by. */
export function spaceOf ({ id, generation }: Chain): string {
  return `${id}.${generation}`
}
