import { addressBytes } from './address.js'
import { sequenceBytes, textBytes } from './bcs.js'
import { type Primitive, type StructTag, type TypeTag } from './type-tag.js'

// The order in which the language got its types; the gap is the type of functions.
const marks: Readonly<Record<Primitive, number>> = {
  bool: 0, u8: 1, u64: 2, u128: 3, address: 4, signer: 5, u16: 8, u32: 9, u256: 10, i8: 12, i16: 13, i32: 14, i64: 15, i128: 16, i256: 17
}
const vectorMark = 6
const structMark = 7

/** A type in BCS. */
export function typeTagBytes (tag: TypeTag): Buffer {
  switch (tag.kind) {
    case 'primitive': return Buffer.from([marks[tag.name]])
    case 'vector': return Buffer.concat([Buffer.from([vectorMark]), typeTagBytes(tag.of)])
    case 'struct': return Buffer.concat([Buffer.from([structMark]), structTagBytes(tag)])
  }
}

/** The type of a struct in BCS, where no other type can stand. */
export function structTagBytes ({ address, module, name, args }: StructTag): Buffer {
  return Buffer.concat([addressBytes(address), textBytes(module), textBytes(name), sequenceBytes(args.map(typeTagBytes))])
}
