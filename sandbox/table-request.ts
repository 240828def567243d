import { type Json, type JsonObject } from './json-parser.js'
import { malformedBody, Problem } from './problem.js'
import { readJsonObject, requireMember } from './json-body.js'
import { readTypeTag, type TypeTag } from './type-tag.js'

/** Body of a table item request; the types are still text, since nodes verify them later. */
export interface TableRequest {
  readonly keyType: string
  readonly valueType: string
  readonly key: Json
}

/** Reads the body of a table item request as the framework does. */
export function readTableRequest (contentType: string | undefined, body: Buffer): TableRequest {
  const request = readJsonObject('TableItemRequest', ['key_type', 'value_type', 'key'], contentType, body)
  return {
    keyType: requireTypeText(request, 'key_type'),
    valueType: requireTypeText(request, 'value_type'),
    key: requireTableMember(request, 'key')
  }
}

/** Reads the key, in hex, from the body of a raw table item request. */
export function readRawKey (contentType: string | undefined, body: Buffer): Buffer {
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
export function requireType (name: string, text: string): TypeTag {
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
