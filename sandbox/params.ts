import { type Address, readAddress } from './address.js'
import { maxU64, readInteger } from './integer.js'
import { framework, type Problem } from './problem.js'
import { readCursor } from './state-key.js'
import { percentDecoded } from './target.js'
import { isIdentifier, readStructTag, type StructTag } from './type-tag.js'

/** An address in a path, decoded by the router and once more by its type. */
export function addressParam (name: string, segment: string): Address {
  const text = twice(segment)
  const address = readAddress(text)
  if (address !== undefined) return address
  const digits = text.replace(/^0x/, '')
  const at = digits.search(/[^0-9a-fA-F]/)
  const reason = at < 0 ? 'Invalid string length' : `Invalid character '${digits[at]}' at position ${at}`
  throw pathProblem(name, 'string(Address)', `Invalid account address: Hex characters are invalid: ${reason}`)
}

/** A struct tag in a path. */
export function structTagParam (name: string, segment: string): StructTag {
  const tag = readStructTag(twice(segment))
  if (tag === undefined) throw pathProblem(name, 'string(MoveStructTag)', `invalid struct tag: ${twice(segment)}`)
  return tag
}

/** The type of a coin or the address of the metadata of a fungible asset, in a path. */
export function assetParam (name: string, segment: string): StructTag | Address {
  const text = twice(segment)
  const asset = readStructTag(text) ?? readAddress(text)
  if (asset === undefined) throw pathProblem(name, 'string(AssetType)', `Invalid asset type: ${text}`)
  return asset
}

/** A name of the language in a path. */
export function identifierParam (name: string, segment: string): string {
  const text = twice(segment)
  if (!isIdentifier(text)) throw pathProblem(name, 'string(IdentifierWrapper)', `Invalid identifier '${text}'`)
  return text
}

/** The hash of a transaction in a path, as answers print it. */
export function hashParam (name: string, segment: string): string {
  const digits = twice(segment).replace(/^0x/, '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return `0x${digits}`
  throw pathProblem(name, 'string(HashValue)', `parse hash value error: ${twice(segment)}`)
}

/** A u64 in a path, decoded by the router alone. */
export function plainU64Param (name: string, segment: string): bigint {
  return integer(percentDecoded(segment), maxU64, reason => pathProblem(name, 'integer(uint64)', reason))
}

/** A u64 in a path, decoded by the router and once more by its type. */
export function u64Param (name: string, segment: string): bigint {
  const text = twice(segment)
  return integer(
    text,
    maxU64,
    reason =>
      pathProblem(name, 'string(U64)', `Parsing u64 string ${JSON.stringify(text)} failed, caused by error: ${reason}`)
  )
}

/** A u64 in a query, decoded as a form and once more by its type. */
export function u64Query (query: ReadonlyMap<string, string>, name: string): bigint | undefined {
  const text = query.get(name)
  if (text === undefined) return undefined
  const decoded = percentDecoded(text)
  return integer(
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

/** The limit of a page: a u16. */
export function limitQuery (query: ReadonlyMap<string, string>): number | undefined {
  const text = query.get('limit')
  if (text === undefined) return undefined
  return Number(integer(text, 65_535n, reason => queryProblem('limit', 'integer(uint16)', reason)))
}

/** A flag: exactly `true` or `false`. */
export function flagQuery (query: ReadonlyMap<string, string>, name: string): boolean {
  const text = query.get(name)
  if (text === undefined || text === 'false') return false
  if (text === 'true') return true
  throw queryProblem(name, 'boolean', 'provided string was not `true` or `false`')
}

/** The cursor of a page of modules or of resources. */
export function cursorQuery (query: ReadonlyMap<string, string>): Buffer | undefined {
  const text = query.get('start')
  if (text === undefined) return undefined
  const key = readCursor(percentDecoded(text))
  if (key === undefined) throw queryProblem('start', 'string(StateKeyWrapper)', 'Failed to decode the state key')
  return key
}

function twice (segment: string): string {
  return percentDecoded(percentDecoded(segment))
}

function integer (text: string, most: bigint, problem: (reason: string) => Problem): bigint {
  const value = readInteger(text, 0n, most)
  if (typeof value === 'string') throw problem(value)
  return value
}

function pathProblem (name: string, type: string, reason: string): Problem {
  return framework(`failed to parse path \`${name}\`: failed to parse "${type}": ${reason}`)
}

function queryProblem (name: string, type: string, reason: string): Problem {
  return framework(
    `failed to parse parameter \`${name}\`: failed to parse "${type}": ${reason} (occurred while parsing ` +
      `"optional<${type}>")`
  )
}
