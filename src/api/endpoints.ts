import {
  ofAccount,
  ofBalance,
  ofModule,
  ofModules,
  ofRawTableItem,
  ofResource,
  ofResources,
  ofTableItem
} from './dependencies.js'
import { type EndpointDefinition } from './endpoint-definition.js'
import {
  address,
  asset,
  cursor,
  flag,
  hash,
  identifier,
  onceDecodedParameter,
  structTag,
  twiceDecodedParameter,
  u16,
  u64
} from './parameters.js'

export { type BodyKind, type PinKind, type PathParameter, type ParameterParser } from './endpoint-definition.js'

/** Names of the endpoints that varve knows, as metrics and `explain` use them (docs/node-behaviour.md, "Routes"). */
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

/** Name of a known endpoint. */
export type EndpointName = typeof endpointNames[number]

/** Definition of a known endpoint. */
export type Endpoint = EndpointDefinition<EndpointName>

const stateIsImmutable = 'the state at a ledger version never changes'
const blockIsImmutable = 'a block never changes, by whatever version or height it is asked for'
const eventsAreImmutable = 'events do not change once emitted'
const transactionIsImmutable = 'a committed transaction never changes'

/** All endpoints that varve knows; every other route is unknown, and its responses are never stored. */
export const endpoints: readonly Endpoint[] = [
  defineEndpoint('table_item', ['v1', 'tables', twiceDecodedParameter('table_handle', address), 'item'], {
    method: 'POST',
    takesBody: 'table_key',
    query: { ledger_version: u64 },
    keyedBy: 'version',
    notFoundCode: 'table_item_not_found',
    dependsOn: ofTableItem,
    why: stateIsImmutable
  }),
  defineEndpoint('raw_table_item', ['v1', 'tables', twiceDecodedParameter('table_handle', address), 'raw_item'], {
    method: 'POST',
    takesBody: 'raw_key',
    query: { ledger_version: u64 },
    keyedBy: 'version',
    notFoundCode: 'table_item_not_found',
    dependsOn: ofRawTableItem,
    why: stateIsImmutable
  }),
  defineEndpoint('view', ['v1', 'view'], {
    method: 'POST',
    takesBody: 'view',
    query: { ledger_version: u64 },
    keyedBy: 'version',
    why: 'a view computes from the state at a ledger version alone, which never changes'
  }),
  // Newer releases respond 200 for an address without an account (docs/node-behaviour.md, "Rendering").
  defineEndpoint('account', ['v1', 'accounts', twiceDecodedParameter('address', address)], {
    query: { ledger_version: u64 },
    keyedBy: 'version',
    renderedByRelease: true,
    dependsOn: ofAccount,
    why: stateIsImmutable
  }),
  defineEndpoint('account_resources', ['v1', 'accounts', twiceDecodedParameter('address', address), 'resources'], {
    query: { ledger_version: u64, start: cursor, limit: u16 },
    takesCursor: true,
    keyedBy: 'version',
    renderedByRelease: true,
    dependsOn: ofResources,
    why: stateIsImmutable
  }),
  // Newer releases find coins that have migrated; older releases do not (docs/node-behaviour.md, "Rendering").
  defineEndpoint(
    'account_resource',
    [
      'v1',
      'accounts',
      twiceDecodedParameter('address', address),
      'resource',
      twiceDecodedParameter('resource_type', structTag)
    ],
    {
      query: { ledger_version: u64 },
      keyedBy: 'version',
      notFoundCode: 'resource_not_found',
      renderedByRelease: true,
      dependsOn: ofResource,
      why: stateIsImmutable
    }
  ),
  defineEndpoint('account_balance', [
    'v1',
    'accounts',
    twiceDecodedParameter('address', address),
    'balance',
    twiceDecodedParameter('asset_type', asset)
  ], {
    query: { ledger_version: u64 },
    keyedBy: 'version',
    renderedByRelease: true,
    dependsOn: ofBalance,
    why: stateIsImmutable
  }),
  defineEndpoint('account_modules', ['v1', 'accounts', twiceDecodedParameter('address', address), 'modules'], {
    query: { ledger_version: u64, start: cursor, limit: u16 },
    takesCursor: true,
    keyedBy: 'version',
    renderedByRelease: true,
    dependsOn: ofModules,
    why: stateIsImmutable
  }),
  defineEndpoint('account_module', [
    'v1',
    'accounts',
    twiceDecodedParameter('address', address),
    'module',
    twiceDecodedParameter('module_name', identifier)
  ], {
    query: { ledger_version: u64 },
    keyedBy: 'version',
    notFoundCode: 'module_not_found',
    renderedByRelease: true,
    dependsOn: ofModule,
    why: stateIsImmutable
  }),
  defineEndpoint('account_events', [
    'v1',
    'accounts',
    twiceDecodedParameter('address', address),
    'events',
    twiceDecodedParameter('event_handle', structTag),
    twiceDecodedParameter('field_name', identifier)
  ], {
    query: { start: u64, limit: u16 },
    keyedBy: 'page',
    renderedByRelease: true,
    why: eventsAreImmutable
  }),
  defineEndpoint('events_by_creation_number', [
    'v1',
    'accounts',
    twiceDecodedParameter('address', address),
    'events',
    twiceDecodedParameter('creation_number', u64)
  ], {
    query: { start: u64, limit: u16 },
    keyedBy: 'page',
    renderedByRelease: true,
    why: eventsAreImmutable
  }),
  defineEndpoint('block_by_version', ['v1', 'blocks', 'by_version', onceDecodedParameter('version', u64)], {
    query: { with_transactions: flag },
    offByDefault: ['with_transactions'],
    keyedBy: 'block',
    renderedByRelease: 'with_transactions',
    why: blockIsImmutable
  }),
  defineEndpoint('block_by_height', ['v1', 'blocks', 'by_height', onceDecodedParameter('block_height', u64)], {
    query: { with_transactions: flag },
    offByDefault: ['with_transactions'],
    keyedBy: 'height',
    renderedByRelease: 'with_transactions',
    why: blockIsImmutable
  }),
  defineEndpoint('transactions', ['v1', 'transactions'], {
    query: { start: u64, limit: u16 },
    keyedBy: 'list',
    renderedByRelease: true,
    hasWriteMethod: true,
    why: 'committed transactions never change'
  }),
  defineEndpoint('transaction_by_version', [
    'v1',
    'transactions',
    'by_version',
    twiceDecodedParameter('txn_version', u64)
  ], {
    keyedBy: 'transaction',
    renderedByRelease: true,
    why: transactionIsImmutable
  }),
  defineEndpoint('transaction_by_hash', ['v1', 'transactions', 'by_hash', twiceDecodedParameter('txn_hash', hash)], {
    keyedBy: 'hash',
    renderedByRelease: true,
    why: transactionIsImmutable
  }),
  defineEndpoint('index', ['v1'], { keyedBy: 'moving', why: 'it reports the position of the node' }),
  defineEndpoint('info', ['v1', 'info'], {
    keyedBy: 'moving',
    takesAccept: false,
    why: 'it reports the settings of the node'
  }),
  defineEndpoint('estimate_gas_price', ['v1', 'estimate_gas_price'], {
    keyedBy: 'moving',
    why: 'it reports the gas prices of the latest blocks'
  })
]

/** Endpoints whose latest responses can be followed. */
export const followedEndpointNames = endpoints.flatMap(({ name, dependsOn }) => dependsOn === undefined ? [] : [name])

function defineEndpoint (
  name: EndpointName,
  path: Endpoint['path'],
  options: Partial<Endpoint> & Pick<Endpoint, 'keyedBy' | 'why'>
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
    notFoundCode: undefined,
    renderedByRelease: false,
    hasWriteMethod: false,
    dependsOn: undefined,
    ...options
  }
}
