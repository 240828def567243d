import { mediaTypes } from './accept.js'
import { type BodyKind } from './endpoint-definition.js'
import { type RequestBody } from './read.js'
import { readViewRequest } from './view-request.js'
import { readJsonBody, requireString, requireText } from './json-body.js'
import { type JsonObject } from './strict-json-object.js'
import { invalidInputError } from './error-response.js'
import { canonicalHex, canonicalKey } from './table-key.js'
import { printTypeTag, readTypeTag, type TypeTag } from './type-tag.js'

/** Reads the body of a read; throws an ErrorResponse if it is invalid. */
export function readRequestBody (kind: BodyKind, contentType: string | undefined, bytes: Buffer): RequestBody {
  switch (kind) {
    case 'table_key':
      return readTableRequest(contentType, bytes)
    case 'raw_key':
      return readRawRequest(contentType, bytes)
    case 'view':
      return readViewRequest(contentType, bytes)
  }
}

// Media type in the public source of nodes (docs/node-behaviour.md, "Views").
const viewInBcs = 'application/x.aptos.view_function+bcs'

/**
 * Reads a body from the text of a person or process: JSON unchanged, bytes in hex, optionally behind their media type.
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

function readType (body: JsonObject, name: string): TypeTag {
  const tag = readTypeTag(requireString(body, name))
  if (tag === undefined) throw invalidInputError(`\`${name}\` is not a type tag`)
  return tag
}
