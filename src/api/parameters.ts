import { readAddress } from './address.js'
import { readU16, readU64 } from './integer.js'
import { isPinnedCursor, readPinnedCursor } from './pinned-cursor.js'
import { isIdentifier, printTypeTag, readStructTag } from './type-tag.js'

/** Returns the canonical form of a decoded parameter; undefined if the text cannot be valid. */
export type ParameterParser = (text: string) => string | undefined

/** Address of an account or a table: all digits, lower case. */
export const address: ParameterParser = text => {
  const digits = readAddress(text)
  return digits && `0x${digits}`
}

/** Struct tag with its type arguments. */
export const structTag: ParameterParser = text => {
  const tag = readStructTag(text)
  return tag && printTypeTag(tag)
}

/** Asset of a balance: a coin by its type, any other asset by the address of its metadata. */
export const asset: ParameterParser = text => text.includes('::') ? structTag(text) : address(text)

/** Name of a field or a module. */
export const identifier: ParameterParser = text => isIdentifier(text) ? text : undefined

/** Version, height or sequence number. */
export const u64: ParameterParser = text => readU64(text)?.toString()

/** Limit of a page. */
export const u16: ParameterParser = text => readU16(text)?.toString()

/** Exactly `true` or `false`. */
export const flag: ParameterParser = text => text === 'true' || text === 'false' ? text : undefined

/** Hash of a transaction: no digit may be left out. */
export const hash: ParameterParser = text => {
  const [, digits] = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(text) ?? []
  return digits && `0x${digits.toLowerCase()}`
}

/**
 * Cursor of a listing: any hex, because its contents are opaque, but a pinned cursor must be complete
 * (docs/node-behaviour.md, "Cursors").
 */
export const cursor: ParameterParser = text => {
  const digits = /^(?:[0-9a-fA-F]{2})+$/.test(text) ? text.toLowerCase() : undefined
  return digits !== undefined && isPinnedCursor(digits) && readPinnedCursor(digits) === undefined ? undefined : digits
}
