import { addressBytes } from './address.js'
import { sequenceBytes, textBytes } from './bcs.js'
import { type BcsReader, InvalidBcsError } from './bcs-reader.js'
import { isIdentifier, type Primitive, primitives, type StructTag, type TypeTag } from './type-tag.js'

// Variants in the order in which Move added its types; variant 11 is the function type.
const variants: Readonly<Record<Primitive, number>> = {
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
const maxDepth = 8
const vectorVariant = 6
const structVariant = 7

/** Encodes a type in BCS. */
export function typeTagBytes (tag: TypeTag): Buffer {
  switch (tag.kind) {
    case 'primitive':
      return Buffer.from([variants[tag.name]])
    case 'vector':
      return Buffer.concat([Buffer.from([vectorVariant]), typeTagBytes(tag.of)])
    case 'struct':
      return Buffer.concat([Buffer.from([structVariant]), structTagBytes(tag)])
  }
}

/** Encodes a struct tag in BCS, without the variant byte of a type. */
export function structTagBytes ({ address, module, name, args }: StructTag): Buffer {
  return Buffer.concat([
    addressBytes(address),
    textBytes(module),
    textBytes(name),
    sequenceBytes(args.map(typeTagBytes))
  ])
}

/** Reads a type in BCS; throws if it is invalid or nested too deeply. */
export function readTypeTagBytes (reader: BcsReader, level = 1): TypeTag {
  if (level > maxDepth) throw new InvalidBcsError('recursion limit exceeded')
  const variant = reader.readByte()
  if (variant === vectorVariant) return { kind: 'vector', of: readTypeTagBytes(reader, level + 1) }
  if (variant === structVariant) return readStructTagBytes(reader, level)
  const name = primitives.find(primitive => variants[primitive] === variant)
  if (name === undefined) throw new InvalidBcsError(`unknown type ${variant}`)
  return { kind: 'primitive', name }
}

/** Reads a struct tag in BCS, without the variant byte of a type. */
export function readStructTagBytes (reader: BcsReader, level = 1): StructTag {
  const address = reader.readBytes(32).toString('hex')
  const [module, name] = [readIdentifierBytes(reader), readIdentifierBytes(reader)]
  return { kind: 'struct', address, module, name, args: reader.readItems(() => readTypeTagBytes(reader, level + 1)) }
}

/** Reads a Move identifier in BCS. */
export function readIdentifierBytes (reader: BcsReader): string {
  const name = reader.readSizedBytes().toString()
  if (!isIdentifier(name)) throw new InvalidBcsError('invalid identifier')
  return name
}
