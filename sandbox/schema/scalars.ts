import { z } from 'zod'

const name = '(?:[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+)'
const short = '0x(?:0|[1-9a-f][0-9a-f]{0,63})'

/** An account address as answers print it. */
export const address = z.string().regex(new RegExp(`^${short}$`)).meta({
  id: 'Address',
  description: 'An account address in its short form: 0x and up to 64 hex digits without leading zeros.',
  examples: ['0x1']
})

/** A hash. */
export const hash = z.string().regex(/^0x[0-9a-f]{64}$/).meta({
  id: 'Hash',
  description: 'Thirty-two bytes as 0x and 64 hex digits.'
})

/** A table's handle in the changes of a transaction: never shortened. */
export const tableHandle = z.string().regex(/^0x[0-9a-f]{64}$/).meta({
  id: 'TableHandle',
  description: 'The handle of a table as 0x and 64 hex digits.'
})

/** Bytes. */
export const hexBytes = z.string().regex(/^0x(?:[0-9a-f]{2})*$/).meta({
  id: 'HexBytes',
  description: 'Bytes as 0x and two hex digits for each; zeros are never trimmed.',
  examples: ['0xcafe']
})

/** A u64, as text for clients whose numbers are shorter. */
export const u64String = z.string().regex(/^(?:0|[1-9][0-9]{0,19})$/).meta({
  id: 'U64',
  description: 'An unsigned 64-bit integer as a decimal string.',
  format: 'uint64',
  examples: ['32425224034']
})

/** A u64 that is printed as a number. */
export const u64Number = z.int().min(0).meta({
  id: 'U64Number',
  description: 'An unsigned 64-bit integer as a number.',
  format: 'uint64'
})

/** A u32. */
export const u32 = z.int().min(0).max(4_294_967_295).meta({
  id: 'U32',
  description: 'An unsigned 32-bit integer.',
  format: 'uint32'
})

/** A u16. */
export const u16 = z.int().min(0).max(65_535).meta({
  id: 'U16',
  description: 'An unsigned 16-bit integer.',
  format: 'uint16'
})

/** A u8. */
export const u8 = z.int().min(0).max(255).meta({ id: 'U8', description: 'An unsigned 8-bit integer.', format: 'uint8' })

/** The name of a module, a function, a struct or a field. */
export const identifier = z.string().regex(new RegExp(`^${name}$`)).meta({
  id: 'Identifier',
  description: 'The name of a module, a function, a struct or a field; upper and lower case differ.'
})

/** A module, by its account and its name. */
export const moduleId = z.string().regex(new RegExp(`^${short}::${name}$`)).meta({
  id: 'ModuleId',
  description: 'A module as {address}::{module name}.',
  examples: ['0x1::coin']
})

/** A function that a transaction can call. */
export const entryFunctionId = z.string().regex(new RegExp(`^${short}::${name}::${name}$`)).meta({
  id: 'EntryFunctionId',
  description: 'A function as {address}::{module name}::{function name}.',
  examples: ['0x1::coin::transfer']
})

/** A struct with its type arguments, in the one spelling that answers print. */
export const structTag = z.string().regex(new RegExp(`^${short}::${name}::${name}(?:<.+>)?$`)).meta({
  id: 'StructTag',
  description: 'A struct as {address}::{module name}::{struct name}, its type arguments joined by a comma and a blank.',
  examples: ['0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>']
})

/** A type of a value. */
export const typeTag = z.string().regex(
  new RegExp(`^(?:bool|[ui](?:8|16|32|64|128|256)|address|signer|vector<.+>|${short}::${name}::${name}(?:<.+>)?)$`)
).meta({
  id: 'TypeTag',
  description: 'A type: a primitive one, a vector, or a struct.',
  examples: ['u64', 'vector<u8>']
})

/** A type of a parameter, which can be a reference, or named by a function of types. */
export const paramType = z.string().regex(/^(?:&|&mut )?[A-Za-z0-9].*$/).meta({
  id: 'ParamType',
  description: 'The type of a parameter, a result or a field: a type tag, a reference to one, or a type parameter.',
  examples: ['&mut signer', 'T0']
})

/** A value of the chain. */
export const moveValue = z.unknown().meta({
  id: 'MoveValue',
  description:
    'A value: numbers of up to 32 bits as numbers, longer ones as strings, vector<u8> as hex, other vectors ' +
    'as arrays, structs as objects by field name.'
})
