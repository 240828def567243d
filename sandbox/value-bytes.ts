import { addressBytes, readAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { readInteger } from './integer.js'
import { type Json } from './json-parser.js'
import { invalidInput } from './problem.js'
import { fieldsOf, specialFormatOf } from './structs.js'
import { type Primitive, printTypeTag, type StructTag, type TypeTag } from './type-tag.js'

/** Error for a value that does not match its type. */
export class TypeMismatchError extends Error {}

/** Converts a table key to BCS, so that all JSON forms of a key identify the same item. */
export function keyBytes (type: TypeTag, key: Json): Buffer {
  try {
    return valueBytes(type, key)
  } catch (error) {
    throw invalidInput(`convert table key failed: ${(error as TypeMismatchError).message}`)
  }
}

/** Converts a JSON value to BCS; throws TypeMismatchError if it does not match its type. */
export function valueBytes (type: TypeTag, key: Json): Buffer {
  switch (type.kind) {
    case 'primitive':
      return primitiveBytes(type.name, key)
    case 'vector':
      return vectorBytes(type.of, key)
    case 'struct':
      return structBytes(type, key)
  }
}

function primitiveBytes (name: Primitive, key: Json): Buffer {
  if (name === 'signer') throw typeMismatch('signer is no type of a value')
  if (name === 'address') return requireAddressBytes(key)
  if (name === 'bool') {
    if (key.kind !== 'bool') throw typeMismatch('expected a boolean')
    return Buffer.from([key.value ? 1 : 0])
  }
  const bits = Number(name.slice(1))
  return integerBytes(requireInteger(name.startsWith('i'), bits, key), bits / 8)
}

function requireInteger (signed: boolean, bits: number, key: Json): bigint {
  const power = 2n ** BigInt(signed ? bits - 1 : bits)
  const asNumber = bits <= 32
  if (key.kind !== (asNumber ? 'number' : 'string')) throw typeMismatch(`expected a ${asNumber ? 'number' : 'string'}`)
  const text = key.kind === 'number' ? key.text : key.value
  // The nodes' parser reads `-0` as a floating-point number, like `1.0` and `1e0`.
  if (asNumber && text === '-0') throw typeMismatch('invalid type: floating point')
  const value = readInteger(text, signed ? -power : 0n, power - 1n)
  if (typeof value === 'string') throw typeMismatch(value)
  return value
}

function requireAddressBytes (key: Json): Buffer {
  const address = key.kind === 'string' ? readAddress(key.value) : undefined
  if (address === undefined) throw typeMismatch('invalid account address')
  return addressBytes(address)
}

function vectorBytes (of: TypeTag, key: Json): Buffer {
  if (of.kind === 'primitive' && of.name === 'u8') {
    const digits = key.kind === 'string' ? key.value.replace(/^0x/, '') : undefined
    if (digits === undefined || !/^(?:[0-9a-fA-F]{2})*$/.test(digits)) throw typeMismatch('expected hex bytes')
    return sizedBytes(Buffer.from(digits, 'hex'))
  }
  if (key.kind !== 'array') throw typeMismatch(`expected vector<${printTypeTag(of)}>`)
  return sequenceBytes(key.items.map(item => valueBytes(of, item)))
}

function structBytes (tag: StructTag, key: Json): Buffer {
  const special = specialFormatOf(tag)
  if (special === 'object') return requireAddressBytes(key)
  if (special === 'string') {
    if (key.kind !== 'string') throw typeMismatch('expected a string')
    return textBytes(key.value)
  }
  const fields = fieldsOf(tag)
  if (fields === undefined) throw typeMismatch(`type not found: ${printTypeTag(tag)}`)
  if (key.kind !== 'object') throw typeMismatch('Expecting a JSON Map for struct.')
  return Buffer.concat(fields.map(({ name, type }) => {
    const member = key.members.get(name)
    if (member === undefined) throw typeMismatch(`field ${name} not found.`)
    return valueBytes(type, member)
  }))
}

function typeMismatch (reason: string): TypeMismatchError {
  return new TypeMismatchError(reason)
}
