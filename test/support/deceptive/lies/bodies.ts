import {
  blockBody,
  eventOf,
  hex,
  type ReadKind,
  eventsOfAccount,
  pageBody,
  transactionBody,
  type TrueResponse,
  versionOf as version
} from '../read-kinds.js'
import { type Lie, type ExpectedOutcome } from '../try-lies.js'
import { thenKeepAlive, responseBytes } from '../response-bytes.js'

const only =
  (names: readonly string[], seen: (body: string, truth: TrueResponse) => ExpectedOutcome) =>
  (bodyOf: (nth: number) => string): Pick<Lie, 'respond' | 'cacheable' | 'forwarded'> => ({
    respond: truth => thenKeepAlive(responseBytes(truth, { body: bodyOf(truth.nth) })),
    cacheable: (truth, kind: ReadKind) => names.includes(kind.name) ? seen(bodyOf(truth.nth), truth) : undefined,
    forwarded: undefined
  })
const rejected = (...names: string[]): ReturnType<typeof only> => only(names, () => 'rejected')
const handed = (...names: string[]): ReturnType<typeof only> => only(names, body => ({ status: 200, body }))

const rejectedBlock = rejected('block', 'block of a height')
const handedBlock = handed('block', 'block of a height')
const handedPage = handed('events')

/** Blocks that are not the requested one, or not certainly. */
export const blockLies: readonly Lie[] = [
  { name: 'the block before', ...rejectedBlock(nth => blockBody(nth - 1)), reason: 'wrong_block' },
  { name: 'the block after', ...rejectedBlock(nth => blockBody(nth + 1)), reason: 'wrong_block' },
  {
    name: 'a block of no versions',
    ...handedBlock(nth =>
      blockBody(nth, { first_version: String(version(nth) + 1), last_version: String(version(nth) - 1) })
    ),
    reason: 'unreadable'
  },
  {
    name: 'a height twice',
    ...handedBlock(nth => `{"block_height":"${nth + 1}",${blockBody(nth).slice(1)}`),
    reason: 'unreadable'
  },
  {
    name: 'a first version twice, once escaped',
    ...handedBlock(nth => `{"first_\\u0076ersion":"0",${blockBody(nth).slice(1)}`),
    reason: 'unreadable'
  },
  {
    name: 'transactions twice',
    ...handedBlock(nth => `{"transactions":[],${blockBody(nth).slice(1)}`),
    reason: 'unreadable'
  },
  {
    name: 'a block that goes on to the head',
    ...handedBlock(nth => blockBody(nth, { last_version: '1000000' })),
    reason: 'newest_block'
  },
  {
    name: 'a block that goes on to 2^64-1',
    ...handedBlock(nth => blockBody(nth, { last_version: '18446744073709551615' })),
    reason: 'newest_block'
  },
  {
    name: 'a height above the head',
    ...handed('block')(nth => blockBody(nth, { block_height: '100000' })),
    reason: 'newest_block'
  },
  {
    name: 'another height with the same versions',
    ...rejected('block of a height')(nth => blockBody(nth, { block_height: String(nth + 1) })),
    reason: 'wrong_block'
  },
  {
    name: 'a height whose versions are above the head',
    ...rejected('block of a height')(nth => blockBody(nth, { first_version: '1000001', last_version: '1000002' })),
    reason: 'wrong_block'
  },
  {
    name: 'numbers for texts',
    ...handedBlock(nth => blockBody(nth, { first_version: nth * 10 })),
    reason: 'unreadable'
  },
  {
    name: 'a height beyond u64',
    ...handedBlock(nth => blockBody(nth, { block_height: '18446744073709551616' })),
    reason: 'unreadable'
  },
  { name: 'a negative version', ...handedBlock(nth => blockBody(nth, { first_version: '-1' })), reason: 'unreadable' },
  {
    name: 'transactions that were not requested',
    ...handedBlock(nth => blockBody(nth, { transactions: [{}] })),
    reason: 'unreadable'
  },
  ...[{}, 'x', 7, true].map((transactions): Lie => ({
    name: `transactions that are ${JSON.stringify(transactions)}`,
    ...handedBlock(nth => blockBody(nth, { transactions })),
    reason: 'unreadable'
  })),
  {
    name: 'an error in place of the block',
    ...handedBlock(() => '{"message":"gone","error_code":"internal_error","vm_error_code":null}'),
    reason: 'unreadable'
  },
  { name: 'two blocks', ...handedBlock(nth => blockBody(nth) + blockBody(nth)), reason: 'unreadable' },
  { name: 'nothing', ...handedBlock(() => ''), reason: 'unreadable' },
  { name: 'half of a block', ...handedBlock(nth => blockBody(nth).slice(0, 60)), reason: 'unreadable' }
]

const page = (...events: readonly object[]) => (nth: number) => pageBody(events, nth)

/** Pages of events that are not the requested ones, 5 and 6, or not certainly. */
export const pageLies: readonly Lie[] = [
  { name: 'a page with a gap', ...handedPage(page(eventOf(5), eventOf(7))), reason: 'gapped_page' },
  { name: 'an event twice', ...handedPage(page(eventOf(5), eventOf(5))), reason: 'gapped_page' },
  { name: 'events in the wrong order', ...handedPage(page(eventOf(6), eventOf(5))), reason: 'pruned_page' },
  { name: 'a page from an earlier start', ...handedPage(page(eventOf(4), eventOf(5))), reason: 'gapped_page' },
  { name: 'a page from a later start', ...handedPage(page(eventOf(6), eventOf(7))), reason: 'pruned_page' },
  {
    name: 'more events than were requested',
    ...handedPage(page(eventOf(5), eventOf(6), eventOf(7))),
    reason: 'gapped_page'
  },
  {
    name: 'events of two streams',
    ...handedPage(page(eventOf(5), eventOf(6, { guid: { creation_number: '3', account_address: '0x1' } }))),
    reason: 'gapped_page'
  },
  {
    name: 'events of two accounts',
    ...handedPage(page(eventOf(5), eventOf(6, { guid: { creation_number: '2', account_address: '0x2' } }))),
    reason: 'gapped_page'
  },
  {
    name: 'versions that fall',
    ...handedPage(page(eventOf(5), eventOf(6, { version: '499' }))),
    reason: 'gapped_page'
  },
  {
    name: 'versions beyond the head',
    ...handedPage(page(eventOf(5), eventOf(6, { version: '1000001' }))),
    reason: 'outside_window'
  },
  {
    name: 'versions before the window',
    ...handedPage(page(eventOf(5, { version: '9' }), eventOf(6))),
    reason: 'outside_window'
  },
  {
    name: 'a number beyond u64',
    ...handedPage(page(eventOf(5), eventOf('18446744073709551616'))),
    reason: 'unreadable'
  },
  {
    name: 'numbers for texts',
    ...handedPage(page(eventOf(5), eventOf(6, { sequence_number: 6 }))),
    reason: 'unreadable'
  },
  {
    name: 'a number that stands in the data alone',
    ...handedPage(page(eventOf(5), eventOf(6, { sequence_number: undefined, data: { sequence_number: '6' } }))),
    reason: 'unreadable'
  },
  {
    name: 'a number twice',
    ...handedPage(nth =>
      eventsOfAccount(
        `[${JSON.stringify(eventOf(5))},{"sequence_number":"6",${JSON.stringify(eventOf(6)).slice(1)}]`,
        nth
      )
    ),
    reason: 'unreadable'
  },
  { name: 'an empty page', ...handedPage(page()), reason: 'empty_page' },
  { name: 'a short page', ...handedPage(page(eventOf(5))), reason: 'short_page' },
  { name: 'no page', ...handedPage(() => '{"0":{}}'), reason: 'unreadable' },
  {
    name: 'an error in place of a page',
    ...handedPage(() => '{"message":"gone","error_code":"internal_error","vm_error_code":null}'),
    reason: 'unreadable'
  }
]

const rejectedTransaction = rejected('transaction', 'transaction of a hash')
const handedTransaction = handed('transaction', 'transaction of a hash')
const pending = (nth: number, change: Record<string, unknown> = {}): string =>
  transactionBody(nth, { type: 'pending_transaction', version: undefined, ...change })
const run =
  (...of: ReadonlyArray<readonly [ahead: number, change?: Record<string, unknown>]>) => (nth: number): string =>
    `[${
      of.map(([ahead, change]) => transactionBody(nth, { version: String(version(nth) + ahead), ...change })).join()
    }]`
const handedRun = handed('transactions')

/** Transactions that are not the requested ones, or not certainly. */
export const transactionLies: readonly Lie[] = [
  { name: 'another transaction', ...rejectedTransaction(nth => transactionBody(nth + 1)), reason: 'wrong_transaction' },
  {
    name: 'the version before',
    ...rejected('transaction')(nth => transactionBody(nth, { version: String(version(nth) - 1) })),
    reason: 'wrong_transaction'
  },
  {
    name: 'another hash',
    ...rejected('transaction of a hash')(nth => transactionBody(nth, { hash: hex(nth + 1) })),
    reason: 'wrong_transaction'
  },
  {
    name: 'another hash that is pending',
    ...rejected('transaction of a hash')(nth => pending(nth + 1)),
    reason: 'wrong_transaction'
  },
  {
    name: 'what is pending has no version',
    ...rejected('transaction')(nth => pending(nth)),
    reason: 'wrong_transaction'
  },
  { name: 'what is pending', ...handed('transaction of a hash')(nth => pending(nth)), reason: 'pending_transaction' },
  {
    name: 'committed, and not settled',
    ...handedTransaction(nth => transactionBody(nth, { accumulator_root_hash: undefined })),
    reason: 'pending_transaction'
  },
  {
    name: 'pending at a version',
    ...handedTransaction(nth => pending(nth, { version: String(version(nth)) })),
    reason: 'unreadable'
  },
  {
    name: 'committed at no version',
    ...handedTransaction(nth => transactionBody(nth, { version: undefined })),
    reason: 'unreadable'
  },
  {
    name: 'committed at a version in the payload alone',
    ...handedTransaction(nth =>
      transactionBody(nth, { version: undefined, payload: { version: String(version(nth)) } })
    ),
    reason: 'unreadable'
  },
  {
    name: 'committed above the head',
    ...handed('transaction of a hash')(nth => transactionBody(nth, { version: '1000001' })),
    reason: 'outside_window'
  },
  {
    name: 'committed before the window',
    ...handed('transaction of a hash')(nth => transactionBody(nth, { version: '9' })),
    reason: 'outside_window'
  },
  {
    name: 'a number for a text',
    ...handedTransaction(nth => transactionBody(nth, { version: version(nth) })),
    reason: 'unreadable'
  },
  {
    name: 'a version beyond u64',
    ...handedTransaction(nth => transactionBody(nth, { version: '18446744073709551616' })),
    reason: 'unreadable'
  },
  {
    name: 'a version twice',
    ...handedTransaction(nth => `{"version":"${version(nth)}",${transactionBody(nth).slice(1)}`),
    reason: 'unreadable'
  },
  {
    name: 'a hash twice, once escaped',
    ...handedTransaction(nth => `{"\\u0068ash":"${hex(nth)}",${transactionBody(nth).slice(1)}`),
    reason: 'unreadable'
  },
  { name: 'no hash', ...handedTransaction(nth => transactionBody(nth, { hash: undefined })), reason: 'unreadable' },
  { name: 'no type', ...handedTransaction(nth => transactionBody(nth, { type: undefined })), reason: 'unreadable' },
  {
    name: 'two transactions',
    ...handedTransaction(nth => transactionBody(nth) + transactionBody(nth)),
    reason: 'unreadable'
  },
  { name: 'a list with the transaction', ...handedTransaction(run([0])), reason: 'unreadable' },
  {
    name: 'an error in place of a transaction',
    ...handedTransaction(() => '{"message":"gone","error_code":"internal_error","vm_error_code":null}'),
    reason: 'unreadable'
  },
  {
    name: 'half of a transaction',
    ...handedTransaction(nth => transactionBody(nth).slice(0, 60)),
    reason: 'unreadable'
  },
  { name: 'a list with a gap', ...handedRun(run([0], [2])), reason: 'gapped_page' },
  { name: 'a transaction twice', ...handedRun(run([0], [0])), reason: 'gapped_page' },
  { name: 'a list from an earlier version', ...handedRun(run([-1], [0])), reason: 'gapped_page' },
  { name: 'a list from a later version', ...handedRun(run([1], [2])), reason: 'pruned_page' },
  { name: 'more transactions than were requested', ...handedRun(run([0], [1], [2])), reason: 'gapped_page' },
  {
    name: 'a list with what is pending',
    ...handedRun(run([0], [1, { type: 'pending_transaction', version: undefined }])),
    reason: 'unreadable'
  },
  {
    name: 'a list with what is not settled',
    ...handedRun(run([0], [1, { success: undefined }])),
    reason: 'pending_transaction'
  },
  { name: 'an empty list', ...handedRun(run()), reason: 'empty_page' },
  { name: 'no list', ...handedRun(nth => transactionBody(nth)), reason: 'unreadable' }
]

const missingIn = ({ notFound }: ReadKind): string =>
  `{"message":"not there","error_code":"${notFound ?? 'table_item_not_found'}","vm_error_code":null}`
const notFound = (
  change: Parameters<typeof responseBytes>[1],
  reason: string,
  name: string,
  bodyOf = missingIn
): Lie => ({
  name,
  respond: (truth, kind) =>
    thenKeepAlive(
      responseBytes(truth, { first: 'HTTP/1.1 404 Not Found', type: 'application/json', body: bodyOf(kind), ...change })
    ),
  cacheable: (_truth, kind) => kind.notFound === undefined ? undefined : { status: 404, body: bodyOf(kind) },
  forwarded: undefined,
  reason
})

/** Not-found responses that are false or uncertain. */
export const notFoundLies: readonly Lie[] = [
  notFound({ stamps: { 'x-aptos-ledger-version': null } }, 'no_position', 'a not-found without a position'),
  notFound({ type: 'text/plain' }, 'status', 'a not-found in another media type'),
  notFound({ type: null }, 'status', 'a not-found without a media type'),
  notFound({ type: 'application/json, text/html' }, 'status', 'a not-found of two media types'),
  notFound({ lines: ['content-encoding: gzip'] }, 'wrong_coding', 'a not-found that claims a coding'),
  notFound(
    {},
    'status',
    'a not-found with two codes, this one last',
    kind => missingIn(kind).replace('{', '{"error_code":"internal_error",')
  ),
  notFound(
    {},
    'status',
    'a not-found with two codes, this one first',
    kind => missingIn(kind).replace('}', ',"error_code":"internal_error"}')
  ),
  notFound({}, 'status', 'half a not-found', kind => missingIn(kind).slice(0, -1)),
  notFound({}, 'status', 'a not-found in a list', kind => `[${missingIn(kind)}]`),
  notFound(
    {},
    'status',
    'a not-found of something else',
    kind =>
      missingIn(kind).replace(
        kind.notFound ?? '',
        kind.notFound === 'resource_not_found' ? 'module_not_found' : 'resource_not_found'
      )
  ),
  notFound(
    {},
    'status',
    'the word on an account that is not there',
    kind => missingIn(kind).replace(kind.notFound ?? '', 'account_not_found')
  ),
  notFound({ lines: ['cache-control: no-store'] }, 'vetoed', 'a not-found that must not be stored')
]
