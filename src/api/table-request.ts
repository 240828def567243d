import { mediaTypes } from './accept.js'
import { readJsonBody, requireString, requireText } from './json-body.js'
import { type JsonObject } from './strict-json-object.js'
import { type ReadBody } from './read.js'
import { invalidInputError } from './error-response.js'
import { canonicalBytes, canonicalKey } from './table-key.js'
import { printTypeTag, readTypeTag, type TypeTag } from './type-tag.js'

/** Reads the body of a table item request; throws an ErrorResponse if it is invalid. */
export function readTableRequest (contentType: string | undefined, bytes: Buffer): ReadBody {
  const body = readJsonBody(contentType, bytes)
  const keyText = requireText(body, 'key')
  const keyType = readType(body, 'key_type')
  const head = `{"key_type":"${printTypeTag(keyType)}","value_type":"${
    printTypeTag(readType(body, 'value_type'))
  }","key":`
  return { type: mediaTypes.json, sent: `${head}${keyText}}`, canonical: `${head}${canonicalKey(keyType, keyText)}}` }
}

/** Reads the body of a request by the key's raw bytes; throws an ErrorResponse if it is invalid. */
export function readRawRequest (contentType: string | undefined, bytes: Buffer): ReadBody {
  const body = readJsonBody(contentType, bytes)
  const keyText = requireText(body, 'key')
  return {
    type: mediaTypes.json,
    sent: `{"key":${keyText}}`,
    canonical: `{"key":${JSON.stringify(canonicalBytes(requireString(body, 'key')))}}`
  }
}

function readType (body: JsonObject, name: string): TypeTag {
  const tag = readTypeTag(requireString(body, name))
  if (tag === undefined) throw invalidInputError(`\`${name}\` is not a type tag`)
  return tag
}
