import { blockBody, eventOf, type Kind, pageBody, type Truth } from '../kinds.js'
import { type Lie, type Seen } from '../trial.js'
import { keeps, wire } from '../wire.js'

const only = (name: string, seen: (said: string, truth: Truth) => Seen) => (say: (nth: number) => string): Pick<Lie, 'say' | 'known' | 'passed'> => ({
  say: truth => keeps(wire(truth, { body: say(truth.nth) })),
  known: (truth, kind: Kind) => kind.name === name ? seen(say(truth.nth), truth) : undefined,
  passed: undefined
})
const refusedBlock = only('block', () => 'refused')
const handedBlock = only('block', body => ({ status: 200, body }))
const handedPage = only('events', body => ({ status: 200, body }))

const version = (nth: number): number => nth * 10 + 3

/** Blocks that are not the one that was asked for, or not certainly. */
export const blocks: readonly Lie[] = [
  { name: 'the block before', ...refusedBlock(nth => blockBody(nth - 1)), reason: 'wrong_block' },
  { name: 'the block after', ...refusedBlock(nth => blockBody(nth + 1)), reason: 'wrong_block' },
  { name: 'a block of no versions', ...handedBlock(nth => blockBody(nth, { first_version: String(version(nth) + 1), last_version: String(version(nth) - 1) })), reason: 'unreadable' },
  { name: 'a height twice', ...handedBlock(nth => `{"block_height":"${nth + 1}",${blockBody(nth).slice(1)}`), reason: 'unreadable' },
  { name: 'a first version twice, once escaped', ...handedBlock(nth => `{"first_\\u0076ersion":"0",${blockBody(nth).slice(1)}`), reason: 'unreadable' },
  { name: 'transactions twice', ...handedBlock(nth => `{"transactions":[],${blockBody(nth).slice(1)}`), reason: 'unreadable' },
  { name: 'a block that goes on to the head', ...handedBlock(nth => blockBody(nth, { last_version: '1000000' })), reason: 'newest_block' },
  { name: 'a block that goes on to 2^64-1', ...handedBlock(nth => blockBody(nth, { last_version: '18446744073709551615' })), reason: 'newest_block' },
  { name: 'a height above the head', ...handedBlock(nth => blockBody(nth, { block_height: '100000' })), reason: 'newest_block' },
  { name: 'numbers for texts', ...handedBlock(nth => blockBody(nth, { first_version: nth * 10 })), reason: 'unreadable' },
  { name: 'a height beyond u64', ...handedBlock(nth => blockBody(nth, { block_height: '18446744073709551616' })), reason: 'unreadable' },
  { name: 'a negative version', ...handedBlock(nth => blockBody(nth, { first_version: '-1' })), reason: 'unreadable' },
  { name: 'transactions that were not asked for', ...handedBlock(nth => blockBody(nth, { transactions: [{}] })), reason: 'unreadable' },
  ...[{}, 'x', 7, true].map((transactions): Lie => ({ name: `transactions that are ${JSON.stringify(transactions)}`, ...handedBlock(nth => blockBody(nth, { transactions })), reason: 'unreadable' })),
  { name: 'an error in place of the block', ...handedBlock(() => '{"message":"gone","error_code":"internal_error","vm_error_code":null}'), reason: 'unreadable' },
  { name: 'two blocks', ...handedBlock(nth => blockBody(nth) + blockBody(nth)), reason: 'unreadable' },
  { name: 'nothing', ...handedBlock(() => ''), reason: 'unreadable' },
  { name: 'half of a block', ...handedBlock(nth => blockBody(nth).slice(0, 60)), reason: 'unreadable' }
]

const page = (...events: readonly object[]) => () => pageBody(events)

/** Pages of events that are not those that were asked for, or not certainly: 5 and 6 are. */
export const pages: readonly Lie[] = [
  { name: 'a page with a gap', ...handedPage(page(eventOf(5), eventOf(7))), reason: 'gapped_page' },
  { name: 'an event twice', ...handedPage(page(eventOf(5), eventOf(5))), reason: 'gapped_page' },
  { name: 'events in the wrong order', ...handedPage(page(eventOf(6), eventOf(5))), reason: 'pruned_page' },
  { name: 'a page from an earlier start', ...handedPage(page(eventOf(4), eventOf(5))), reason: 'gapped_page' },
  { name: 'a page from a later start', ...handedPage(page(eventOf(6), eventOf(7))), reason: 'pruned_page' },
  { name: 'more events than were asked for', ...handedPage(page(eventOf(5), eventOf(6), eventOf(7))), reason: 'gapped_page' },
  { name: 'events of two streams', ...handedPage(page(eventOf(5), eventOf(6, { guid: { creation_number: '3', account_address: '0x1' } }))), reason: 'gapped_page' },
  { name: 'events of two accounts', ...handedPage(page(eventOf(5), eventOf(6, { guid: { creation_number: '2', account_address: '0x2' } }))), reason: 'gapped_page' },
  { name: 'versions that fall', ...handedPage(page(eventOf(5), eventOf(6, { version: '499' }))), reason: 'gapped_page' },
  { name: 'versions beyond the head', ...handedPage(page(eventOf(5), eventOf(6, { version: '1000001' }))), reason: 'outside_window' },
  { name: 'versions before the window', ...handedPage(page(eventOf(5, { version: '9' }), eventOf(6))), reason: 'outside_window' },
  { name: 'a number beyond u64', ...handedPage(page(eventOf(5), eventOf('18446744073709551616'))), reason: 'unreadable' },
  { name: 'numbers for texts', ...handedPage(page(eventOf(5), eventOf(6, { sequence_number: 6 }))), reason: 'unreadable' },
  { name: 'a number that stands in the data alone', ...handedPage(page(eventOf(5), eventOf(6, { sequence_number: undefined, data: { sequence_number: '6' } }))), reason: 'unreadable' },
  { name: 'a number twice', ...handedPage(() => `[${JSON.stringify(eventOf(5))},{"sequence_number":"6",${JSON.stringify(eventOf(6)).slice(1)}]`), reason: 'unreadable' },
  { name: 'an empty page', ...handedPage(page()), reason: 'empty_page' },
  { name: 'a short page', ...handedPage(page(eventOf(5))), reason: 'short_page' },
  { name: 'no page', ...handedPage(() => '{"0":{}}'), reason: 'unreadable' },
  { name: 'an error in place of a page', ...handedPage(() => '{"message":"gone","error_code":"internal_error","vm_error_code":null}'), reason: 'unreadable' }
]

const missing = '{"message":"Table Item not found","error_code":"table_item_not_found","vm_error_code":null}'
const notFound = (change: Parameters<typeof wire>[1], reason: string, name: string): Lie => ({
  name,
  say: truth => keeps(wire(truth, { first: 'HTTP/1.1 404 Not Found', body: missing, ...change })),
  known: (_truth, kind) => kind.name === 'table item' ? { status: 404, body: change?.body ?? missing } : undefined,
  passed: undefined,
  reason
})

/** A missing item that is not certainly one. */
export const denials: readonly Lie[] = [
  notFound({ stamps: { 'x-aptos-ledger-version': null } }, 'no_position', 'a not-found without a position'),
  notFound({ type: 'text/plain' }, 'status', 'a not-found in another media type'),
  notFound({ type: null }, 'status', 'a not-found without a media type'),
  notFound({ type: 'application/json, text/html' }, 'status', 'a not-found of two media types'),
  notFound({ lines: ['content-encoding: gzip'] }, 'wrong_coding', 'a not-found that says it is coded'),
  notFound({ body: missing.replace('{', '{"error_code":"internal_error",') }, 'status', 'a not-found with two codes, this one last'),
  notFound({ body: missing.replace('}', ',"error_code":"internal_error"}') }, 'status', 'a not-found with two codes, this one first'),
  notFound({ body: missing.slice(0, -1) }, 'status', 'half a not-found'),
  notFound({ body: `[${missing}]` }, 'status', 'a not-found in a list'),
  notFound({ lines: ['cache-control: no-store'] }, 'vetoed', 'a not-found that is not to be kept')
]
