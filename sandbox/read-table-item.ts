import { acceptedFormat } from './response-format.js'
import { printJson } from './json-printer.js'
import { keyBytes } from './value-bytes.js'
import { invalidInput, itemNotFound, Problem } from './problem.js'
import { readAddressParam, readU64Query } from './params.js'
import { requestedFormat, pathParam, type RequestContext, requireVersion, successResponse } from './request-context.js'
import { type SandboxResponse } from './make-response.js'
import { itemAt } from './state.js'
import { itemValue } from './generated-table-items.js'
import { readRawKey, readTableRequest, requireType } from './table-request.js'
import { printTypeTag } from './type-tag.js'

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
  const value = itemValue(item.seed, valueType)
  if (value === undefined) throw invalidInput(`Failed to read a value of type ${printTypeTag(valueType)}`)
  return successResponse(context, format, format === 'json' ? value.json : value.bytes)
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
