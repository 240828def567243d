import { type Address, readAddress } from './address.js'
import { maxU64, readInteger } from './integer.js'
import { frameworkProblem, type Problem } from './problem.js'
import { readCursor } from './state-key.js'
import { decodePercent } from './request-target.js'
import { isIdentifier, readStructTag, type StructTag } from './type-tag.js'

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
