import { shortAddress } from './address.js'
import { viewSignaturesOf } from './framework-view-signatures.js'
import { oracleAbi, oracleAddress } from './oracle-module.js'
import { makeViewFunctionAbi } from './view-signature.js'
import { type Rendering } from './release.js'
import { type Module } from './write.js'
import { type FunctionAbi, type ModuleRecord, type StructAbi } from './records.js'

const abilities: ReadonlyArray<StructAbi['abilities']> = [['key'], ['copy', 'drop', 'store'], ['drop', 'store'], [
  'store',
  'key'
]]
const parameterTypes = ['address', 'u64', 'bool', 'vector<u8>', '0x1::string::String', '&mut signer', 'u128']

/** Builds the JSON form of a module: the bytecode is chain data, the ABI depends on the release. */
export function moduleRecord (module: Module, rendering: Rendering): ModuleRecord {
  const bytecode = `0x${module.bytecode.toString('hex')}`
  return { bytecode, abi: module.address === oracleAddress ? oracleAbi(rendering) : generateAbi(module, rendering) }
}

function generateAbi (module: Module, rendering: Rendering): ModuleRecord['abi'] {
  const traits = module.bytecode.subarray(-16)
  const traitAt = (index: number): number => Number(traits[index])
  const address = shortAddress(module.address)
  return {
    address,
    name: module.name,
    friends: traitAt(0) % 3 === 0 ? [`${address}::${module.name}_admin`] : [],
    exposed_functions: [
      ...Array.from({ length: 1 + traitAt(1) % 3 }, (_, index) => functionAbiOf(index, traitAt(2 + index))),
      // Lists the view functions that can be called, since clients read their parameters from the ABI.
      ...Object.entries(viewSignaturesOf(address, module.name)).map(([name, declared]) =>
        makeViewFunctionAbi(name, declared)
      )
    ],
    structs: Array.from({ length: 1 + traitAt(6) % 2 }, (_, index) => structAbiOf(index, traitAt(7 + index), rendering))
  }
}

function functionAbiOf (index: number, trait: number): FunctionAbi {
  return {
    name: String(['create', 'change', 'read'][index]),
    visibility: trait % 3 === 0 ? 'public' : trait % 3 === 1 ? 'private' : 'friend',
    is_entry: index < 2 && trait % 2 === 0,
    is_view: index === 2,
    generic_type_params: trait % 4 === 0 ? [{ constraints: [] }] : [],
    params: ['&signer', parameterTypeOf(trait)],
    return: index === 2 ? [parameterTypeOf(trait + 1)] : []
  }
}

function structAbiOf (index: number, trait: number, { isEnum, variants }: Rendering): StructAbi {
  const isEnumStruct = trait % 3 === 0
  const fields = [{ name: 'at', type: 'u64' }, { name: 'holds', type: parameterTypeOf(trait) }]
  return {
    name: String(['Record', 'Changed'][index]),
    is_native: false,
    is_event: index === 1,
    ...isEnum && { is_enum: isEnumStruct },
    abilities: abilities.slice(trait % abilities.length).slice(0, 1).flat(),
    generic_type_params: [],
    fields: isEnumStruct ? [] : fields,
    ...variants && { variants: isEnumStruct ? [{ name: 'V1', fields }] : [] }
  }
}

function parameterTypeOf (trait: number): string {
  return String(parameterTypes[trait % parameterTypes.length])
}
