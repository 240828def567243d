import { type Json, type JsonObject, parseJson } from './json-parser.js'
import { frameworkProblem, malformedBody } from './problem.js'

/** Returns the media type of a body without its parameters. */
export function readMediaType (contentType: string): string {
  return contentType.replace(/;.*$/s, '').trim().toLowerCase()
}

/** Parses a request body as the framework does; throws if a known member is repeated. */
export function readJsonObject (
  type: string,
  known: readonly string[],
  contentType: string | undefined,
  body: Buffer
): JsonObject {
  if (contentType === undefined) throw frameworkProblem('expect content type `application/json`', 415)
  if (
    !/^(?:application\/json|[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+\+json)$/.test(
      readMediaType(contentType)
    )
  ) {
    throw frameworkProblem(`the \`Content-Type\` requested by the client is not supported: ${contentType}`, 415)
  }
  const request = parseJson(body)
  if (request.kind !== 'object') throw malformedBody(`failed to parse "${type}": Expected input type "object"`)
  const repeatedName = known.find(name => request.repeatedNames.has(name))
  if (repeatedName !== undefined) throw malformedBody(`duplicate field \`${repeatedName}\``)
  return request
}

/** Returns a required member of a request; throws if it is missing. */
export function requireMember (type: string, request: JsonObject, name: string): Json {
  const member = request.members.get(name)
  if (member === undefined) throw malformedBody(`failed to parse "${type}": missing field \`${name}\``)
  return member
}
