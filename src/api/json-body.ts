import { trimOws } from './accept.js'
import { type JsonObject, readObject } from './strict-json-object.js'
import { webFrameworkError, invalidInputError } from './error-response.js'

/**
 * Reads a body that is one JSON object, ignoring unknown members as nodes do; throws an ErrorResponse for any other
 * body (docs/node-behaviour.md, "Request bodies").
 */
export function readJsonBody (contentType: string | undefined, bytes: Buffer): JsonObject {
  if (!isJson(contentType)) {
    throw webFrameworkError(415, 'the content type must be application/json')
  }
  const body = readObject(bytes)
  if (body === undefined) throw invalidInputError('parse request payload error: not one JSON object')
  return body
}

/** Returns the JSON text of a required member; throws an ErrorResponse if the member is missing. */
export function requireText (body: JsonObject, name: string): string {
  const text = body.textOf(name)
  if (text === undefined) throw invalidInputError(`parse request payload error: \`${name}\` is missing`)
  return text
}

/** Returns the value of a required string member; throws an ErrorResponse if the member is missing or no string. */
export function requireString (body: JsonObject, name: string): string {
  const text = body.stringOf(name)
  if (text === undefined) throw invalidInputError(`parse request payload error: \`${name}\` must be a string`)
  return text
}

function isJson (contentType: string | undefined): boolean {
  return /^(?:application\/json|[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+\+json)[ \t]*(?:;|$)/i.test(
    trimOws(contentType ?? '')
  )
}
