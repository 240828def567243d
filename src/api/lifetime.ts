import { type Head } from './position.js'
import { mediaTypes } from './accept.js'
import { type Answer, errorCodeOf, headerOf, isCoded, isNotFound, mediaTypeOf } from './answer.js'
import { type BlockHead, readBlockHead } from './block-head.js'
import { type EventPage, readEventPage } from './event-page.js'
import { namesStream, type Read } from './read.js'
import { readTransaction, readTransactions, type Transaction, type TransactionRun } from './transaction.js'

/** Why an answer was not kept: the closed list that metric, log and Cache-Status share (law 3). */
export const notKeptReasons = [
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
export type NotKeptReason = typeof notKeptReasons[number]

/** What an answer is judged against. */
export interface Bounds {
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
export type Verdict =
  | { readonly lifetime: Lifetime, readonly notKept: undefined }
  | { readonly lifetime: undefined, readonly notKept: NotKeptReason }

/** A node's answer and what is to be thought of it. */
export interface Judged {
  readonly answer: Answer
  readonly verdict: Verdict
}

// Names in Vary that varve keys by or never sends upstream; any other means the answer depends on what is not in the
// key.
const harmlessVary = new Set(['accept', 'accept-encoding', 'origin'])

/**
 * Gives the reason why a response cannot be true, so that it is neither stored nor sent to a client:
 * docs/node-behaviour.md, "False successes".
 */
export function untruth (read: Read, answer: Answer): NotKeptReason | undefined {
  // Nothing was asked for in parts, under a condition or elsewhere.
  if (answer.status !== 200) return answer.status < 400 ? 'status' : undefined
  if (!answer.isFramed) return 'incomplete'
  if (isCoded(answer)) return 'wrong_coding'
  // Node info need not bear one; there the body alone tells an error.
  if (answer.stamped === undefined && (read.endpoint.name !== 'info' || errorCodeOf(answer) !== undefined)) {
    return 'no_position'
  }
  // No node knows a version above its own head; showing that head with it would deny the version (law 4).
  if (
    answer.stamped !== undefined && read.speaksOf !== undefined && read.speaksOf > answer.stamped.position.head.version
  ) return 'outside_window'
  return mediaTypeOf(answer) === mediaTypes[read.accept] ? undefined : 'wrong_type'
}

/** Judges an answer that is no untruth: whether it is proven history (law 3), and how long it stays true. */
export function judge (read: Read, answer: Answer, bounds: Bounds): Verdict {
  const notKept = whyNeverKept(read, answer)
  if (notKept !== undefined) return refused(notKept)
  // What bears no position is no word on any version.
  if (answer.stamped === undefined) return refused('no_position')
  const { head, oldest } = answer.stamped.position
  if (read.page !== undefined) {
    return judgePage(read, read.page, readEventPage(answer.body), oldest.version, head.version, bounds)
  }
  const { keyedBy } = read.endpoint
  if (keyedBy === 'hash' && read.isOpen) {
    return judgeTransaction(read, readTransaction(answer.body), oldest.version, head.version)
  }
  if (keyedBy === 'height') return judgeBlock(read, readBlockHead(answer.body, read.accept), oldest.version, head)
  if (read.speaksOf === undefined || read.speaksOf < oldest.version || read.speaksOf > head.version) {
    return refused('outside_window')
  }
  if (keyedBy === 'list') return judgeList(read, read.speaksOf, readTransactions(answer.body), head.version)
  if (keyedBy === 'block') return judgeBlock(read, readBlockHead(answer.body, read.accept), oldest.version, head)
  if (keyedBy === 'transaction' && read.accept === 'json') {
    return judgeTransaction(read, readTransaction(answer.body), oldest.version, head.version)
  }
  return kept({})
}

/** Why an answer must not be held even for a moment; undefined where a configured staleness may hold it. */
export function whyNeverKept ({ endpoint }: Read, answer: Answer): NotKeptReason | undefined {
  if (answer.status !== 200 && !isNotFound(answer, endpoint.notFound)) return 'status'
  if (!answer.isFramed) return 'incomplete'
  if (isCoded(answer)) return 'wrong_coding'
  if (answer.rest !== undefined) return 'too_large'
  return answer.isVetoVoid !== true && isVetoed(answer) ? 'vetoed' : undefined
}

function judgeBlock (
  { speaksOf, height, query }: Read,
  block: BlockHead | undefined,
  oldest: bigint,
  head: Head
): Verdict {
  if (block === undefined) return refused('unreadable')
  const isAsked = height === undefined
    ? speaksOf !== undefined && speaksOf >= block.first && speaksOf <= block.last
    : height === block.height
  // No node knows a block above its own head.
  if (!isAsked || block.first > head.version) return refused('wrong_block')
  if (block.last < oldest) return refused('outside_window')
  // A block is final once another follows it, by the word of its node in both numbers.
  if (block.last >= head.version || block.height >= head.blockHeight) return refused('newest_block')
  // Nodes cut long blocks without a word; the range tells how many transactions there are.
  const asked = query.length > 0
  if (asked && !block.counts.includes(Number(block.last - block.first) + 1)) return refused('truncated_block')
  if (!asked && block.counts.length > 0) return refused('unreadable')
  return kept({ block })
}

function judgeTransaction (
  { path, speaksOf }: Read,
  transaction: Transaction | undefined,
  oldest: bigint,
  head: bigint
): Verdict {
  if (transaction === undefined) return refused('unreadable')
  const { version, hash } = transaction
  if (speaksOf === undefined ? !path.endsWith(`/${hash}`) : version !== speaksOf) return refused('wrong_transaction')
  if (version === undefined) return refused('pending_transaction')
  return version < oldest || version > head ? refused('outside_window') : kept({ lowestVersion: version })
}

function judgeList ({ query }: Read, start: bigint, run: TransactionRun | undefined, head: bigint): Verdict {
  if (run === undefined) return refused('unreadable')
  const { count, first, last, isContiguous } = run
  if (first === undefined || last === undefined) return refused('empty_page')
  if (first > start) return refused('pruned_page')
  const limit = query.find(([name]) => name === 'limit')?.[1]
  if (first < start || !isContiguous || count > Number(limit ?? count)) return refused('gapped_page')
  if (last > head) return refused('outside_window')
  // A list that ends before the head does was cut by a limit, be it the node's own; at the head more may follow.
  return last === head && count < Number(limit ?? count + 1) ? refused('short_page') : kept({ lowestVersion: start })
}

function judgePage (
  read: Read,
  asked: NonNullable<Read['page']>,
  page: EventPage | undefined,
  oldest: bigint,
  head: bigint,
  { eventsTtlMs }: Bounds
): Verdict {
  // Of another stream than the path names it cannot be.
  if (page === undefined || (namesStream(read) && page.count > 0 && page.stream !== read.path)) {
    return refused('unreadable')
  }
  const { first, lowestVersion, highestVersion } = page
  // A node that has pruned the events asked for may go on with the first that it has.
  if (first !== undefined && first > asked.start) return refused('pruned_page')
  if (page.count < asked.limit) return refused(page.count === 0 ? 'empty_page' : 'short_page')
  if (page.count > asked.limit || first !== asked.start || !page.isContiguous) return refused('gapped_page')
  if (lowestVersion === undefined || highestVersion === undefined || lowestVersion < oldest || highestVersion > head) {
    return refused('outside_window')
  }
  return kept({ ttlMs: eventsTtlMs, lowestVersion, page })
}

function kept (lifetime: Partial<Lifetime>): Verdict {
  return {
    lifetime: { ttlMs: undefined, block: undefined, lowestVersion: undefined, page: undefined, ...lifetime },
    notKept: undefined
  }
}

function refused (notKept: NotKeptReason): Verdict {
  return { lifetime: undefined, notKept }
}

function isVetoed (answer: Answer): boolean {
  const directives = listOf(headerOf(answer, 'cache-control')).map(item => item.split('=', 1).join(''))
  if (directives.some(name => name === 'no-store' || name === 'private' || name === 'no-cache')) return true
  return listOf(headerOf(answer, 'vary')).some(name => !harmlessVary.has(name))
}

function listOf (header: string | undefined): string[] {
  return (header ?? '').toLowerCase().split(',').map(item => item.trim()).filter(item => item !== '')
}
