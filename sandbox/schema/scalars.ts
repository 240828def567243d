import { z } from 'zod'

const name = '(?:[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+)'
const short = '0x(?:0|[1-9a-f][0-9a-f]{0,63})'

/** Schema of an address as responses print it; requests may use other forms. */
export const address = z.string().regex(new RegExp(`^${short}$`)).meta({
  id: 'Address',
  description: 'An account address in its short form: 0x and up to 64 hex digits without leading zeros.',
  examples: ['0x1']
})

/** Schema of a 32-byte hash. */
export const hash = z.string().regex(/^0x[0-9a-f]{64}$/).meta({
  id: 'Hash',
  description: 'Thirty-two bytes as 0x and 64 hex digits.'
})

/** Schema of a table handle in write set changes, where nodes print all 64 digits. */
export const tableHandle = z.string().regex(/^0x[0-9a-f]{64}$/).meta({
  id: 'TableHandle',
  description: 'The handle of a table as 0x and 64 hex digits.'
})

/** Schema of bytes in hex. */
export const hexBytes = z.string().regex(/^0x(?:[0-9a-f]{2})*$/).meta({
  id: 'HexBytes',
  description: 'Bytes as 0x and two hex digits for each; zeros are never trimmed.',
  examples: ['0xcafe']
})

/** Schema of a u64 printed as a string, since a double loses digits above 2^53. */
export const u64String = z.string().regex(/^(?:0|[1-9][0-9]{0,19})$/).meta({
  id: 'U64',
  description: 'An unsigned 64-bit integer as a decimal string.',
  format: 'uint64',
  examples: ['32425224034']
})

/** Schema of a u64 that nodes print as a number. */
export const u64Number = z.int().min(0).meta({
  id: 'U64Number',
  description: 'An unsigned 64-bit integer as a number.',
  format: 'uint64'
})

/** Schema of a u32. */
export const u32 = z.int().min(0).max(4_294_967_295).meta({
  id: 'U32',
  description: 'An unsigned 32-bit integer.',
  format: 'uint32'
})

/** Schema of a u16. */
export const u16 = z.int().min(0).max(65_535).meta({
  id: 'U16',
  description: 'An unsigned 16-bit integer.',
  format: 'uint16'
})

/** Schema of a u8. */
export const u8 = z.int().min(0).max(255).meta({ id: 'U8', description: 'An unsigned 8-bit integer.', format: 'uint8' })

/** Schema of the name of a module, function, struct or field. */
export const identifier = z.string().regex(new RegExp(`^${name}$`)).meta({
  id: 'Identifier',
  description: 'The case-sensitive name of a module, a function, a struct or a field.'
})

/** Schema of a module id: address and name. */
export const moduleId = z.string().regex(new RegExp(`^${short}::${name}$`)).meta({
  id: 'ModuleId',
  description: 'A module as {address}::{module name}.',
  examples: ['0x1::coin']
})

/** Schema of an entry function id: address, module and name. */
export const entryFunctionId = z.string().regex(new RegExp(`^${short}::${name}::${name}$`)).meta({
  id: 'EntryFunctionId',
  description: 'A function as {address}::{module name}::{function name}.',
  examples: ['0x1::coin::transfer']
})

/** Schema of a struct tag in the canonical form that responses print. */
export const structTag = z.string().regex(new RegExp(`^${short}::${name}::${name}(?:<.+>)?$`)).meta({
  id: 'StructTag',
  description: 'A struct as {address}::{module name}::{struct name}, with type arguments separated by a comma ' +
    'and a space.',
  examples: ['0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>']
})

/** Schema of a Move type. */
export const typeTag = z.string().regex(
  new RegExp(`^(?:bool|[ui](?:8|16|32|64|128|256)|address|signer|vector<.+>|${short}::${name}::${name}(?:<.+>)?)$`)
).meta({
  id: 'TypeTag',
  description: 'A type: a primitive one, a vector, or a struct.',
  examples: ['u64', 'vector<u8>']
})

/** Schema of a parameter type, which may also be a reference or a type parameter. */
export const paramType = z.string().regex(/^(?:&|&mut )?[A-Za-z0-9].*$/).meta({
  id: 'ParamType',
  description: 'The type of a parameter, a result or a field: a type tag, a reference to one, or a type parameter.',
  examples: ['&mut signer', 'T0']
})

/** Schema of any Move value, whose JSON form depends on its type. */
export const moveValue = z.unknown().meta({
  id: 'MoveValue',
  description: 'A Move value: integers of up to 32 bits as numbers, larger ones as strings, vector<u8> as ' +
    'hex, other vectors as arrays, structs as objects by field name.'
})
