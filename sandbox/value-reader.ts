import { integerBytes } from './bcs.js'
import { type BcsReader, Unreadable } from './bcs-reader.js'
import { type DrawnValue } from './drawn-value.js'
import { fieldsOf, specialOf } from './structs.js'
import { type Primitive, printTypeTag, type StructTag, type TypeTag } from './type-tag.js'
import { addressValue, boolValue, bytesValue, structValue, textValue, vectorValue } from './value.js'

/** Reads a value of a type in BCS, with the form that JSON prints it in. */
export function readValue (type: TypeTag, reader: BcsReader): DrawnValue {
  switch (type.kind) {
    case 'primitive':
      return readPrimitive(type.name, reader)
    case 'vector':
      return isByte(type.of) ? bytesValue(reader.sized()) : vectorValue(reader.items(() => readValue(type.of, reader)))
    case 'struct':
      return readStruct(type, reader)
  }
}

function readPrimitive (name: Primitive, reader: BcsReader): DrawnValue {
  if (name === 'signer') throw new Unreadable('signer is no type of a value')
  if (name === 'address') return addressValue(reader.take(32).toString('hex'))
  if (name === 'bool') {
    const byte = reader.byte()
    if (byte > 1) throw new Unreadable('a boolean is 0 or 1')
    return boolValue(byte === 1)
  }
  const bits = Number(name.slice(1))
  const raw = BigInt(`0x${Buffer.from(reader.take(bits / 8)).reverse().toString('hex')}`)
  const value = name.startsWith('i') ? BigInt.asIntN(bits, raw) : raw
  return { json: bits <= 32 ? String(value) : `"${value}"`, bytes: integerBytes(value, bits / 8) }
}

function readStruct (tag: StructTag, reader: BcsReader): DrawnValue {
  const special = specialOf(tag)
  if (special === 'string') return textValue(readText(reader))
  if (special === 'object') return structValue([['inner', addressValue(reader.take(32).toString('hex'))]])
  const fields = fieldsOf(tag)
  if (fields === undefined) throw new Unreadable(`type not found: ${printTypeTag(tag)}`)
  return structValue(fields.map(({ name, type }) => [name, readValue(type, reader)]))
}

function readText (reader: BcsReader): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(reader.sized())
  } catch {
    throw new Unreadable('text that is not UTF-8')
  }
}

function isByte (type: TypeTag): boolean {
  return type.kind === 'primitive' && type.name === 'u8'
}
