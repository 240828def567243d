import { addressBytes } from './address.js'
import { sequenceBytes, textBytes } from './bcs.js'
import { type BcsReader, Unreadable } from './bcs-reader.js'
import { isIdentifier, type Primitive, primitives, type StructTag, type TypeTag } from './type-tag.js'

// The order in which the language got its types; the gap is the type of functions.
const marks: Readonly<Record<Primitive, number>> = {
  bool: 0,
  u8: 1,
  u64: 2,
  u128: 3,
  address: 4,
  signer: 5,
  u16: 8,
  u32: 9,
  u256: 10,
  i8: 12,
  i16: 13,
  i32: 14,
  i64: 15,
  i128: 16,
  i256: 17
}
const levels = 8
const vectorMark = 6
const structMark = 7

/** A type in BCS. */
export function typeTagBytes (tag: TypeTag): Buffer {
  switch (tag.kind) {
    case 'primitive':
      return Buffer.from([marks[tag.name]])
    case 'vector':
      return Buffer.concat([Buffer.from([vectorMark]), typeTagBytes(tag.of)])
    case 'struct':
      return Buffer.concat([Buffer.from([structMark]), structTagBytes(tag)])
  }
}

/** The type of a struct in BCS, where no other type can stand. */
export function structTagBytes ({ address, module, name, args }: StructTag): Buffer {
  return Buffer.concat([
    addressBytes(address),
    textBytes(module),
    textBytes(name),
    sequenceBytes(args.map(typeTagBytes))
  ])
}

/** Reads a type in BCS. */
export function readTypeTagBytes (reader: BcsReader, level = 1): TypeTag {
  if (level > levels) throw new Unreadable('recursion limit exceeded')
  const mark = reader.byte()
  if (mark === vectorMark) return { kind: 'vector', of: readTypeTagBytes(reader, level + 1) }
  if (mark === structMark) return readStructTagBytes(reader, level)
  const name = primitives.find(primitive => marks[primitive] === mark)
  if (name === undefined) throw new Unreadable(`unknown type ${mark}`)
  return { kind: 'primitive', name }
}

/** Reads the type of a struct in BCS, where no other type can stand. */
export function readStructTagBytes (reader: BcsReader, level = 1): StructTag {
  const address = reader.take(32).toString('hex')
  const [module, name] = [readIdentifierBytes(reader), readIdentifierBytes(reader)]
  return { kind: 'struct', address, module, name, args: reader.items(() => readTypeTagBytes(reader, level + 1)) }
}

/** Reads a name of the language in BCS. */
export function readIdentifierBytes (reader: BcsReader): string {
  const name = reader.sized().toString()
  if (!isIdentifier(name)) throw new Unreadable('invalid identifier')
  return name
}
