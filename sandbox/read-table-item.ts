import { printJson } from './json.js'
import { type Address, shortAddress } from './address.js'
import { malformedBody, Problem, invalidInput, stateNotFound } from './problem.js'
import { readJsonObject, requireMember, readAddressParam, readU64Query } from './params.js'
import { readTypeTag, type TypeTag, printTypeTag } from './type-tag.js'
import {
  acceptedFormat,
  requestedFormat,
  pathParam,
  type RequestContext,
  requireVersion,
  successResponse
} from './request-context.js'
import { type EncodedValue, keyBytes } from './values.js'
import { type SandboxResponse } from './make-response.js'
import { itemAt, stateAt } from './state.js'
import { readStateKeyBytes, type StateKey } from './state-key.js'
import { stateValueBytes } from './kinds/render-write-set.js'
import { itemValue } from './generated-table-items.js'

/** Reads one item of a table. */
export function readTableItem (context: RequestContext): SandboxResponse {
  const handle = readAddressParam('table_handle', pathParam(context, 0))
  const request = readTableRequest(context.contentType, context.body)
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get table item')
  const keyType = requireType('key_type', request.keyType)
  const valueType = requireType('value_type', request.valueType)
  const version = requireVersion(context.snapshot, requestedVersion)
  const item = itemAt(context.snapshot.ledger, handle, keyBytes(keyType, request.key), version)
  if (item === undefined) throw itemNotFound(handle, printJson(request.key), version)
  const value = valueOf(item.seed, valueType)
  return successResponse(context, format, format === 'json' ? value.json : value.bytes)
}

function itemNotFound (handle: Address, key: string, version: bigint): Problem {
  const by = `Table handle(${shortAddress(handle)}), Table key(${key})`
  return stateNotFound('table_item_not_found', 'Table Item', by, version)
}

function valueOf (seed: string, type: TypeTag): EncodedValue {
  try {
    return itemValue(seed, type)
  } catch {
    throw invalidInput(`Failed to read a value of type ${printTypeTag(type)}`)
  }
}

/** Reads the bytes of one item by the bytes of its key. */
export function readRawTableItem (context: RequestContext): SandboxResponse {
  const handle = readAddressParam('table_handle', pathParam(context, 0))
  const { key, version } = readRawRequest(context, 'RawTableItemRequest', 'Get raw table item')
  const item = itemAt(context.snapshot.ledger, handle, key, version)
  if (item === undefined) throw itemNotFound(handle, `0x${key.toString('hex')}`, version)
  return successResponse(context, 'bcs', item.bytes)
}

/** Reads the value of a state key in BCS, with the metadata that nodes store beside it. */
export function readRawStateValue (context: RequestContext): SandboxResponse {
  const { key, version } = readRawRequest(context, 'RawStateValueRequest', 'Get raw state value')
  const text = `0x${key.toString('hex')}`
  const value = stateAt(context.snapshot.ledger, stateKeyOf(key, text), version)
  if (value === undefined) {
    throw stateNotFound('state_value_not_found', 'Raw State Value', `StateKey(${text})`, version)
  }
  return successResponse(context, 'bcs', stateValueBytes(value))
}

function stateKeyOf (bytes: Buffer, text: string): StateKey {
  try {
    return readStateKeyBytes(bytes)
  } catch {
    throw new Problem('ledger', 'internal_error', `Failed deserializing state value. key: ${text}`)
  }
}

function readRawRequest (context: RequestContext, type: string, operation: string): { key: Buffer, version: bigint } {
  const key = readRawKey(type, context.contentType, context.body)
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  if (acceptedFormat(context.accept) === 'json') {
    const reason = 'Only BCS is supported as an AcceptType.'
    throw new Problem('verification', 'api_disabled', `${operation} is not allowed. ${reason}`)
  }
  requestedFormat(context, operation)
  return { key, version: requireVersion(context.snapshot, requestedVersion) }
}

/** Reads the body of a table item request as the framework does; nodes verify its types later. */
function readTableRequest (contentType: string | undefined, body: Buffer) {
  const type = 'TableItemRequest'
  const request = readJsonObject(type, ['key_type', 'value_type', 'key'], contentType, body)
  const textOf = (name: string): string => {
    const member = requireMember(type, request, name)
    if (member.kind === 'string') return member.value
    throw malformedBody(`failed to parse "string(MoveType)": Expected input type "string", field \`${name}\``)
  }
  return { keyType: textOf('key_type'), valueType: textOf('value_type'), key: requireMember(type, request, 'key') }
}

/** Reads the key, in hex, from the body of a raw request. */
function readRawKey (type: string, contentType: string | undefined, body: Buffer): Buffer {
  const key = requireMember(type, readJsonObject(type, ['key'], contentType, body), 'key')
  if (key.kind !== 'string') {
    throw malformedBody('failed to parse "string(HexEncodedBytes)": Expected input type "string", field `key`')
  }
  const digits = key.value.replace(/^0x/, '')
  if (/^(?:[0-9a-fA-F]{2})*$/.test(digits)) return Buffer.from(digits, 'hex')
  throw malformedBody(
    `failed to parse "string(HexEncodedBytes)": decode hex-encoded string(${JSON.stringify(key.value)}) failed`
  )
}

/** Parses the text of a type before the ledger is read; throws if it is invalid. */
function requireType (name: string, text: string): TypeTag {
  const tag = readTypeTag(text)
  if (tag === undefined) {
    throw new Problem('verification', 'invalid_input', `Invalid ${name}: '${text}' is not a valid type`)
  }
  return tag
}
