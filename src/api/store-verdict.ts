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
import {
  type BlockSummary,
  readBlockSummary,
  type PageSummary,
  readEventPageSummary,
  readSendPageSummary,
  readSummaryVersions,
  readTransactionSummary,
  readTransactionList,
  type TransactionSummary
} from './body-facts.js'
import { type Endpoint, type KeyedBy } from './endpoints.js'
import { itemRangesIn } from './json-scan.js'
import { namesStream, type Read } from './read.js'

/**
 * Reasons for not storing a response: the closed list of metric, log and Cache-Status (law 3: only proven history is
 * stored).
 */
export const notStoredReasons = [
  'status',
  'no_position',
  'wrong_chain',
  'wrong_type',
  'wrong_coding',
  'vetoed',
  'outside_window',
  'too_large',
  'over_budget',
  'purged',
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

/** Reason from the closed list. */
export type NotStoredReason = typeof notStoredReasons[number]

// Reasons that a response of any endpoint can give.
const ofAll = [
  'status',
  'no_position',
  'wrong_chain',
  'wrong_type',
  'wrong_coding',
  'vetoed',
  'too_large',
  'over_budget',
  'purged',
  'incomplete'
] as const
const ofBlocks = [
  'outside_window',
  'unreadable',
  'wrong_block',
  'newest_block',
  'truncated_block',
  'pending_transaction'
] as const
const ofPages = ['outside_window', 'unreadable', 'empty_page', 'short_page', 'gapped_page', 'pruned_page'] as const
const ofRanges = ['outside_window', 'unreadable', 'empty_page', 'short_page', 'gapped_page'] as const
const ofTransactions = ['outside_window', 'unreadable', 'wrong_transaction', 'pending_transaction'] as const

const ofKeying: Readonly<Record<KeyedBy, readonly NotStoredReason[]>> = {
  moving: [],
  version: ['outside_window'],
  block: ofBlocks,
  height: ofBlocks,
  transaction: ofTransactions,
  hash: ofTransactions,
  list: [...ofPages, 'pending_transaction'],
  page: ofPages,
  sends: [...ofPages, 'pending_transaction'],
  summaries: ofRanges,
  auxiliary: ofRanges
}

/** Returns every reason for which a response of an endpoint may not be stored. */
export function possibleReasonsOf ({ keyedBy }: Pick<Endpoint, 'keyedBy'>): readonly NotStoredReason[] {
  return [...ofAll, ...ofKeying[keyedBy]]
}

/** Lifetime of lists that can change: a path can lead to another stream (docs/node-behaviour.md, "Event streams"). */
interface LifetimeOptions {
  readonly eventsTtlSeconds: number
}

/** Lifetime of a stored response, and the history that it covers. */
export interface Lifetime {
  /** Undefined if the entry never expires. */
  readonly ttlMs: number | undefined
  /** Block in the response; the entry is valid for every version inside the block. */
  readonly block: BlockSummary | undefined
  /** Lowest version in the response, for reads that name no version. */
  readonly lowestVersion: bigint | undefined
}

/** Verdict on a response: its lifetime, or the reason why it is not stored. */
export type StoreVerdict =
  | { readonly lifetime: Lifetime, readonly notStored: undefined }
  | { readonly lifetime: undefined, readonly notStored: NotStoredReason }

/** Response of an upstream with its verdict. */
export interface JudgedResponse {
  readonly response: UpstreamResponse
  readonly verdict: StoreVerdict
}

// Names in Vary that change no response under one key: they are in the key, or never sent upstream.
const harmlessVary = new Set(['accept', 'accept-encoding', 'origin'])

/**
 * Returns the reason why a response cannot be correct, so it is neither stored nor sent (docs/node-behaviour.md, "False
 * successes").
 */
export function impossibleReason (read: Read, response: UpstreamResponse): NotStoredReason | undefined {
  // Rejects 201 to 399, because requests carry no Range and no condition, and redirects are not followed.
  if (response.status !== 200) return response.status < 400 ? 'status' : undefined
  if (!response.isFramed) return 'incomplete'
  if (isContentEncoded(response)) return 'wrong_coding'
  // Allows node info without a position, unless its body shows an error.
  if (response.stamped === undefined && (read.endpoint.name !== 'info' || errorCodeOf(response) !== undefined)) {
    return 'no_position'
  }
  // Rejects versions above the stamped head: no node knows them, and sending that head would deny the version (law 4:
  // headers are the present, bodies are the past).
  if (
    response.stamped !== undefined && read.requestedVersion !== undefined &&
    read.requestedVersion > response.stamped.position.head.version
  ) return 'outside_window'
  return mediaTypeOf(response) === mediaTypes[read.accept] ? undefined : 'wrong_type'
}

/**
 * Judges a response that is not impossible: returns the lifetime of proven history, else the reason against storing
 * (law 3: only proven history is stored).
 */
export function judge (read: Read, response: UpstreamResponse, options: LifetimeOptions): StoreVerdict {
  const notStored = neverStoredReason(read, response)
  if (notStored !== undefined) return notStorable(notStored)
  // A response without a position proves nothing about any version.
  if (response.stamped === undefined) return notStorable('no_position')
  const { head, oldest } = response.stamped.position
  const { keyedBy } = read.endpoint
  if (read.page !== undefined && keyedBy === 'auxiliary') {
    return judgeAuxiliary(read.page, itemRangesIn(response.body)?.length, oldest.version, head.version)
  }
  if (read.page !== undefined) {
    const readPage = keyedBy === 'page' ? readEventPageSummary : readSendPageSummary
    return judgePage(read, read.page, readPage(response.body), oldest.version, head.version, options)
  }
  if (keyedBy === 'summaries' && read.mayBeMoving) {
    return judgeSummaries(read, readSummaryVersions(response.body, read.path), oldest.version, head.version, options)
  }
  if (keyedBy === 'hash' && read.mayBeMoving) {
    return judgeTransaction(read, readTransactionSummary(response.body), oldest.version, head.version)
  }
  if (keyedBy === 'height') return judgeBlock(read, readBlockSummary(response.body, read.accept), oldest.version, head)
  if (
    read.requestedVersion === undefined || read.requestedVersion < oldest.version ||
    read.requestedVersion > head.version
  ) {
    return notStorable('outside_window')
  }
  if (keyedBy === 'list') {
    return judgeList(read, read.requestedVersion, readTransactionList(response.body), head.version)
  }
  if (keyedBy === 'block') return judgeBlock(read, readBlockSummary(response.body, read.accept), oldest.version, head)
  if (keyedBy === 'transaction' && read.accept === 'json') {
    return judgeTransaction(read, readTransactionSummary(response.body), oldest.version, head.version)
  }
  return storable({})
}

/** Returns the reason why not even the micro-cache may store a response; undefined if it may. */
export function neverStoredReason ({ endpoint }: Read, response: UpstreamResponse): NotStoredReason | undefined {
  if (response.status !== 200 && !isNotFound(response, endpoint.notFoundCode)) return 'status'
  if (!response.isFramed) return 'incomplete'
  if (isContentEncoded(response)) return 'wrong_coding'
  if (response.rest !== undefined) return response.isOverBudget === true ? 'over_budget' : 'too_large'
  return response.ignoresCacheControl !== true && forbidsStoring(response) ? 'vetoed' : undefined
}

function judgeBlock (
  { requestedVersion, height, query }: Read,
  block: BlockSummary | undefined,
  oldest: bigint,
  head: Head
): StoreVerdict {
  if (block === undefined) return notStorable('unreadable')
  const isRequestedBlock = height === undefined
    ? requestedVersion !== undefined && requestedVersion >= block.first && requestedVersion <= block.last
    : height === block.height
  // No node knows a block above its own head.
  if (!isRequestedBlock || block.first > head.version) return notStorable('wrong_block')
  if (block.last < oldest) return notStorable('outside_window')
  // A block is final once another follows; the stamped version and height must both show it (docs/node-behaviour.md,
  // "Blocks").
  if (block.last >= head.version || block.height >= head.blockHeight) return notStorable('newest_block')
  // Nodes cut long blocks without any sign; the version range gives the true count (docs/node-behaviour.md, "Blocks").
  const wantsTransactions = query.length > 0
  if (wantsTransactions && !block.counts.includes(Number(block.last - block.first) + 1)) {
    return notStorable('truncated_block')
  }
  if (!wantsTransactions && block.counts.length > 0) return notStorable('unreadable')
  if (!block.isSettled) return notStorable('pending_transaction')
  return storable({ block })
}

function judgeTransaction (
  { path, requestedVersion }: Read,
  transaction: TransactionSummary | undefined,
  oldest: bigint,
  head: bigint
): StoreVerdict {
  if (transaction === undefined) return notStorable('unreadable')
  const { version, hash, isSettled } = transaction
  if (requestedVersion === undefined ? !path.endsWith(`/${hash}`) : version !== requestedVersion) {
    return notStorable('wrong_transaction')
  }
  if (version === undefined || !isSettled) return notStorable('pending_transaction')
  return version < oldest || version > head ? notStorable('outside_window') : storable({ lowestVersion: version })
}

function judgeList (
  { query }: Read,
  start: bigint,
  summary: PageSummary | undefined,
  head: bigint
): StoreVerdict {
  if (summary === undefined) return notStorable('unreadable')
  const { count, first, last, isContiguous, isSettled } = summary
  if (first === undefined || last === undefined) return notStorable('empty_page')
  if (first > start) return notStorable('pruned_page')
  const limit = query.find(([name]) => name === 'limit')?.[1]
  if (first < start || !isContiguous || count > Number(limit ?? count)) return notStorable('gapped_page')
  if (last > head) return notStorable('outside_window')
  if (!isSettled) return notStorable('pending_transaction')
  // A list that ends below the head was cut by a limit, perhaps the node's own; at the head more may follow.
  return last === head && count < Number(limit ?? count + 1)
    ? notStorable('short_page')
    : storable({ lowestVersion: start })
}

function judgePage (
  read: Read,
  requestedPage: NonNullable<Read['page']>,
  page: PageSummary | undefined,
  oldest: bigint,
  head: bigint,
  { eventsTtlSeconds }: LifetimeOptions
): StoreVerdict {
  // Rejects items of another stream or sender than the path names.
  if (page === undefined || (namesStream(read) && page.count > 0 && page.stream !== read.path)) {
    return notStorable('unreadable')
  }
  const { first, lowestVersion, highestVersion } = page
  // A node that pruned the requested events may start at the first that it has (docs/node-behaviour.md, "Pruned
  // events").
  if (first !== undefined && first > requestedPage.start) return notStorable('pruned_page')
  if (page.count < requestedPage.limit) return notStorable(page.count === 0 ? 'empty_page' : 'short_page')
  if (page.count > requestedPage.limit || first !== requestedPage.start || !page.isContiguous) {
    return notStorable('gapped_page')
  }
  if (lowestVersion === undefined || highestVersion === undefined || lowestVersion < oldest || highestVersion > head) {
    return notStorable('outside_window')
  }
  if (!page.isSettled) return notStorable('pending_transaction')
  // A sender's pages never expire, because their path can lead to no other stream.
  return storable({ ttlMs: read.endpoint.keyedBy === 'page' ? eventsTtlSeconds * 1000 : undefined, lowestVersion })
}

function judgeSummaries (
  { query }: Read,
  versions: readonly bigint[] | undefined,
  oldest: bigint,
  head: bigint,
  { eventsTtlSeconds }: LifetimeOptions
): StoreVerdict {
  if (versions === undefined) return notStorable('unreadable')
  const { start_version: start = 0n, end_version: end, limit } = Object.fromEntries(
    query.map(([name, value]) => [name, BigInt(value)])
  )
  // A node without the beginning of the range lists what it has (docs/node-behaviour.md, "Transactions").
  if (start < oldest) return notStorable('outside_window')
  let least = start
  for (const version of versions) {
    if (version < least || (end !== undefined && version > end)) return notStorable('gapped_page')
    least = version + 1n
  }
  if (limit !== undefined && versions.length > limit) return notStorable('gapped_page')
  if (versions.some(version => version > head)) return notStorable('outside_window')
  const isFull = limit === BigInt(versions.length)
  if (!isFull && (end === undefined || end > head)) {
    return notStorable(versions.length === 0 ? 'empty_page' : 'short_page')
  }
  // Expires, because a node may list too few summaries until its index has all of its history.
  return storable({ ttlMs: eventsTtlSeconds * 1000, lowestVersion: start })
}

function judgeAuxiliary (
  { start, limit }: NonNullable<Read['page']>,
  count: number | undefined,
  oldest: bigint,
  head: bigint
): StoreVerdict {
  if (count === undefined) return notStorable('unreadable')
  if (count < limit) return notStorable(count === 0 ? 'empty_page' : 'short_page')
  if (count > limit) return notStorable('gapped_page')
  // Relies on the window, because items have no version: nothing else shows that no item was pruned and none may be
  // added.
  return start < oldest || start + limit - 1n > head
    ? notStorable('outside_window')
    : storable({ lowestVersion: start })
}

function storable (lifetime: Partial<Lifetime>): StoreVerdict {
  return {
    lifetime: { ttlMs: undefined, block: undefined, lowestVersion: undefined, ...lifetime },
    notStored: undefined
  }
}

function notStorable (notStored: NotStoredReason): StoreVerdict {
  return { lifetime: undefined, notStored }
}

function forbidsStoring (response: UpstreamResponse): boolean {
  if (response.headers['cache-control'] === undefined && response.headers['vary'] === undefined) return false
  const directives = headerItems(headerOf(response, 'cache-control')).map(item => item.split('=', 1).join(''))
  if (directives.some(name => name === 'no-store' || name === 'private' || name === 'no-cache')) return true
  return headerItems(headerOf(response, 'vary')).some(name => !harmlessVary.has(name))
}

function headerItems (header: string | undefined): string[] {
  return (header ?? '').toLowerCase().split(',').map(item => item.trim()).filter(item => item !== '')
}
