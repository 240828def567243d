import { readAddress } from './address.js'
import { lengthBytes, sizedBytes } from './state-key.js'
import { type TypeTag } from './type-tag.js'

/**
 * Encodes a table key in BCS from its type and canonical JSON; undefined where the layout of a struct would be needed,
 * or the value does not fit its type.
 */
export function tableKeyBytes (type: TypeTag, value: unknown): Buffer | undefined {
  switch (type.kind) {
    case 'named':
      return primitiveBytes(type.name, value)
    case 'vector':
      return vectorBytes(type.of, value)
    case 'struct':
      if (isFramework(type, 'string', 'String')) {
        return typeof value === 'string' ? sizedBytes(Buffer.from(value)) : undefined
      }
      return isFramework(type, 'object', 'Object') ? addressOf(value) : undefined
  }
}

/** Returns true for types whose JSON needs the layout of a struct, which published code can change. */
export function needsLayout (type: TypeTag): boolean {
  switch (type.kind) {
    case 'named':
      return false
    case 'vector':
      return needsLayout(type.of)
    case 'struct':
      return !isFramework(type, 'string', 'String') && !isFramework(type, 'object', 'Object')
  }
}

function primitiveBytes (name: string, value: unknown): Buffer | undefined {
  if (name === 'bool') return typeof value === 'boolean' ? Buffer.from([Number(value)]) : undefined
  if (name === 'address') return addressOf(value)
  const [, sign, width] = /^([ui])(8|16|32|64|128|256)$/.exec(name) ?? []
  return width === undefined ? undefined : integerBytes(value, Number(width), sign === 'i')
}

// Nodes take narrow integers as JSON numbers and wide ones as texts.
function integerBytes (value: unknown, bits: number, isSigned: boolean): Buffer | undefined {
  const isText = typeof value === 'string' && /^-?[0-9]+$/.test(value)
  if (!isText && !(typeof value === 'number' && Number.isSafeInteger(value))) return undefined
  const integer = BigInt(value)
  const wrapped = BigInt.asUintN(bits, integer)
  if ((isSigned ? BigInt.asIntN(bits, wrapped) : wrapped) !== integer) return undefined
  return Buffer.from(wrapped.toString(16).padStart(bits / 4, '0'), 'hex').reverse()
}

function vectorBytes (of: TypeTag, value: unknown): Buffer | undefined {
  if (of.kind === 'named' && of.name === 'u8') {
    const [, digits] = typeof value === 'string' ? /^0x((?:[0-9a-f]{2})*)$/.exec(value) ?? [] : []
    return digits === undefined ? undefined : sizedBytes(Buffer.from(digits, 'hex'))
  }
  if (!Array.isArray(value)) return undefined
  const items = value.map(item => tableKeyBytes(of, item))
  return items.every(item => item !== undefined) ? Buffer.concat([lengthBytes(items.length), ...items]) : undefined
}

function addressOf (value: unknown): Buffer | undefined {
  const digits = typeof value === 'string' ? readAddress(value) : undefined
  return digits === undefined ? undefined : Buffer.from(digits, 'hex')
}

function isFramework (type: TypeTag, module: string, name: string): boolean {
  return type.kind === 'struct' && BigInt(`0x${type.address}`) === 1n && type.module === module && type.name === name
}
