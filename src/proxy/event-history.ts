import { LRUCache } from 'lru-cache'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type PageSummary, readEventPageSummary } from '../api/body-facts.js'
import { type JudgedResponse, type StoreVerdict } from '../api/store-verdict.js'
import { eventPathKeyOf, namesStream, type Read, requestedLimitOf } from '../api/read.js'
import { defaultPageLimit } from '../api/read-request.js'
import { type PinnedRead } from './pinned-read.js'

// Bounds paths, each of which costs a few hundred bytes (law 10: nothing grows without bound).
const maxPaths = 10_000

/** Last event seen at a path, and the stream that the path led to. */
interface LastKnownEvent {
  readonly stream: string | undefined
  readonly sequence: bigint
  readonly version: bigint
}

/**
 * Last known event of each path. An empty page that starts before this event is pruned, not past the end (law 11:
 * "gone" and "not there" are facts, not guesses).
 */
export class LastKnownEvents {
  readonly #ends = new LRUCache<string, LastKnownEvent>({ max: maxPaths })

  /**
   * Records the last event of a page. A page of the newest events may also lower the end. So may events of another
   * stream, unless they were read below the end's version.
   */
  record (path: string, end: LastKnownEvent, readAt: bigint, isNewest: boolean): void {
    const known = this.#ends.get(path)
    const isSameStream = known?.stream === end.stream
    if (
      known === undefined || (isSameStream && end.sequence > known.sequence) ||
      ((isNewest || !isSameStream) && readAt >= known.version)
    ) {
      this.#ends.set(path, end)
    }
  }

  /** Forgets a path that leads to no stream at a version, unless an event above that version is known. */
  forget (path: string, readAt: bigint): void {
    const known = this.#ends.get(path)
    if (known !== undefined && readAt >= known.version) this.#ends.delete(path)
  }

  /**
   * Returns true if the last known event is before `sequence` and at or above `oldest`. A node with that history would
   * have later events too.
   */
  endsBefore (path: string, sequence: bigint, oldest: bigint): boolean {
    const known = this.#ends.get(path)
    return known !== undefined && known.sequence < sequence && known.version >= oldest
  }

  /** Returns true if a node at `readAt` must know an event with this number or a later one. */
  reaches (path: string, sequence: bigint, readAt: bigint): boolean {
    const known = this.#ends.get(path)
    return known !== undefined && sequence <= known.sequence && readAt >= known.version
  }
}

/** Parts that know the ends of event streams. */
export interface EventParts {
  readonly lastKnownEvents: LastKnownEvents
}

/** Learns the last event of a path. */
export function learnLastEvent (context: EventParts, { read, space }: PinnedRead, response: UpstreamResponse): void {
  const readAt = response.stamped?.position.head.version
  if (read.endpoint.keyedBy !== 'page' || readAt === undefined) return
  const path = eventPathKeyOf(space, read.path)
  // Forgets a path whose handle lacks its resource or field, because it leads to no stream.
  if (response.status === 404 && !namesStream(read)) context.lastKnownEvents.forget(path, readAt)
  const page = readPage(read, response)
  if (page?.last === undefined || page.highestVersion === undefined) return
  if (namesStream(read) && page.stream !== read.path) return
  const end = { stream: page.stream, sequence: page.last, version: page.highestVersion }
  context.lastKnownEvents.record(path, end, readAt, read.page === undefined)
}

/** Verdict on events, and whether they may lack history that another upstream has: before the page, or in it. */
interface JudgedEvents {
  readonly verdict: StoreVerdict
  readonly missing: 'pruned' | 'partial' | undefined
}

/**
 * Adds to a verdict if events may lack history that an upstream with longer history has (law 11: "gone" and "not there"
 * are facts, not guesses). Nodes omit pruned events: docs/node-behaviour.md, "Pruned events".
 */
export function judgeEventHistory (
  context: EventParts,
  { read, space }: PinnedRead,
  { response, verdict }: JudgedResponse
): JudgedEvents {
  if (read.endpoint.keyedBy !== 'page' || response.status !== 200) {
    return { verdict, missing: verdict.notStored === 'pruned_page' ? 'pruned' : undefined }
  }
  const [page, position] = [readPage(read, response), response.stamped?.position]
  // Assumes that events are missing from a page that is not parsed.
  if (page === undefined || position === undefined) return { verdict, missing: 'partial' }
  if (read.page === undefined) return { verdict, missing: isCompleteTail(read, page) ? undefined : 'partial' }
  if (verdict.notStored === 'pruned_page') return { verdict, missing: 'pruned' }
  const { start } = read.page
  if (page.count > 0) return { verdict, missing: page.first === start ? undefined : 'partial' }
  const path = eventPathKeyOf(space, read.path)
  // An empty page hides pruned events if a later event is known.
  if (context.lastKnownEvents.reaches(path, start, position.head.version)) {
    return { verdict: { lifetime: undefined, notStored: 'pruned_page' }, missing: 'pruned' }
  }
  const isEnd = context.lastKnownEvents.endsBefore(path, start, position.oldest.version)
  return { verdict, missing: isEnd ? undefined : 'partial' }
}

/** Returns true if the last events are complete: as many as requested, or back to the first event of the stream. */
function isCompleteTail (read: Read, { count, first }: PageSummary): boolean {
  return first === 0n || count >= (requestedLimitOf(read) ?? defaultPageLimit)
}

function readPage (read: Read, response: UpstreamResponse): PageSummary | undefined {
  return read.accept !== 'json' || response.status !== 200 || response.rest !== undefined
    ? undefined
    : readEventPageSummary(response.body)
}
