import { type Chain } from '../ledger/tracker.js'
import { type Answer, errorOf } from '../reads/answer.js'
import { type EventPage, readEventPage } from '../reads/event-page.js'
import { type Judged } from '../reads/lifetime.js'
import { type Read } from '../reads/read.js'
import { type Parts } from './parts.js'

/** Remembers how far a stream of events is known to reach. */
export function learnStream (parts: Parts, read: Read, chain: Chain, answer: Answer): void {
  const { last, highestVersion } = pageIn(read, answer) ?? {}
  const readAt = answer.stamped?.position.head.version
  if (last === undefined || highestVersion === undefined || readAt === undefined) return
  parts.streamEnds.saw(streamOf(read, chain), { sequence: last, version: highestVersion }, readAt, read.page === undefined)
}

/** Whether an empty page is none of the end of the stream: a later event was seen (law 11), and the node has got that far. */
export function hidesPruning (parts: Parts, read: Read, chain: Chain, { answer, verdict }: Judged): boolean {
  const readAt = answer.stamped?.position.head.version
  return read.page !== undefined && readAt !== undefined && verdict.notKept === 'empty_page' && parts.streamEnds.reaches(streamOf(read, chain), read.page.start, readAt)
}

/** Whether a node says that it has forgotten what was asked for; of events nodes said so by a 500 before they did by a 410 (facts, section 5). */
export function saysPruned ({ status, ...rest }: Answer): boolean {
  return status === 410 || (status === 500 && /pruned/i.test(String(errorOf({ status, ...rest })?.['message'])))
}

/**
 * What a page of events may lack that a node with a longer history still has (law 11): events name no version, so a node that has forgotten them
 * leaves them out, or says nothing at all.
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
  return oldest !== undefined && parts.streamEnds.endsBefore(streamOf(read, chain), read.page.start, oldest) ? undefined : 'thin'
}

/** The last events of a stream are all there where there are as many as were asked for, or the very first among them. */
function isWholeEnd ({ settings }: Parts, { query }: Read, { count, first }: EventPage): boolean {
  const limit = query.find(([name]) => name === 'limit')?.[1]
  return first === 0n || count >= Number(limit ?? settings.eventsDefault)
}

function pageIn (read: Read, answer: Answer): EventPage | undefined {
  if (read.endpoint.keyedBy !== 'page' || read.accept !== 'json' || answer.status !== 200 || answer.rest !== undefined) return undefined
  return readEventPage(answer.body)
}

function streamOf ({ path }: Read, { id, generation }: Chain): string {
  return `${id}.${generation} ${path}`
}
