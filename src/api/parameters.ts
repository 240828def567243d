import { readAddress } from './address.js'
import { type PathParameter, type ReadParameter } from './endpoint-definition.js'
import { readU16, readU64 } from './integer.js'
import { isPinnedCursor, readPinnedCursor } from './pinned-cursor.js'
import { isIdentifier, printTypeTag, readStructTag } from './type-tag.js'

/** An account or a table, in the spelling that is sent: all digits, lower case. */
export const address: ReadParameter = text => {
  const digits = readAddress(text)
  return digits && `0x${digits}`
}

/** A struct with its type arguments. */
export const structTag: ReadParameter = text => {
  const tag = readStructTag(text)
  return tag && printTypeTag(tag)
}

/** What has a balance: a coin by its type, any other asset by where its metadata is. */
export const asset: ReadParameter = text => text.includes('::') ? structTag(text) : address(text)

/** The name of a field or a module. */
export const identifier: ReadParameter = text => isIdentifier(text) ? text : undefined

/** A version, a height or a sequence number. */
export const u64: ReadParameter = text => readU64(text)?.toString()

/** The limit of a page. */
export const u16: ReadParameter = text => readU16(text)?.toString()

/** Exactly one of two words. */
export const flag: ReadParameter = text => text === 'true' || text === 'false' ? text : undefined

/** The hash of a transaction: no digit may be left out. */
export const hash: ReadParameter = text => {
  const [, digits] = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(text) ?? []
  return digits && `0x${digits.toLowerCase()}`
}

/**
 * Where a listing goes on: opaque but for its digits, and for what varve itself has put before them: what it encodes is
 * the node's own affair.
 */
export const cursor: ReadParameter = text => {
  const digits = /^(?:[0-9a-fA-F]{2})+$/.test(text) ? text.toLowerCase() : undefined
  return digits !== undefined && isPinnedCursor(digits) && readPinnedCursor(digits) === undefined ? undefined : digits
}

/** A place in a path that nodes decode twice. */
export const decodedTwice = (name: string, read: ReadParameter): PathParameter => ({ name, read, decodings: 2 })

/** A place in a path that nodes decode once. */
export const decodedOnce = (name: string, read: ReadParameter): PathParameter => ({ name, read, decodings: 1 })
