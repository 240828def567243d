import { isObject } from './json-text.js'
import { readAddress } from './address.js'
import { readSigned, readUnsigned } from './integer.js'
import { type TypeTag } from './type-tag.js'

/**
 * One text for all spellings of a table key that nodes take for the same key (facts, section 4).
 * Where a value does not have the shape of its type it stands as it is: the node decides, and the key stays its own.
 */
export function canonicalKey (type: TypeTag, value: unknown): string {
  switch (type.kind) {
    case 'named': return typeof value === 'string' ? JSON.stringify(canonicalText(type.name, value)) : plain(value)
    case 'vector': return canonicalVector(type.of, value)
    case 'struct': return isObjectPointer(type) && typeof value === 'string' ? JSON.stringify(canonicalText('address', value)) : plain(value)
  }
}

function canonicalVector (of: TypeTag, value: unknown): string {
  if (of.kind === 'named' && of.name === 'u8' && typeof value === 'string') return JSON.stringify(canonicalBytes(value))
  return Array.isArray(value) ? `[${value.map(item => canonicalKey(of, item)).join(',')}]` : plain(value)
}

function canonicalText (typeName: string, text: string): string {
  if (typeName === 'address') {
    const digits = readAddress(text)
    return digits === undefined ? text : `0x${digits}`
  }
  // Only the wide integers are written as strings; the narrow ones are numbers, compared as text.
  const [, sign, bits] = /^([ui])(64|128|256)$/.exec(typeName) ?? []
  if (bits === undefined) return text
  const value = sign === 'u' ? readUnsigned(text, 2n ** BigInt(bits) - 1n) : readSigned(text, BigInt(bits))
  return value === undefined ? text : String(value)
}

/** One text for all spellings of the same bytes in hex. */
export function canonicalBytes (text: string): string {
  return /^(?:0x)?(?:[0-9a-fA-F]{2})*$/.test(text) ? `0x${text.replace(/^0x/, '').toLowerCase()}` : text
}

function isObjectPointer (type: TypeTag): boolean {
  return type.kind === 'struct' && BigInt(`0x${type.address}`) === 1n && type.module === 'object' && type.name === 'Object'
}

// The order of a struct's members means nothing; numbers keep their text, since 1.0 and 1 are two keys to a node.
function plain (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(plain).join(',')}]`
  if (!isObject(value)) return typeof value === 'string' ? JSON.stringify(value) : String(value)
  const members = Object.keys(value).sort().map(name => `${JSON.stringify(name)}:${plain(value[name])}`)
  return `{${members.join(',')}}`
}
