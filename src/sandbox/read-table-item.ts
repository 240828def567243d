import { printJson } from './json-printer.js'
import { keyBytes } from './key-bytes.js'
import { invalidInput, itemNotFound } from './problem.js'
import { addressParam, u64Query } from './params.js'
import { formOf, paramOf, type Question, readableVersion, success } from './question.js'
import { type Reply } from './reply.js'
import { itemAt } from './table.js'
import { readTableRequest, verifiedType } from './table-request.js'
import { printTypeTag } from './type-tag.js'

/** Looks up one item of a table. */
export function readTableItem (question: Question): Reply {
  const handle = addressParam('table_handle', paramOf(question, 0))
  const request = readTableRequest(question.contentType, question.body)
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'Get table item')
  const keyType = verifiedType('key_type', request.keyType)
  const valueType = verifiedType('value_type', request.valueType)
  const version = readableVersion(question.view, asked)
  const value = itemAt(question.view.ledger, { handle, keyType, key: keyBytes(keyType, request.key) }, valueType, version)
  if (value === 'absent') throw itemNotFound(handle, printJson(request.key), version)
  if (value === 'unknown') throw invalidInput(`Failed to read a value of type ${printTypeTag(valueType)}`)
  return success(question, form, form === 'json' ? value.json : value.bytes)
}
