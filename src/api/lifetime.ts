import { type Head } from './position.js'
import { mediaTypes } from './accept.js'
import {
  type UpstreamResponse,
  errorCodeOf,
  headerOf,
  isContentEncoded,
  isNotFound,
  mediaTypeOf
} from './upstream-response.js'
import { type BlockHead, readBlockHead } from './block-head.js'
import { type EventPage, readEventPage } from './event-page.js'
import { namesStream, type Read } from './read.js'
import { readTransaction, readTransactions, type Transaction, type TransactionRun } from './transaction.js'

/** Why an answer was not kept: the closed list that metric, log and Cache-Status share (law 3). */
export const notStoredReasons = [
  'status',
  'no_position',
  'wrong_chain',
  'wrong_type',
  'wrong_coding',
  'vetoed',
  'outside_window',
  'too_large',
  'incomplete',
  'wrong_block',
  'newest_block',
  'truncated_block',
  'wrong_transaction',
  'pending_transaction',
  'empty_page',
  'short_page',
  'gapped_page',
  'pruned_page',
  'unreadable'
] as const

/** One reason of the closed list. */
export type NotStoredReason = typeof notStoredReasons[number]

/** What an answer is judged against. */
export interface LifetimeOptions {
  /**
   * Lifetime of a full page of events, whose path can get another stream: docs/node-behaviour.md, "Event streams".
   */
  readonly eventsTtlMs: number
}

/** How long a kept answer stays true, and for what. */
export interface Lifetime {
  /** Undefined: for ever. */
  readonly ttlMs: number | undefined
  /** The block that it is, which answers for every version inside. */
  readonly block: BlockHead | undefined
  /** The lowest version that it tells of, where the read itself names none. */
  readonly lowestVersion: bigint | undefined
  /** The page of events that it is. */
  readonly page: EventPage | undefined
}

/** The verdict on an answer: how long it stays true, or why it must not be kept. */
export type StoreVerdict =
  | { readonly lifetime: Lifetime, readonly notStored: undefined }
  | { readonly lifetime: undefined, readonly notStored: NotStoredReason }

/** A node's answer and what is to be thought of it. */
export interface JudgedResponse {
  readonly response: UpstreamResponse
  readonly verdict: StoreVerdict
}

// Names in Vary that varve keys by or never sends upstream; any other means the answer depends on what is not in the
// key.
const harmlessVary = new Set(['accept', 'accept-encoding', 'origin'])

/**
 * Gives the reason why a response cannot be true, so that it is neither stored nor sent to a client:
 * docs/node-behaviour.md, "False successes".
 */
export function impossibleReason (read: Read, response: UpstreamResponse): NotStoredReason | undefined {
  // Nothing was asked for in parts, under a condition or elsewhere.
  if (response.status !== 200) return response.status < 400 ? 'status' : undefined
  if (!response.isFramed) return 'incomplete'
  if (isContentEncoded(response)) return 'wrong_coding'
  // Node info need not bear one; there the body alone tells an error.
  if (response.stamped === undefined && (read.endpoint.name !== 'info' || errorCodeOf(response) !== undefined)) {
    return 'no_position'
  }
  // No node knows a version above its own head; showing that head with it would deny the version (law 4).
  if (
    response.stamped !== undefined && read.requestedVersion !== undefined &&
    read.requestedVersion > response.stamped.position.head.version
  ) return 'outside_window'
  return mediaTypeOf(response) === mediaTypes[read.accept] ? undefined : 'wrong_type'
}

/** Judges an answer that is no untruth: whether it is proven history (law 3), and how long it stays true. */
export function judge (read: Read, response: UpstreamResponse, options: LifetimeOptions): StoreVerdict {
  const notStored = neverStoredReason(read, response)
  if (notStored !== undefined) return notStorable(notStored)
  // What bears no position is no word on any version.
  if (response.stamped === undefined) return notStorable('no_position')
  const { head, oldest } = response.stamped.position
  if (read.page !== undefined) {
    return judgePage(read, read.page, readEventPage(response.body), oldest.version, head.version, options)
  }
  const { keyedBy } = read.endpoint
  if (keyedBy === 'hash' && read.mayBeMoving) {
    return judgeTransaction(read, readTransaction(response.body), oldest.version, head.version)
  }
  if (keyedBy === 'height') return judgeBlock(read, readBlockHead(response.body, read.accept), oldest.version, head)
  if (
    read.requestedVersion === undefined || read.requestedVersion < oldest.version ||
    read.requestedVersion > head.version
  ) {
    return notStorable('outside_window')
  }
  if (keyedBy === 'list') return judgeList(read, read.requestedVersion, readTransactions(response.body), head.version)
  if (keyedBy === 'block') return judgeBlock(read, readBlockHead(response.body, read.accept), oldest.version, head)
  if (keyedBy === 'transaction' && read.accept === 'json') {
    return judgeTransaction(read, readTransaction(response.body), oldest.version, head.version)
  }
  return storable({})
}

/** Why an answer must not be held even for a moment; undefined where a configured staleness may hold it. */
export function neverStoredReason ({ endpoint }: Read, response: UpstreamResponse): NotStoredReason | undefined {
  if (response.status !== 200 && !isNotFound(response, endpoint.notFoundCode)) return 'status'
  if (!response.isFramed) return 'incomplete'
  if (isContentEncoded(response)) return 'wrong_coding'
  if (response.rest !== undefined) return 'too_large'
  return response.ignoresCacheControl !== true && forbidsStoring(response) ? 'vetoed' : undefined
}

function judgeBlock (
  { requestedVersion, height, query }: Read,
  block: BlockHead | undefined,
  oldest: bigint,
  head: Head
): StoreVerdict {
  if (block === undefined) return notStorable('unreadable')
  const isAsked = height === undefined
    ? requestedVersion !== undefined && requestedVersion >= block.first && requestedVersion <= block.last
    : height === block.height
  // No node knows a block above its own head.
  if (!isAsked || block.first > head.version) return notStorable('wrong_block')
  if (block.last < oldest) return notStorable('outside_window')
  // A block is final once another follows it, by the word of its node in both numbers.
  if (block.last >= head.version || block.height >= head.blockHeight) return notStorable('newest_block')
  // Nodes cut long blocks without a word; the range tells how many transactions there are.
  const asked = query.length > 0
  if (asked && !block.counts.includes(Number(block.last - block.first) + 1)) return notStorable('truncated_block')
  if (!asked && block.counts.length > 0) return notStorable('unreadable')
  return storable({ block })
}

function judgeTransaction (
  { path, requestedVersion }: Read,
  transaction: Transaction | undefined,
  oldest: bigint,
  head: bigint
): StoreVerdict {
  if (transaction === undefined) return notStorable('unreadable')
  const { version, hash } = transaction
  if (requestedVersion === undefined ? !path.endsWith(`/${hash}`) : version !== requestedVersion) {
    return notStorable('wrong_transaction')
  }
  if (version === undefined) return notStorable('pending_transaction')
  return version < oldest || version > head ? notStorable('outside_window') : storable({ lowestVersion: version })
}

function judgeList ({ query }: Read, start: bigint, run: TransactionRun | undefined, head: bigint): StoreVerdict {
  if (run === undefined) return notStorable('unreadable')
  const { count, first, last, isContiguous } = run
  if (first === undefined || last === undefined) return notStorable('empty_page')
  if (first > start) return notStorable('pruned_page')
  const limit = query.find(([name]) => name === 'limit')?.[1]
  if (first < start || !isContiguous || count > Number(limit ?? count)) return notStorable('gapped_page')
  if (last > head) return notStorable('outside_window')
  // A list that ends before the head does was cut by a limit, be it the node's own; at the head more may follow.
  return last === head && count < Number(limit ?? count + 1)
    ? notStorable('short_page')
    : storable({ lowestVersion: start })
}

function judgePage (
  read: Read,
  requestedPage: NonNullable<Read['page']>,
  page: EventPage | undefined,
  oldest: bigint,
  head: bigint,
  { eventsTtlMs }: LifetimeOptions
): StoreVerdict {
  // Of another stream than the path names it cannot be.
  if (page === undefined || (namesStream(read) && page.count > 0 && page.stream !== read.path)) {
    return notStorable('unreadable')
  }
  const { first, lowestVersion, highestVersion } = page
  // A node that has pruned the events asked for may go on with the first that it has.
  if (first !== undefined && first > requestedPage.start) return notStorable('pruned_page')
  if (page.count < requestedPage.limit) return notStorable(page.count === 0 ? 'empty_page' : 'short_page')
  if (page.count > requestedPage.limit || first !== requestedPage.start || !page.isContiguous) {
    return notStorable('gapped_page')
  }
  if (lowestVersion === undefined || highestVersion === undefined || lowestVersion < oldest || highestVersion > head) {
    return notStorable('outside_window')
  }
  return storable({ ttlMs: eventsTtlMs, lowestVersion, page })
}

function storable (lifetime: Partial<Lifetime>): StoreVerdict {
  return {
    lifetime: { ttlMs: undefined, block: undefined, lowestVersion: undefined, page: undefined, ...lifetime },
    notStored: undefined
  }
}

function notStorable (notStored: NotStoredReason): StoreVerdict {
  return { lifetime: undefined, notStored }
}

function forbidsStoring (response: UpstreamResponse): boolean {
  const directives = headerItems(headerOf(response, 'cache-control')).map(item => item.split('=', 1).join(''))
  if (directives.some(name => name === 'no-store' || name === 'private' || name === 'no-cache')) return true
  return headerItems(headerOf(response, 'vary')).some(name => !harmlessVary.has(name))
}

function headerItems (header: string | undefined): string[] {
  return (header ?? '').toLowerCase().split(',').map(item => item.trim()).filter(item => item !== '')
}
