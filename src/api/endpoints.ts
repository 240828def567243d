import { type Endpoint as Row } from './endpoint.js'
import { address, asset, cursor, flag, hash, identifier, once, structTag, twice, u16, u64 } from './parameters.js'

export { type BodyKind, type Keying, type PathParameter, type ReadParameter } from './endpoint.js'

/**
 * The endpoints that varve knows, by the names that metrics and `explain` use (docs/node-behaviour.md, "Routes").
 */
export const endpointNames = [
  'table_item',
  'account_modules',
  'info',
  'estimate_gas_price',
  'account_events',
  'block_by_version',
  'index',
  'account',
  'account_resources',
  'account_resource',
  'account_balance',
  'account_module',
  'raw_table_item',
  'view',
  'block_by_height',
  'transaction_by_version',
  'transaction_by_hash',
  'transactions',
  'events_by_creation_number'
] as const

/** The name of a known read. */
export type EndpointName = typeof endpointNames[number]

/** A row of the table. */
export type Endpoint = Row<EndpointName>

const stateStays = 'the state at a ledger version never changes'
const blockStays = 'a block never changes, by whatever version or height it is asked for'
const eventsStay = 'events do not change once emitted'
const transactionStays = 'a committed transaction never changes'

/** Every read that varve knows. Adding one is adding a row. */
export const endpoints: readonly Endpoint[] = [
  row('table_item', ['v1', 'tables', twice('table_handle', address), 'item'], {
    method: 'POST',
    takesBody: 'table_key',
    query: { ledger_version: u64 },
    keyedBy: 'version',
    notFound: 'table_item_not_found',
    why: stateStays
  }),
  row('raw_table_item', ['v1', 'tables', twice('table_handle', address), 'raw_item'], {
    method: 'POST',
    takesBody: 'raw_key',
    query: { ledger_version: u64 },
    keyedBy: 'version',
    notFound: 'table_item_not_found',
    why: stateStays
  }),
  row('view', ['v1', 'view'], {
    method: 'POST',
    takesBody: 'view',
    query: { ledger_version: u64 },
    keyedBy: 'version',
    why: 'a view reckons with nothing but the state at a ledger version, which never changes'
  }),
  // An account that is not there is told as one that is by newer releases.
  row('account', ['v1', 'accounts', twice('address', address)], {
    query: { ledger_version: u64 },
    keyedBy: 'version',
    renderedByRelease: true,
    why: stateStays
  }),
  row('account_resources', ['v1', 'accounts', twice('address', address), 'resources'], {
    query: { ledger_version: u64, start: cursor, limit: u16 },
    takesCursor: true,
    keyedBy: 'version',
    renderedByRelease: true,
    why: stateStays
  }),
  // Newer releases tell of coins that have moved, which older ones do not find.
  row(
    'account_resource',
    ['v1', 'accounts', twice('address', address), 'resource', twice('resource_type', structTag)],
    {
      query: { ledger_version: u64 },
      keyedBy: 'version',
      notFound: 'resource_not_found',
      renderedByRelease: true,
      why: stateStays
    }
  ),
  row('account_balance', ['v1', 'accounts', twice('address', address), 'balance', twice('asset_type', asset)], {
    query: { ledger_version: u64 },
    keyedBy: 'version',
    renderedByRelease: true,
    why: stateStays
  }),
  row('account_modules', ['v1', 'accounts', twice('address', address), 'modules'], {
    query: { ledger_version: u64, start: cursor, limit: u16 },
    takesCursor: true,
    keyedBy: 'version',
    renderedByRelease: true,
    why: stateStays
  }),
  row('account_module', ['v1', 'accounts', twice('address', address), 'module', twice('module_name', identifier)], {
    query: { ledger_version: u64 },
    keyedBy: 'version',
    notFound: 'module_not_found',
    renderedByRelease: true,
    why: stateStays
  }),
  row('account_events', [
    'v1',
    'accounts',
    twice('address', address),
    'events',
    twice('event_handle', structTag),
    twice('field_name', identifier)
  ], {
    query: { start: u64, limit: u16 },
    keyedBy: 'page',
    renderedByRelease: true,
    why: eventsStay
  }),
  row('events_by_creation_number', [
    'v1',
    'accounts',
    twice('address', address),
    'events',
    twice('creation_number', u64)
  ], {
    query: { start: u64, limit: u16 },
    keyedBy: 'page',
    renderedByRelease: true,
    why: eventsStay
  }),
  row('block_by_version', ['v1', 'blocks', 'by_version', once('version', u64)], {
    query: { with_transactions: flag },
    offByDefault: ['with_transactions'],
    keyedBy: 'block',
    renderedByRelease: 'with_transactions',
    why: blockStays
  }),
  row('block_by_height', ['v1', 'blocks', 'by_height', once('block_height', u64)], {
    query: { with_transactions: flag },
    offByDefault: ['with_transactions'],
    keyedBy: 'height',
    renderedByRelease: 'with_transactions',
    why: blockStays
  }),
  row('transactions', ['v1', 'transactions'], {
    query: { start: u64, limit: u16 },
    keyedBy: 'list',
    renderedByRelease: true,
    isWrittenToo: true,
    why: 'committed transactions never change'
  }),
  row('transaction_by_version', ['v1', 'transactions', 'by_version', twice('txn_version', u64)], {
    keyedBy: 'transaction',
    renderedByRelease: true,
    why: transactionStays
  }),
  row('transaction_by_hash', ['v1', 'transactions', 'by_hash', twice('txn_hash', hash)], {
    keyedBy: 'hash',
    renderedByRelease: true,
    why: transactionStays
  }),
  row('index', ['v1'], { keyedBy: 'moment', why: 'it tells where the node stands' }),
  row('info', ['v1', 'info'], { keyedBy: 'moment', takesAccept: false, why: 'it tells how the node is set up' }),
  row('estimate_gas_price', ['v1', 'estimate_gas_price'], {
    keyedBy: 'moment',
    why: 'it tells what the latest blocks took'
  })
]

function row (
  name: EndpointName,
  path: Endpoint['path'],
  own: Partial<Endpoint> & Pick<Endpoint, 'keyedBy' | 'why'>
): Endpoint {
  return {
    name,
    method: 'GET',
    path,
    query: {},
    offByDefault: [],
    takesBody: undefined,
    takesCursor: false,
    takesAccept: true,
    notFound: undefined,
    renderedByRelease: false,
    isWrittenToo: false,
    ...own
  }
}
