import { integerBytes } from './bcs.js'
import { type BcsReader, InvalidBcsError } from './bcs-reader.js'
import { fieldsOf, specialFormatOf } from './structs.js'
import { type Primitive, printTypeTag, type StructTag, type TypeTag } from './type-tag.js'
import {
  addressValue,
  boolValue,
  bytesValue,
  structValue,
  textValue,
  vectorValue,
  type EncodedValue
} from './encoded-value.js'

/** Reads a BCS value of a type, with its JSON form. */
export function readValue (type: TypeTag, reader: BcsReader): EncodedValue {
  switch (type.kind) {
    case 'primitive':
      return readPrimitive(type.name, reader)
    case 'vector':
      return isByte(type.of)
        ? bytesValue(reader.readSizedBytes())
        : vectorValue(reader.readItems(() => readValue(type.of, reader)))
    case 'struct':
      return readStruct(type, reader)
  }
}

function readPrimitive (name: Primitive, reader: BcsReader): EncodedValue {
  if (name === 'signer') throw new InvalidBcsError('signer is no type of a value')
  if (name === 'address') return addressValue(reader.readBytes(32).toString('hex'))
  if (name === 'bool') {
    const byte = reader.readByte()
    if (byte > 1) throw new InvalidBcsError('a boolean is 0 or 1')
    return boolValue(byte === 1)
  }
  const bits = Number(name.slice(1))
  const raw = BigInt(`0x${Buffer.from(reader.readBytes(bits / 8)).reverse().toString('hex')}`)
  const value = name.startsWith('i') ? BigInt.asIntN(bits, raw) : raw
  return { json: bits <= 32 ? String(value) : `"${value}"`, bytes: integerBytes(value, bits / 8) }
}

function readStruct (tag: StructTag, reader: BcsReader): EncodedValue {
  const special = specialFormatOf(tag)
  if (special === 'string') return textValue(readText(reader))
  if (special === 'object') return structValue([['inner', addressValue(reader.readBytes(32).toString('hex'))]])
  const fields = fieldsOf(tag)
  if (fields === undefined) throw new InvalidBcsError(`type not found: ${printTypeTag(tag)}`)
  return structValue(fields.map(({ name, type }) => [name, readValue(type, reader)]))
}

function readText (reader: BcsReader): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(reader.readSizedBytes())
  } catch {
    throw new InvalidBcsError('text that is not UTF-8')
  }
}

function isByte (type: TypeTag): boolean {
  return type.kind === 'primitive' && type.name === 'u8'
}
