import { addressOf } from './address.js'
import { acceptedFormat } from './response-format.js'
import { printJson } from './json-printer.js'
import { keyBytes } from './value-bytes.js'
import { invalidInput, itemNotFound, Problem } from './problem.js'
import { addressParam, u64Query } from './params.js'
import { requestedFormat, pathParam, type RequestContext, requireVersion, successResponse } from './request-context.js'
import { type SandboxResponse } from './response.js'
import { tableItemAt } from './table-items.js'
import { readRawKey, readTableRequest, requireType } from './table-request.js'
import { printTypeTag, type TypeTag } from './type-tag.js'

const u64: TypeTag = { kind: 'primitive', name: 'u64' }
const text: TypeTag = { kind: 'struct', address: addressOf('1'), module: 'string', name: 'String', args: [] }
const shopItem: TypeTag = { kind: 'struct', address: addressOf('42'), module: 'shop', name: 'Item', args: [] }

/** Reads one item of a table. */
export function readTableItem (context: RequestContext): SandboxResponse {
  const handle = addressParam('table_handle', pathParam(context, 0))
  const request = readTableRequest(context.contentType, context.body)
  const requestedVersion = u64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get table item')
  const keyType = requireType('key_type', request.keyType)
  const valueType = requireType('value_type', request.valueType)
  const version = requireVersion(context.snapshot, requestedVersion)
  const value = tableItemAt(
    context.snapshot.ledger,
    { handle, keyType, key: keyBytes(keyType, request.key) },
    valueType,
    version
  )
  if (value === 'absent') throw itemNotFound(handle, printJson(request.key), version)
  if (value === 'unknown') throw invalidInput(`Failed to read a value of type ${printTypeTag(valueType)}`)
  return successResponse(context, format, format === 'json' ? value.json : value.bytes)
}

/** Reads the bytes of one item by the bytes of its key. */
export function readRawTableItem (context: RequestContext): SandboxResponse {
  const handle = addressParam('table_handle', pathParam(context, 0))
  const key = readRawKey(context.contentType, context.body)
  const requestedVersion = u64Query(context.query, 'ledger_version')
  if (acceptedFormat(context.accept) === 'json') {
    throw new Problem(
      'verification',
      'api_disabled',
      'Get raw table item is not allowed. Only BCS is supported as an AcceptType.'
    )
  }
  const format = requestedFormat(context, 'Get raw table item')
  const version = requireVersion(context.snapshot, requestedVersion)
  // A raw key has no type: 8 bytes select a u64 key and value, any other length a string key and a shop item.
  const [keyType, valueType] = key.length === 8 ? [u64, u64] : [text, shopItem]
  const value = tableItemAt(context.snapshot.ledger, { handle, keyType, key }, valueType, version)
  if (typeof value === 'string') throw itemNotFound(handle, `0x${key.toString('hex')}`, version)
  return successResponse(context, format, value.bytes)
}
