import { mediaTypes } from '../api/accept.js'
import { type ResponsePosition } from '../api/position.js'
import { transactionsTarget } from '../api/request-targets.js'
import { reportsInvalidInput, reportsPruned, type UpstreamResponse } from '../api/upstream-response.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { type FollowedHead } from './ledger-knowledge.js'
import { readTouchedKeys, type TransactionDigest } from './transaction-digest.js'
import { verifyWriteSets, type VerifyResult } from './verify-write-sets.js'

/** Results of reading the tail of the ledger. */
export const tailResults = ['ok', 'empty', 'failed', 'gap', 'mismatch'] as const

/** Result of one reading of the tail. */
export type TailResult = typeof tailResults[number]

/** Result of one reading: transactions after the head, and the position that they reach, if they reach one. */
export interface TailReading {
  readonly result: TailResult
  readonly transactions: readonly TransactionDigest[]
  readonly stamped: ResponsePosition | undefined
  /** Reason of a result that is neither `ok` nor `empty`. */
  readonly reason?: string | undefined
  /** True if the upstream does not serve lists of transactions. */
  readonly isUnsupported?: boolean
}

/** Transport and counters of a tail reader. */
export interface TailReaderOptions {
  /** Sends a request for a version to an upstream; undefined if none responds. */
  readonly fetch: (request: UpstreamRequest, version: bigint | undefined) => Promise<UpstreamResponse | undefined>
  readonly isOurChain: (stamped: ResponsePosition) => boolean
  /** Returns true if a page should be checked in BCS. */
  readonly shouldVerify: () => boolean
  /** Returns true if a page that could not be checked is a change of everything. */
  readonly requiresVerified: () => boolean
  readonly onVerified: (result: VerifyResult) => void
  /** Counts the bytes of a page. */
  readonly onBytes: (bytes: number) => void
}

/** Contiguous transactions after the head, with the position stamped on their page. */
interface Page {
  readonly transactions: readonly TransactionDigest[]
  readonly stamped: ResponsePosition
  /** True if a larger page failed, so that this one says nothing about the right size of pages. */
  readonly isHalved?: boolean
}

type PageResult = Page | { readonly failure: TailReading }

// Nodes clamp larger limits without a word (docs/node-behaviour.md, "Page limits").
const pageLimit = 100
// Number of pages that are requested together.
const maxParallelPages = 8
// Largest gap that is read page by page; beyond it, knowledge begins again at the head.
const maxPagesBehind = 50
// Most failing versions that one reading steps over.
const maxSteps = 3

/**
 * Reads the transactions after a head. Pages overlap by one transaction, whose accumulator root commits to the whole
 * history, so another chain is recognised (law 7: chains never mix). The position header names the end of the tail.
 */
export class TailReader {
  readonly #options: TailReaderOptions

  constructor (options: TailReaderOptions) {
    this.#options = options
  }

  /** Reads the newest transaction, from which following begins. */
  async readHead (): Promise<TailReading> {
    const page = await this.#fetchPage(undefined, 1)
    if ('failure' in page) return page.failure
    const { stamped, transactions } = page
    return transactions[0]?.version === stamped.position.head.version
      ? { result: 'ok', transactions, stamped }
      : failed('the newest transaction is not at the position of its response')
  }

  /** Reads everything after a head, or as much as upstreams have. */
  async readAfter (head: FollowedHead): Promise<TailReading> {
    const first = await this.#readPage(head, pageLimit)
    if ('failure' in first) return first.failure
    const transactions = [...first.transactions]
    const { stamped } = first
    const end = stamped.position.head.version
    const perPage = BigInt(first.transactions.length)
    if (end > head.version && perPage === 0n) return failed('a page ends before the position of its response')
    let last: FollowedHead = transactions.at(-1) ?? head
    while (last.version < end && first.isHalved !== true) {
      const pages = (end - last.version + perPage - 1n) / perPage
      if (pages > maxPagesBehind) return { result: 'gap', transactions: [], stamped, reason: 'too far behind the head' }
      const more = await this.#readPages(last, perPage, Number(pages))
      const next = more.at(-1)
      // Returns the proven transactions; the next reading brings the rest.
      if (next === undefined) return { result: 'ok', transactions, stamped: undefined }
      transactions.push(...more)
      last = next
    }
    const result = transactions.length === 0 ? 'empty' : 'ok'
    return { result, transactions, stamped: last.version === end ? stamped : undefined }
  }

  /** Reads pages after a head together, and returns those that follow each other. */
  async #readPages (head: FollowedHead, perPage: bigint, count: number): Promise<readonly TransactionDigest[]> {
    const pages = await Promise.all(
      Array.from(
        { length: Math.min(count, maxParallelPages) },
        (_, index) => this.#fetchPage(head.version + BigInt(index) * perPage, Number(perPage) + 1)
      )
    )
    const transactions: TransactionDigest[] = []
    let last = head
    for (const page of pages) {
      const next = 'failure' in page ? undefined : following(last, page.transactions)
      if (next === undefined || next.length === 0) break
      transactions.push(...next)
      last = next.at(-1) ?? last
    }
    return transactions
  }

  /**
   * Reads one page after a head. Halves a page that fails on its content, down to a single version, which is stepped
   * over.
   */
  async #readPage (head: FollowedHead, limit: number, stepsLeft = maxSteps): Promise<PageResult> {
    // Requests no overlap after a version that was stepped over, which has no root to compare.
    const hasOverlap = head.root !== undefined
    const page = await this.#fetchPage(hasOverlap ? head.version : head.version + 1n, limit, hasOverlap)
    if ('failure' in page) {
      if (page.failure.reason !== unreadablePage) return page
      if (limit <= 2) return await this.#stepOver(head, stepsLeft)
      const half = await this.#readPage(head, Math.ceil(limit / 2), stepsLeft)
      return 'failure' in half ? half : { ...half, isHalved: true }
    }
    if (head.root === undefined) {
      return page.transactions[0]?.version === head.version + 1n && areContiguous(page.transactions)
        ? page
        : noPage('a page does not begin where it was requested')
    }
    if (page.transactions[0]?.version === head.version && page.transactions[0].root !== head.root) {
      const reason = `another accumulator root at version ${head.version}`
      return { failure: { result: 'mismatch', transactions: [], stamped: page.stamped, reason } }
    }
    const transactions = following(head, page.transactions)
    return transactions === undefined
      ? noPage('the transactions of a page do not follow each other')
      : { transactions, stamped: page.stamped }
  }

  /** Takes the version after a head for a change of everything, because no upstream can print it. */
  async #stepOver (head: FollowedHead, stepsLeft: number): Promise<PageResult> {
    if (stepsLeft === 0) return noPage(unreadablePage)
    if (head.root !== undefined) {
      // Steps over nothing if the upstream cannot print the head either: the failure is not of one version.
      const own = await this.#fetchPage(head.version, 1)
      if ('failure' in own) return own
    }
    const version = head.version + 1n
    const skipped: TransactionDigest = {
      version,
      root: undefined,
      hashes: undefined,
      touched: [],
      touchesAll: 'unreadable'
    }
    const rest = await this.#readPage({ version, root: undefined }, pageLimit, stepsLeft - 1)
    if ('failure' in rest) return rest
    return { transactions: [skipped, ...rest.transactions], stamped: rest.stamped }
  }

  async #fetchPage (start: bigint | undefined, limit: number, hasOverlap = true): Promise<PageResult> {
    const target = transactionsTarget(start, limit)
    const response = await this.#fetch(target, start, mediaTypes.json)
    const stamped = response?.stamped
    if (response === undefined) return noPage('no upstream responds')
    if (stamped !== undefined && !this.#options.isOurChain(stamped)) return noPage('a response of another chain')
    if (reportsPruned(response)) {
      return { failure: { result: 'gap', transactions: [], stamped, reason: 'the tail is pruned' } }
    }
    if (reportsInvalidInput(response) && stamped !== undefined && start !== undefined) {
      // A response from behind the head says nothing about later versions.
      return { failure: { result: 'empty', transactions: [], stamped: undefined } }
    }
    if (response.status === 500 || (response.status === 200 && response.rest !== undefined)) {
      return noPage(unreadablePage)
    }
    if (response.status !== 200) {
      const failure = failed(`the upstream responds to lists of transactions with ${response.status}`)
      return { failure: { ...failure, isUnsupported: unsupportedStatuses.has(response.status) } }
    }
    const transactions = await readTouchedKeys(response.body)
    if (transactions === undefined || stamped === undefined) return noPage('a page of transactions is not readable')
    this.#options.onBytes(response.body.length)
    return { transactions: await this.#verified(transactions, start, hasOverlap), stamped }
  }

  /** Checks a share of the pages; if all must be checked, an unchecked page is a change of everything. */
  async #verified (
    transactions: readonly TransactionDigest[],
    start: bigint | undefined,
    hasOverlap: boolean
  ): Promise<readonly TransactionDigest[]> {
    const isNothingNew = transactions.length <= Number(hasOverlap)
    if (start === undefined || isNothingNew || !this.#options.shouldVerify()) return transactions
    const response = await this.#fetch(transactionsTarget(start, transactions.length), start, mediaTypes.bcs)
    const result = response?.status === 200 && response.rest === undefined
      ? await verifyWriteSets(transactions, response.body)
      : 'unavailable'
    this.#options.onBytes(response?.body.length ?? 0)
    this.#options.onVerified(result)
    return result === 'unavailable' && this.#options.requiresVerified()
      ? transactions.map(each => ({ ...each, touchesAll: 'unverified' as const }))
      : transactions
  }

  async #fetch (target: string, version: bigint | undefined, accept: string): Promise<UpstreamResponse | undefined> {
    const response = await this.#options.fetch({
      endpoint: 'transactions',
      method: 'GET',
      target,
      // A cache between varve and the node would hide new transactions.
      headers: { accept, 'cache-control': 'no-cache' },
      isIdempotent: true,
      // One reading serves every latest read, so it must not queue behind thousands of clients.
      isProbe: true
    }, version)
    response?.rest?.destroy()
    return response
  }
}

// Statuses of an upstream or a gateway that has no such route, or has it turned off.
const unsupportedStatuses = new Set([403, 404, 405, 501])

const unreadablePage = 'a page of transactions cannot be printed or is too large'

function failed (reason: string): TailReading {
  return { result: 'failed', transactions: [], stamped: undefined, reason }
}

function noPage (reason: string): { readonly failure: TailReading } {
  return { failure: failed(reason) }
}

/** Returns the transactions of a page after a head that it begins at; undefined if they do not follow it. */
function following (head: FollowedHead, page: readonly TransactionDigest[]): readonly TransactionDigest[] | undefined {
  const [overlap, ...rest] = page
  return overlap?.version === head.version && overlap.root === head.root && areContiguous(page) ? rest : undefined
}

function areContiguous (page: readonly TransactionDigest[]): boolean {
  return page.every(({ version }, index) => index === 0 || version === (page[index - 1]?.version ?? 0n) + 1n)
}
