import { type Json, type JsonObject, printJson } from './json.js'
import { malformedBody, Problem, invalidInput, itemNotFound } from './problem.js'
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
import { itemAt } from './state.js'
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
  const key = readRawKey(context.contentType, context.body)
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  if (acceptedFormat(context.accept) === 'json') {
    throw new Problem(
      'verification',
      'api_disabled',
      'Get raw table item is not allowed. Only BCS is supported as an AcceptType.'
    )
  }
  const format = requestedFormat(context, 'Get raw table item')
  const version = requireVersion(context.snapshot, requestedVersion)
  const item = itemAt(context.snapshot.ledger, handle, key, version)
  if (item === undefined) throw itemNotFound(handle, `0x${key.toString('hex')}`, version)
  return successResponse(context, format, item.bytes)
}

/** Body of a table item request; the types are still text, since nodes verify them later. */
interface TableRequest {
  readonly keyType: string
  readonly valueType: string
  readonly key: Json
}

/** Reads the body of a table item request as the framework does. */
function readTableRequest (contentType: string | undefined, body: Buffer): TableRequest {
  const request = readJsonObject('TableItemRequest', ['key_type', 'value_type', 'key'], contentType, body)
  return {
    keyType: requireTypeText(request, 'key_type'),
    valueType: requireTypeText(request, 'value_type'),
    key: requireTableMember(request, 'key')
  }
}

/** Reads the key, in hex, from the body of a raw table item request. */
function readRawKey (contentType: string | undefined, body: Buffer): Buffer {
  const type = 'RawTableItemRequest'
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

function requireTableMember (request: JsonObject, name: string): Json {
  return requireMember('TableItemRequest', request, name)
}

function requireTypeText (request: JsonObject, name: string): string {
  const member = requireTableMember(request, name)
  if (member.kind !== 'string') {
    throw malformedBody(`failed to parse "string(MoveType)": Expected input type "string", field \`${name}\``)
  }
  return member.value
}
