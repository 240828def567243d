import { type Json, type JsonObject, parseJson } from './json.js'
import { frameworkProblem, malformedBody, type Problem } from './problem.js'
import { type Address, readAddress } from './address.js'
import { maxU64, readInteger } from './values.js'
import { readCursor } from './state-key.js'
import { isIdentifier, readStructTag, type StructTag } from './type-tag.js'

/** Request target, split but not yet decoded. */
interface RequestTarget {
  readonly path: string
  readonly query: string
}

// Characters that the HTTP layer of nodes accepts unencoded; the parser of Node.js rejects those beyond ASCII.
const pathPattern = /^[\u0021\u0022\u0024-\u003b\u003d\u0040-\u005f\u0061-\u007e]*$/
const queryPattern = /^[\u0021\u0024-\u003b\u003d\u003f-\u007e]*$/
const maxTargetLength = 65_534

/** Splits a raw target; returns the status of a response without a body if the target is invalid. */
export function readTarget (raw: string): RequestTarget | 400 | 414 {
  if (raw.length > maxTargetLength) return 414
  const local = raw.replace(/^https?:\/\/[^/?#]*(?=[/?]|$)/i, '')
  const queryStart = local.indexOf('?')
  const path = queryStart < 0 ? local : local.slice(0, queryStart)
  const query = queryStart < 0 ? '' : local.slice(queryStart + 1)
  if (!pathPattern.test(path) || !queryPattern.test(query)) return 400
  return { path, query }
}

/** Decodes `%xx` once; leaves invalid triples unchanged. */
function decodePercent (text: string): string {
  const bytes = Buffer.from(text).toString('latin1')
  const decoded = bytes.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  return Buffer.from(decoded, 'latin1').toString()
}

/** Decodes a query as a form, where a plus is a space; the first of repeated parameters wins. */
export function readQuery (query: string): Map<string, string> {
  const params = new Map<string, string>()
  for (const piece of query.split('&')) {
    if (piece === '') continue
    const valueStart = piece.indexOf('=')
    const name = decodeFormText(valueStart < 0 ? piece : piece.slice(0, valueStart))
    if (!params.has(name)) params.set(name, valueStart < 0 ? '' : decodeFormText(piece.slice(valueStart + 1)))
  }
  return params
}

function decodeFormText (text: string): string {
  return decodePercent(text.replaceAll('+', ' '))
}

/** Reads an address in a path, decoded by the router and again by its type. */
export function readAddressParam (name: string, segment: string): Address {
  const text = decodedTwice(segment)
  const address = readAddress(text)
  if (address !== undefined) return address
  const digits = text.replace(/^0x/, '')
  const at = digits.search(/[^0-9a-fA-F]/)
  const reason = at < 0 ? 'Invalid string length' : `Invalid character '${digits[at]}' at position ${at}`
  throw pathProblem(name, 'string(Address)', `Invalid account address: Hex characters are invalid: ${reason}`)
}

/** Reads a struct tag in a path. */
export function readStructTagParam (name: string, segment: string): StructTag {
  const tag = readStructTag(decodedTwice(segment))
  if (tag === undefined) {
    throw pathProblem(name, 'string(MoveStructTag)', `invalid struct tag: ${decodedTwice(segment)}`)
  }
  return tag
}

/** Reads an asset in a path: the type of a coin or the metadata address of a fungible asset. */
export function readAssetParam (name: string, segment: string): StructTag | Address {
  const text = decodedTwice(segment)
  const asset = readStructTag(text) ?? readAddress(text)
  if (asset === undefined) throw pathProblem(name, 'string(AssetType)', `Invalid asset type: ${text}`)
  return asset
}

/** Reads a Move identifier in a path. */
export function readIdentifierParam (name: string, segment: string): string {
  const text = decodedTwice(segment)
  if (!isIdentifier(text)) throw pathProblem(name, 'string(IdentifierWrapper)', `Invalid identifier '${text}'`)
  return text
}

/** Reads a transaction hash in a path; returns it in the form that responses print. */
export function readHashParam (name: string, segment: string): string {
  const digits = decodedTwice(segment).replace(/^0x/, '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return `0x${digits}`
  throw pathProblem(name, 'string(HashValue)', `parse hash value error: ${decodedTwice(segment)}`)
}

/** Reads a u64 in a path, decoded by the router alone. */
export function readOnceDecodedU64Param (name: string, segment: string): bigint {
  return requireU64(decodePercent(segment), maxU64, reason => pathProblem(name, 'integer(uint64)', reason))
}

/** Reads a u64 in a path, decoded by the router and again by its type. */
export function readU64Param (name: string, segment: string): bigint {
  const text = decodedTwice(segment)
  return requireU64(
    text,
    maxU64,
    reason =>
      pathProblem(name, 'string(U64)', `Parsing u64 string ${JSON.stringify(text)} failed, caused by error: ${reason}`)
  )
}

/** Reads a u64 in a query, decoded as a form and again by its type. */
export function readU64Query (query: ReadonlyMap<string, string>, name: string): bigint | undefined {
  const text = query.get(name)
  if (text === undefined) return undefined
  const decoded = decodePercent(text)
  return requireU64(
    decoded,
    maxU64,
    reason =>
      queryProblem(
        name,
        'string(U64)',
        `Parsing u64 string ${JSON.stringify(decoded)} failed, caused by error: ${reason}`
      )
  )
}

/** Reads the limit of a page, a u16. */
export function readLimitQuery (query: ReadonlyMap<string, string>): number | undefined {
  const text = query.get('limit')
  if (text === undefined) return undefined
  return Number(requireU64(text, 65_535n, reason => queryProblem('limit', 'integer(uint16)', reason)))
}

/** Reads a flag in a query, exactly `true` or `false`; absent means false. */
export function readFlagQuery (query: ReadonlyMap<string, string>, name: string): boolean {
  const text = query.get(name)
  if (text === undefined || text === 'false') return false
  if (text === 'true') return true
  throw queryProblem(name, 'boolean', 'provided string was not `true` or `false`')
}

/** Reads the cursor of a page of modules or of resources. */
export function readCursorQuery (query: ReadonlyMap<string, string>): Buffer | undefined {
  const text = query.get('start')
  if (text === undefined) return undefined
  const key = readCursor(decodePercent(text))
  if (key === undefined) throw queryProblem('start', 'string(StateKeyWrapper)', 'Failed to decode the state key')
  return key
}

function decodedTwice (segment: string): string {
  return decodePercent(decodePercent(segment))
}

function requireU64 (text: string, max: bigint, problemOf: (reason: string) => Problem): bigint {
  const value = readInteger(text, 0n, max)
  if (typeof value === 'string') throw problemOf(value)
  return value
}

function pathProblem (name: string, type: string, reason: string): Problem {
  return frameworkProblem(`failed to parse path \`${name}\`: failed to parse "${type}": ${reason}`)
}

function queryProblem (name: string, type: string, reason: string): Problem {
  return frameworkProblem(
    `failed to parse parameter \`${name}\`: failed to parse "${type}": ${reason} (occurred while parsing ` +
      `"optional<${type}>")`
  )
}

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
