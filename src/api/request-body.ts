import { mediaTypes, trimOws } from './accept.js'
import { readAddress, shortAddress } from './address.js'
import { type BodyKind } from './endpoints.js'
import { type RequestBody } from './read.js'
import { type JsonObject, readObject } from './strict-json-object.js'
import { invalidInputError, webFrameworkError, type ErrorResponse } from './error-response.js'
import { stateKeyInBody } from './state-key.js'
import { canonicalHex, canonicalKey } from './table-key.js'
import { isIdentifier, maxTagLength, printTypeTag, readTypeTag, type TypeTag } from './type-tag.js'

/** Reads the body of a read; throws an ErrorResponse if it is invalid. */
export function readRequestBody (kind: BodyKind, contentType: string | undefined, bytes: Buffer): RequestBody {
  switch (kind) {
    case 'table_key':
      return readTableRequest(contentType, bytes)
    case 'raw_key':
      return readRawRequest(contentType, bytes)
    case 'state_key':
      return readStateKeyRequest(contentType, bytes)
    case 'view':
      return readViewRequest(contentType, bytes)
  }
}

// Media type in the public source of nodes (docs/node-behaviour.md, "Views").
const viewInBcs = 'application/x.aptos.view_function+bcs'
// Each family of nodes has its own word in this media type (docs/node-behaviour.md, "Views").
const bcsType = /^(application\/x\.[a-z0-9-]+\.view_function\+bcs)[ \t]*(?:;|$)/i

/**
 * Reads a body from text that an operator or a program wrote: JSON unchanged, bytes in hex, optionally behind their
 * media type.
 */
export function bodyFromText (text: string): { readonly contentType: string, readonly body: Buffer } {
  const [, type = viewInBcs, digits] = /^(?:(application\/\S+) )?0x((?:[0-9a-fA-F]{2})*)$/.exec(text) ?? []
  return digits === undefined
    ? { contentType: mediaTypes.json, body: Buffer.from(text) }
    : { contentType: type, body: Buffer.from(digits, 'hex') }
}

/** Reads the body of a table item request; throws an ErrorResponse if it is invalid. */
function readTableRequest (contentType: string | undefined, bytes: Buffer): RequestBody {
  const body = readJsonBody(contentType, bytes)
  const keyText = requireText(body, 'key')
  const keyType = readType(body, 'key_type')
  const head = `{"key_type":"${printTypeTag(keyType)}","value_type":"${
    printTypeTag(readType(body, 'value_type'))
  }","key":`
  return { type: mediaTypes.json, sent: `${head}${keyText}}`, canonical: `${head}${canonicalKey(keyType, keyText)}}` }
}

/** Reads the body of a request by the key's raw bytes; throws an ErrorResponse if it is invalid. */
function readRawRequest (contentType: string | undefined, bytes: Buffer): RequestBody {
  const body = readJsonBody(contentType, bytes)
  const keyText = requireText(body, 'key')
  return {
    type: mediaTypes.json,
    sent: `{"key":${keyText}}`,
    canonical: `{"key":${JSON.stringify(canonicalHex(requireString(body, 'key')))}}`
  }
}

/**
 * Reads the body of a request by a state key in BCS; throws an ErrorResponse if it is invalid. Nodes respond to a
 * malformed key with 500, so varve would try every upstream in vain.
 */
function readStateKeyRequest (contentType: string | undefined, bytes: Buffer): RequestBody {
  const request = readRawRequest(contentType, bytes)
  try {
    stateKeyInBody(request.canonical)
  } catch {
    throw invalidInputError('`key` is not a state key in BCS')
  }
  return request
}

function readType (body: JsonObject, name: string): TypeTag {
  const tag = readTypeTag(requireString(body, name))
  if (tag === undefined) throw invalidInputError(`\`${name}\` is not a type tag`)
  return tag
}

/**
 * Reads the body of a view in JSON or BCS; BCS is sent and keyed unchanged. Throws an ErrorResponse if the body is
 * invalid.
 */
function readViewRequest (contentType: string | undefined, bytes: Buffer): RequestBody {
  const [, type] = bcsType.exec(contentType ?? '') ?? []
  if (type === undefined) return readJsonView(contentType, bytes)
  return { type: type.toLowerCase(), sent: bytes, canonical: `${type.toLowerCase()} 0x${bytes.toString('hex')}` }
}

function readJsonView (contentType: string | undefined, bytes: Buffer): RequestBody {
  const body = readJsonBody(contentType, bytes)
  const [types, values] = [body.textOf('type_arguments'), body.textOf('arguments')]
  if (types?.startsWith('[') !== true || values?.startsWith('[') !== true) {
    throw invalidInputError('parse request payload error: `type_arguments` and `arguments` must be arrays')
  }
  // Keys arguments by their text, because only the function's own types show which texts are equal.
  const sent = `{"function":"${readFunction(requireString(body, 'function'))}","type_arguments":[${
    readTypes(types)
  }],"arguments":${values}}`
  return { type: mediaTypes.json, sent, canonical: sent }
}

function readFunction (text: string): string {
  const [address = '', module = '', name = '', ...more] = text.split('::', 4)
  const digits = readAddress(address)
  if (digits === undefined || !isIdentifier(module) || !isIdentifier(name) || more.length > 0) {
    throw invalidInputError('`function` is not of the form ADDRESS::MODULE::FUNCTION')
  }
  return `${shortAddress(digits)}::${module}::${name}`
}

/** Returns canonical type tags from the JSON of an array of strings. */
function readTypes (json: string): string {
  // Rejects objects before parsing: none is a type tag, and chosen member names take quadratic time to build.
  if (json.length > maxTagLength || json.includes('{')) throw invalidTypesError()
  const types = JSON.parse(json) as unknown[]
  return types.map(text => {
    const tag = typeof text === 'string' ? readTypeTag(text) : undefined
    if (tag === undefined) throw invalidTypesError()
    return `"${printTypeTag(tag)}"`
  }).join(',')
}

function invalidTypesError (): ErrorResponse {
  return invalidInputError(
    `\`type_arguments\` contains an invalid type tag, or one longer than ${maxTagLength} characters`
  )
}

/**
 * Reads a body that is one JSON object, ignoring unknown members as nodes do; throws an ErrorResponse for any other
 * body (docs/node-behaviour.md, "Request bodies").
 */
function readJsonBody (contentType: string | undefined, bytes: Buffer): JsonObject {
  if (!isJson(contentType)) {
    throw webFrameworkError(415, 'the content type must be application/json')
  }
  const body = readObject(bytes)
  if (body === undefined) throw invalidInputError('parse request payload error: not one JSON object')
  return body
}

/** Returns the JSON text of a required member; throws an ErrorResponse if the member is missing. */
function requireText (body: JsonObject, name: string): string {
  const text = body.textOf(name)
  if (text === undefined) throw invalidInputError(`parse request payload error: \`${name}\` is missing`)
  return text
}

/** Returns the value of a required string member; throws an ErrorResponse if the member is missing or no string. */
function requireString (body: JsonObject, name: string): string {
  const text = body.stringOf(name)
  if (text === undefined) throw invalidInputError(`parse request payload error: \`${name}\` must be a string`)
  return text
}

function isJson (contentType: string | undefined): boolean {
  return /^(?:application\/json|[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+\+json)[ \t]*(?:;|$)/i.test(
    trimOws(contentType ?? '')
  )
}
