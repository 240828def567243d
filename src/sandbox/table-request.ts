import { type Json, readJson } from './json-reader.js'
import { framework, malformed, Problem } from './problem.js'
import { readTypeTag, type TypeTag } from './type-tag.js'

/** The body of a table lookup; the types are still text, as they are verified later. */
export interface TableRequest {
  readonly keyType: string
  readonly valueType: string
  readonly key: Json
}

/** Reads the body of a table lookup as the framework does. */
export function readTableRequest (contentType: string | undefined, body: Buffer): TableRequest {
  if (contentType === undefined) throw framework('expect content type `application/json`', 415)
  const essence = contentType.replace(/;.*$/s, '').trim().toLowerCase()
  if (!/^(?:application\/json|[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+\+json)$/.test(essence)) {
    throw framework(`the \`Content-Type\` requested by the client is not supported: ${contentType}`, 415)
  }
  const request = readJson(body)
  if (request.kind !== 'object') throw malformed('failed to parse "TableItemRequest": Expected input type "object"')
  const twice = ['key_type', 'value_type', 'key'].find(name => request.repeated.has(name))
  if (twice !== undefined) throw malformed(`duplicate field \`${twice}\``)
  return { keyType: textOf(request, 'key_type'), valueType: textOf(request, 'value_type'), key: memberOf(request, 'key') }
}

/** Verifies the text of a type, before the ledger is read. */
export function verifiedType (name: string, text: string): TypeTag {
  const tag = readTypeTag(text)
  if (tag === undefined) throw new Problem('verification', 'invalid_input', `Invalid ${name}: '${text}' is not a valid type`)
  return tag
}

type JsonObject = Extract<Json, { kind: 'object' }>

function memberOf (request: JsonObject, name: string): Json {
  const member = request.members.get(name)
  if (member === undefined) throw malformed(`failed to parse "TableItemRequest": missing field \`${name}\``)
  return member
}

function textOf (request: JsonObject, name: string): string {
  const member = memberOf(request, name)
  if (member.kind !== 'string') throw malformed(`failed to parse "string(MoveType)": Expected input type "string", field \`${name}\``)
  return member.value
}
