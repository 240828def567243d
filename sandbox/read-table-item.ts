import { addressOf } from './address.js'
import { acceptedForm } from './accept.js'
import { printJson } from './json-printer.js'
import { keyBytes } from './key-bytes.js'
import { invalidInput, itemNotFound, Problem } from './problem.js'
import { addressParam, u64Query } from './params.js'
import { formOf, paramOf, type Question, readableVersion, success } from './question.js'
import { type Reply } from './reply.js'
import { itemAt } from './table.js'
import { readRawKey, readTableRequest, verifiedType } from './table-request.js'
import { printTypeTag, type TypeTag } from './type-tag.js'

const u64: TypeTag = { kind: 'primitive', name: 'u64' }
const text: TypeTag = { kind: 'struct', address: addressOf('1'), module: 'string', name: 'String', args: [] }
const ware: TypeTag = { kind: 'struct', address: addressOf('42'), module: 'shop', name: 'Item', args: [] }

/** Looks up one item of a table. */
export function readTableItem (question: Question): Reply {
  const handle = addressParam('table_handle', paramOf(question, 0))
  const request = readTableRequest(question.contentType, question.body)
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'Get table item')
  const keyType = verifiedType('key_type', request.keyType)
  const valueType = verifiedType('value_type', request.valueType)
  const version = readableVersion(question.view, asked)
  const value = itemAt(
    question.view.ledger,
    { handle, keyType, key: keyBytes(keyType, request.key) },
    valueType,
    version
  )
  if (value === 'absent') throw itemNotFound(handle, printJson(request.key), version)
  if (value === 'unknown') throw invalidInput(`Failed to read a value of type ${printTypeTag(valueType)}`)
  return success(question, form, form === 'json' ? value.json : value.bytes)
}

/** Looks up the bytes of one item by the bytes of its key. */
export function readRawTableItem (question: Question): Reply {
  const handle = addressParam('table_handle', paramOf(question, 0))
  const key = readRawKey(question.contentType, question.body)
  const asked = u64Query(question.query, 'ledger_version')
  if (acceptedForm(question.accept) === 'json') {
    throw new Problem(
      'verification',
      'api_disabled',
      'Get raw table item is not allowed. Only BCS is supported as an AcceptType.'
    )
  }
  const form = formOf(question, 'Get raw table item')
  const version = readableVersion(question.view, asked)
  // Bytes do not tell their types: eight are taken for a number, which names a number, and others for a text, which
  // names a ware.
  const [keyType, valueType] = key.length === 8 ? [u64, u64] : [text, ware]
  const value = itemAt(question.view.ledger, { handle, keyType, key }, valueType, version)
  if (typeof value === 'string') throw itemNotFound(handle, `0x${key.toString('hex')}`, version)
  return success(question, form, value.bytes)
}
