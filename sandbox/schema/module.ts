import { z } from 'zod'
import { address, hexBytes, identifier, moduleId, paramType } from './scalars.js'

const ability = z.enum(['copy', 'drop', 'store', 'key']).meta({
  id: 'Ability',
  description: 'An operation that a type allows on its values.'
})

const typeParam = z.strictObject({ constraints: z.array(ability) }).meta({
  id: 'TypeParam',
  description: 'A type parameter, with the abilities that its type argument must have.'
})

/** Schema of a function in an ABI; scripts have a single one. */
export const functionAbi = z.strictObject({
  name: identifier,
  visibility: z.enum(['private', 'public', 'friend']),
  is_entry: z.boolean(),
  is_view: z.boolean(),
  generic_type_params: z.array(typeParam),
  params: z.array(paramType),
  return: z.array(paramType)
}).meta({
  id: 'Function',
  description: 'A function with its parameters and results; a transaction can call it directly if `is_entry` ' +
    'is true.'
})

const field = z.strictObject({ name: identifier, type: paramType }).meta({
  id: 'Field',
  description: 'A field of a struct.'
})

const variant = z.strictObject({ name: identifier, fields: z.array(field) }).meta({
  id: 'Variant',
  description: 'A variant of an enum.'
})

/** Schema of a struct in an ABI; releases differ in the members they print. */
export const structAbi = z.strictObject({
  name: identifier,
  is_native: z.boolean(),
  is_event: z.boolean(),
  is_enum: z.boolean().exactOptional(),
  abilities: z.array(ability),
  generic_type_params: z.array(typeParam),
  fields: z.array(field),
  variants: z.array(variant).exactOptional()
}).meta({ id: 'Struct', description: 'A struct; only newer releases print `is_enum` and `variants`.' })

/** Schema of the ABI of a module; its JSON depends on the node's release. */
export const moduleAbi = z.strictObject({
  address,
  name: identifier,
  friends: z.array(moduleId),
  exposed_functions: z.array(functionAbi),
  structs: z.array(structAbi)
}).meta({ id: 'ModuleAbi', description: 'The interface of a module, as the release of the node renders it.' })

/** Schema of a module; `abi` is null where the bytecode cannot be parsed. */
export const module = z.strictObject({ bytecode: hexBytes, abi: moduleAbi.nullable() }).meta({
  id: 'Module',
  description: 'A module; `abi` is null if the node cannot parse the bytecode.'
})

/** Function ABI as JSON prints it. */
export type FunctionAbi = z.infer<typeof functionAbi>

/** Struct ABI as JSON prints it. */
export type StructAbi = z.infer<typeof structAbi>

/** Module as listings and changes print it. */
export type ModuleRecord = z.infer<typeof module>
