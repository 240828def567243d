import { readAddress, shortAddress } from './address.js'
import { mediaTypes } from './accept.js'
import { readJsonBody, requireString } from './json-body.js'
import { type RequestBody } from './read.js'
import { invalidInputError, type ErrorResponse } from './error-response.js'
import { isIdentifier, maxTagLength, printTypeTag, readTypeTag } from './type-tag.js'

// Each family of nodes has its own word in this media type (docs/node-behaviour.md, "Views").
const bcsType = /^(application\/x\.[a-z0-9-]+\.view_function\+bcs)[ \t]*(?:;|$)/i

/**
 * Reads the body of a view in JSON or BCS; BCS is sent and keyed unchanged. Throws an ErrorResponse if the body is
 * invalid.
 */
export function readViewRequest (contentType: string | undefined, bytes: Buffer): RequestBody {
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
