import {
  type ListDependencies,
  ofAccount,
  ofBalance,
  ofModule,
  ofModules,
  ofRawStateValue,
  ofRawTableItem,
  ofResource,
  ofResources,
  ofTableItem
} from './dependencies.js'
import { readAddress } from './address.js'
import { readU16, readU64 } from './integer.js'
import { isPinnedCursor, readPinnedCursor } from './pinned-cursor.js'
import { isIdentifier, printTypeTag, readStructTag } from './type-tag.js'

/** Returns the canonical form of a decoded parameter; undefined if the text cannot be valid. */
type ParameterParser = (text: string) => string | undefined

/** Address of an account or a table: all digits, lower case. */
const address: ParameterParser = text => {
  const digits = readAddress(text)
  return digits && `0x${digits}`
}

/** Struct tag with its type arguments. */
const structTag: ParameterParser = text => {
  const tag = readStructTag(text)
  return tag && printTypeTag(tag)
}

/** Asset of a balance: a coin by its type, any other asset by the address of its metadata. */
const asset: ParameterParser = text => text.includes('::') ? structTag(text) : address(text)

/** Name of a field or a module. */
const identifier: ParameterParser = text => isIdentifier(text) ? text : undefined

/** Version, height or sequence number. */
const u64: ParameterParser = text => readU64(text)?.toString()

/** Limit of a page. */
const u16: ParameterParser = text => readU16(text)?.toString()

/** Exactly `true` or `false`. */
const flag: ParameterParser = text => text === 'true' || text === 'false' ? text : undefined

/** Hash of a transaction: no digit may be left out. */
const hash: ParameterParser = text => {
  const [, digits] = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(text) ?? []
  return digits && `0x${digits.toLowerCase()}`
}

/**
 * Cursor of a listing: any hex, because its contents are opaque, but a pinned cursor must be complete
 * (docs/node-behaviour.md, "Cursors").
 */
const cursor: ParameterParser = text => {
  const digits = /^(?:[0-9a-fA-F]{2})+$/.test(text) ? text.toLowerCase() : undefined
  return digits !== undefined && isPinnedCursor(digits) && readPinnedCursor(digits) === undefined ? undefined : digits
}

/**
 * Immutable data by which a response can be stored. `version`: the state at `ledger_version`. `block`, `height`,
 * `transaction` and `hash`: the block or committed transaction that the last path segment names. `list`: transactions
 * from a version on. `page`: events from a sequence number on. `sends`: transactions of an account from a sequence
 * number on. `summaries`: summaries of an account's transactions in a range of versions. `auxiliary`: facts beside
 * transactions, from a version on. `moving`: none, because the response is always moving.
 */
export type KeyedBy =
  | 'version'
  | 'block'
  | 'height'
  | 'transaction'
  | 'hash'
  | 'list'
  | 'page'
  | 'sends'
  | 'summaries'
  | 'auxiliary'
  | 'moving'

/** Kind of request body, by the endpoints that take it. */
export type BodyKind = 'table_key' | 'raw_key' | 'state_key' | 'view'

/** Rules of an endpoint, and the reason why responses can or cannot be stored. */
interface EndpointRules {
  readonly query: Readonly<Record<string, ParameterParser>>
  readonly takesBody: BodyKind | undefined
  /** True if Accept chooses the representation; node info is always JSON (docs/node-behaviour.md, "Accept"). */
  readonly takesAccept: boolean
  readonly keyedBy: KeyedBy
  /** Error code of a not-found that is a fact of history and can be stored (law 3: only proven history is stored). */
  readonly notFoundCode: string | undefined
  /**
   * True if JSON depends on the release; the name of a flag if JSON depends on the release only with that flag
   * (docs/node-behaviour.md, "Rendering").
   */
  readonly renderedByRelease: boolean | 'with_transactions'
  /** True if nodes accept writes by POST on the same path; varve serves only the reads. */
  readonly hasWriteMethod: boolean
  /** State keys that a response depends on; undefined for reads whose changes the ledger's write sets do not show. */
  readonly dependsOn: ListDependencies | typeof ofRawStateValue | undefined
  /** Reason why responses can or cannot be stored, as `explain` prints it. */
  readonly why: string
}

/** Row of the table of endpoints; a rule that the row leaves out has the value that most endpoints have. */
type EndpointRow = Partial<EndpointRules> & Pick<EndpointRules, 'keyedBy' | 'why'> & { readonly path: string }

const stateIsImmutable = 'the state at a ledger version never changes'
const blockIsImmutable = 'a block never changes, by whatever version or height it is asked for'
const eventsAreImmutable = 'events do not change once emitted'
const transactionIsImmutable = 'a committed transaction never changes'

const state = { keyedBy: 'version', query: { ledger_version: u64 }, why: stateIsImmutable } as const
const listing = { ...state, query: { ledger_version: u64, start: cursor, limit: u16 } } as const
const block = {
  query: { with_transactions: flag },
  renderedByRelease: 'with_transactions',
  why: blockIsImmutable
} as const
const events = {
  query: { start: u64, limit: u16 },
  keyedBy: 'page',
  renderedByRelease: true,
  why: eventsAreImmutable
} as const

// Every other route is unknown, and its responses are never stored (docs/node-behaviour.md, "Routes").
const rows = {
  table_item: {
    ...state,
    path: '/v1/tables/{table_handle}/item',
    takesBody: 'table_key',
    notFoundCode: 'table_item_not_found',
    dependsOn: ofTableItem
  },
  account_modules: {
    ...listing,
    path: '/v1/accounts/{address}/modules',
    renderedByRelease: true,
    dependsOn: ofModules
  },
  info: { path: '/v1/info', keyedBy: 'moving', takesAccept: false, why: 'it reports the settings of the node' },
  estimate_gas_price: {
    path: '/v1/estimate_gas_price',
    keyedBy: 'moving',
    why: 'it reports the gas prices of the latest blocks'
  },
  account_events: { ...events, path: '/v1/accounts/{address}/events/{event_handle}/{field_name}' },
  block_by_version: { ...block, path: '/v1/blocks/by_version/{version}', keyedBy: 'block' },
  index: { path: '/v1', keyedBy: 'moving', why: 'it reports the position of the node' },
  // Newer releases respond 200 for an address without an account (docs/node-behaviour.md, "Rendering").
  account: { ...state, path: '/v1/accounts/{address}', renderedByRelease: true, dependsOn: ofAccount },
  account_resources: {
    ...listing,
    path: '/v1/accounts/{address}/resources',
    renderedByRelease: true,
    dependsOn: ofResources
  },
  // Newer releases find coins that have migrated; older releases do not (docs/node-behaviour.md, "Rendering").
  account_resource: {
    ...state,
    path: '/v1/accounts/{address}/resource/{resource_type}',
    notFoundCode: 'resource_not_found',
    renderedByRelease: true,
    dependsOn: ofResource
  },
  account_balance: {
    ...state,
    path: '/v1/accounts/{address}/balance/{asset_type}',
    renderedByRelease: true,
    dependsOn: ofBalance
  },
  account_module: {
    ...state,
    path: '/v1/accounts/{address}/module/{module_name}',
    notFoundCode: 'module_not_found',
    renderedByRelease: true,
    dependsOn: ofModule
  },
  raw_table_item: {
    ...state,
    path: '/v1/tables/{table_handle}/raw_item',
    takesBody: 'raw_key',
    notFoundCode: 'table_item_not_found',
    dependsOn: ofRawTableItem
  },
  raw_state_value: {
    ...state,
    path: '/v1/experimental/state_values/raw',
    takesBody: 'state_key',
    notFoundCode: 'state_value_not_found',
    dependsOn: ofRawStateValue
  },
  view: {
    ...state,
    path: '/v1/view',
    takesBody: 'view',
    why: 'a view computes from the state at a ledger version alone, which never changes'
  },
  block_by_height: { ...block, path: '/v1/blocks/by_height/{block_height}', keyedBy: 'height' },
  transaction_by_version: {
    path: '/v1/transactions/by_version/{txn_version}',
    keyedBy: 'transaction',
    renderedByRelease: true,
    why: transactionIsImmutable
  },
  transaction_by_hash: {
    path: '/v1/transactions/by_hash/{txn_hash}',
    keyedBy: 'hash',
    renderedByRelease: true,
    why: transactionIsImmutable
  },
  transactions: {
    path: '/v1/transactions',
    query: { start: u64, limit: u16 },
    keyedBy: 'list',
    renderedByRelease: true,
    hasWriteMethod: true,
    why: 'committed transactions never change'
  },
  account_transactions: {
    path: '/v1/accounts/{address}/transactions',
    query: { start: u64, limit: u16 },
    keyedBy: 'sends',
    renderedByRelease: true,
    why: 'the transactions that an account sent do not change once committed'
  },
  transaction_summaries: {
    path: '/v1/accounts/{address}/transaction_summaries',
    query: { start_version: u64, end_version: u64, limit: u16 },
    keyedBy: 'summaries',
    renderedByRelease: true,
    why: 'the transactions of an account in past versions do not change'
  },
  auxiliary_info: {
    path: '/v1/transactions/auxiliary_info',
    query: { start_version: u64, limit: u16 },
    keyedBy: 'auxiliary',
    renderedByRelease: true,
    why: 'what nodes store beside committed transactions never changes'
  },
  events_by_creation_number: { ...events, path: '/v1/accounts/{address}/events/{creation_number}' }
} as const satisfies Readonly<Record<string, EndpointRow>>

/** Name of a known endpoint, as metrics and `explain` use it. */
export type EndpointName = keyof typeof rows

/** Names of the endpoints that varve knows. */
export const endpointNames = Object.keys(rows) as readonly EndpointName[]

/** Parameter in a path, decoded as often as nodes decode it (docs/node-behaviour.md, "Percent-encoding"). */
export interface PathParameter {
  readonly name: string
  readonly read: ParameterParser
  readonly decodings: 1 | 2
}

/** Definition of a known endpoint. */
export interface Endpoint extends EndpointRules {
  readonly name: EndpointName
  readonly method: 'GET' | 'POST'
  /** Path segments: fixed text, or a parameter. */
  readonly path: readonly (string | PathParameter)[]
  /** Flags whose value `false` means the same as no value, so both are one read. */
  readonly offByDefault: readonly string[]
  /** True if `start` is a cursor, which may carry the version of a pinned listing. */
  readonly takesCursor: boolean
}

const pathParsers: Readonly<Record<string, ParameterParser>> = {
  address,
  asset_type: asset,
  block_height: u64,
  creation_number: u64,
  event_handle: structTag,
  field_name: identifier,
  module_name: identifier,
  resource_type: structTag,
  table_handle: address,
  txn_hash: hash,
  txn_version: u64,
  version: u64
}
const onceDecoded = new Set(['block_height', 'version'])

/** All endpoints that varve knows. */
export const endpoints: readonly Endpoint[] = endpointNames.map(name => {
  const { path, ...rules }: EndpointRow = rows[name]
  const { query = {}, takesBody } = rules
  return {
    name,
    method: takesBody === undefined ? 'GET' : 'POST',
    path: path.split('/').slice(1).map(segmentOf),
    offByDefault: Object.keys(query).filter(name => query[name] === flag),
    takesCursor: query['start'] === cursor,
    takesBody,
    takesAccept: true,
    notFoundCode: undefined,
    renderedByRelease: false,
    hasWriteMethod: false,
    dependsOn: undefined,
    ...rules,
    query
  }
})

/** Endpoints whose latest responses can be followed. */
export const followedEndpointNames = endpoints.flatMap(({ name, dependsOn }) => dependsOn === undefined ? [] : [name])

function segmentOf (text: string): string | PathParameter {
  const [, name = ''] = /^\{(\w+)\}$/.exec(text) ?? []
  const read = pathParsers[name]
  return read === undefined ? text : { name, read, decodings: onceDecoded.has(name) ? 1 : 2 }
}
