import { readAddress } from './address.js'
import { readU16, readU64 } from './integer.js'
import { isPinned, readPinned } from './pinned-cursor.js'
import { isIdentifier, printTypeTag, readStructTag } from './type-tag.js'

/** The six operations of the specification, under the names that metrics and `explain` use. */
export const endpointNames = [
  'table_item', 'account_modules', 'info', 'estimate_gas_price', 'account_events', 'block_by_version'
] as const

/** The name of a known read. */
export type EndpointName = typeof endpointNames[number]

/** Reads one parameter's decoded text into its canonical spelling; undefined for what cannot be valid. */
export type ReadParameter = (text: string) => string | undefined

/** A row of the table: where a read lives, what it takes, and what its answer can be kept by. */
export interface Endpoint {
  readonly name: EndpointName
  readonly method: 'GET' | 'POST'
  /** The segments of its path: fixed ones as they stand, the others with what reads them. */
  readonly path: readonly (string | PathParameter)[]
  readonly query: Readonly<Record<string, ReadParameter>>
  /** Flags that are off when they are left out, so that saying so is the same read. */
  readonly offByDefault: readonly string[]
  readonly takesTableKey: boolean
  /** Whether its `start` is a cursor, which may carry the version that a listing goes on at. */
  readonly takesCursor: boolean
  /** Whether a client may choose the representation; node info is JSON whatever is asked for (facts, section 3). */
  readonly takesAccept: boolean
  readonly keyedBy: Keying
  /** Whether the node's release shows in the JSON (facts, section 6, catch 1); a name is the flag that makes it show. */
  readonly renderedByRelease: boolean | 'with_transactions'
}

/**
 * What an answer can be kept by. `version`: the state at the ledger version in the query; `block`: the block of the version that the path
 * ends in; `page`: events from a sequence number on; `moment`: nothing, it is of the moment.
 */
export type Keying = 'version' | 'block' | 'page' | 'moment'

/** A parameter in a path. Nodes decode some of them twice (facts, section 4), and what they read is what must be keyed. */
export interface PathParameter {
  readonly name: string
  readonly read: ReadParameter
  readonly decodings: 1 | 2
}

const address: ReadParameter = text => {
  const digits = readAddress(text)
  return digits && `0x${digits}`
}
const structTag: ReadParameter = text => {
  const tag = readStructTag(text)
  return tag && printTypeTag(tag)
}
const identifier: ReadParameter = text => isIdentifier(text) ? text : undefined
const u64: ReadParameter = text => readU64(text)?.toString()
const u16: ReadParameter = text => readU16(text)?.toString()
const flag: ReadParameter = text => text === 'true' || text === 'false' ? text : undefined
// Opaque but for its digits, and for what varve itself has put before them: what it encodes is the node's own affair.
const cursor: ReadParameter = text => {
  const digits = /^(?:[0-9a-fA-F]{2})+$/.test(text) ? text.toLowerCase() : undefined
  return digits !== undefined && isPinned(digits) && readPinned(digits) === undefined ? undefined : digits
}

const twice = (name: string, read: ReadParameter): PathParameter => ({ name, read, decodings: 2 })
const once = (name: string, read: ReadParameter): PathParameter => ({ name, read, decodings: 1 })

/** Every read that varve knows. Adding one is adding a row. */
export const endpoints: readonly Endpoint[] = [
  {
    name: 'table_item',
    method: 'POST',
    path: ['v1', 'tables', twice('table_handle', address), 'item'],
    query: { ledger_version: u64 },
    offByDefault: [],
    takesTableKey: true,
    takesCursor: false,
    takesAccept: true,
    keyedBy: 'version',
    renderedByRelease: false
  },
  {
    name: 'account_modules',
    method: 'GET',
    path: ['v1', 'accounts', twice('address', address), 'modules'],
    query: { ledger_version: u64, start: cursor, limit: u16 },
    offByDefault: [],
    takesTableKey: false,
    takesCursor: true,
    takesAccept: true,
    keyedBy: 'version',
    renderedByRelease: true
  },
  {
    name: 'account_events',
    method: 'GET',
    path: ['v1', 'accounts', twice('address', address), 'events', twice('event_handle', structTag), twice('field_name', identifier)],
    query: { start: u64, limit: u16 },
    offByDefault: [],
    takesTableKey: false,
    takesCursor: false,
    takesAccept: true,
    keyedBy: 'page',
    renderedByRelease: true
  },
  {
    name: 'block_by_version',
    method: 'GET',
    path: ['v1', 'blocks', 'by_version', once('version', u64)],
    query: { with_transactions: flag },
    offByDefault: ['with_transactions'],
    takesTableKey: false,
    takesCursor: false,
    takesAccept: true,
    keyedBy: 'block',
    renderedByRelease: 'with_transactions'
  },
  plain('info', false),
  plain('estimate_gas_price', true)
]

function plain (name: EndpointName, takesAccept: boolean): Endpoint {
  return {
    name,
    method: 'GET',
    path: ['v1', name],
    query: {},
    offByDefault: [],
    takesTableKey: false,
    takesCursor: false,
    takesAccept,
    keyedBy: 'moment',
    renderedByRelease: false
  }
}
