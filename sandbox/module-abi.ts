import { shortAddress } from './address.js'
import { releases } from './ledger.js'
import { type FunctionAbi, type ModuleRecord, type StructAbi } from './records.js'
import { digestBytes } from './digests.js'
import { type Module } from './write.js'

/** Members of an ABI that a release renders beyond the oldest form. */
export interface Rendering {
  readonly isEnum: boolean
  readonly variants: boolean
}

/** Returns the rendering of a release; an unknown release has a rank derived from its hash. */
export function renderingOf (release: string): Rendering {
  const known = Object.values<string>(releases).indexOf(release)
  const rank = known >= 0 ? known : digestBytes('release', release).readUInt8() % 3
  return { isEnum: rank >= 1, variants: rank >= 2 }
}

/** Declaration of a function; `T0` is its first type parameter. */
export interface FunctionSignature {
  readonly typeParameterCount: number
  readonly params: readonly string[]
  readonly returns: readonly string[]
}

const manyTypes = [
  'u8',
  'u128',
  'bool',
  '0x1::string::String',
  'vector<u8>',
  'vector<u64>',
  '0x1::option::Option<address>'
]

/** View functions that can be called, by full name; those of 0xfeed::oracle read generated state. */
export const viewSignatures: Readonly<Record<string, FunctionSignature>> = {
  '0x1::block::get_current_block_height': { typeParameterCount: 0, params: [], returns: ['u64'] },
  '0x1::coin::balance': { typeParameterCount: 1, params: ['address'], returns: ['u64'] },
  '0x1::timestamp::now_microseconds': { typeParameterCount: 0, params: [], returns: ['u64'] },
  '0xfeed::oracle::height': { typeParameterCount: 0, params: [], returns: ['u64'] },
  '0xfeed::oracle::balance_of': { typeParameterCount: 0, params: ['address'], returns: ['u64'] },
  '0xfeed::oracle::price_of': { typeParameterCount: 1, params: ['u64'], returns: ['u128', 'bool'] },
  '0xfeed::oracle::at_most_a_hundred': { typeParameterCount: 0, params: ['u64'], returns: ['u64'] },
  '0xfeed::oracle::echo': { typeParameterCount: 1, params: ['T0'], returns: ['T0'] },
  '0xfeed::oracle::several': { typeParameterCount: 0, params: manyTypes, returns: manyTypes }
}

const transfer: FunctionSignature = { typeParameterCount: 0, params: ['&signer', 'address', 'u64'], returns: [] }

/** Transfers that take effect, by full name. */
const transferSignatures: Readonly<Record<string, FunctionSignature>> = {
  '0x1::aptos_account::transfer': transfer,
  '0x1::aptos_account::transfer_coins': { ...transfer, typeParameterCount: 1 },
  '0x1::coin::transfer': { ...transfer, typeParameterCount: 1 },
  '0x1::primary_fungible_store::transfer': {
    typeParameterCount: 1,
    params: ['&signer', '0x1::object::Object<T0>', 'address', 'u64'],
    returns: []
  }
}

const abilities: ReadonlyArray<StructAbi['abilities']> = [['key'], ['copy', 'drop', 'store'], ['drop', 'store'], [
  'store',
  'key'
]]
const parameterTypes = ['address', 'u64', 'bool', 'vector<u8>', '0x1::string::String', '&mut signer', 'u128']

/** Builds the JSON form of a module: the bytecode is chain data, the ABI depends on the release. */
export function moduleRecord (module: Module, rendering: Rendering): ModuleRecord {
  const traits = module.bytecode.subarray(-16)
  const traitAt = (index: number): number => Number(traits[index])
  const address = shortAddress(module.address)
  const id = `${address}::${module.name}`
  return {
    bytecode: `0x${module.bytecode.toString('hex')}`,
    abi: {
      address,
      name: module.name,
      friends: traitAt(0) % 3 === 0 ? [`${id}_admin`] : [],
      exposed_functions: [
        ...Array.from({ length: 1 + traitAt(1) % 3 }, (_, index) => functionAbiOf(index, traitAt(2 + index))),
        // Lists what can be called, since clients read the parameters from the ABI.
        ...[viewSignatures, transferSignatures].flatMap(signatures =>
          Object.entries(signatures).filter(([name]) => name.startsWith(`${id}::`)).map(([name, signature]) =>
            declaredFunctionAbiOf(name.slice(id.length + 2), signature, signatures === viewSignatures)
          )
        )
      ],
      structs: Array.from(
        { length: 1 + traitAt(6) % 2 },
        (_, index) => structAbiOf(index, traitAt(7 + index), rendering)
      )
    }
  }
}

function functionAbiOf (index: number, trait: number): FunctionAbi {
  return {
    name: String(['create', 'change', 'read'][index]),
    visibility: trait % 3 === 0 ? 'public' : trait % 3 === 1 ? 'private' : 'friend',
    is_entry: index < 2 && trait % 2 === 0,
    is_view: false,
    generic_type_params: trait % 4 === 0 ? [{ constraints: [] }] : [],
    params: ['&signer', parameterTypeOf(trait)],
    return: index === 2 ? [parameterTypeOf(trait + 1)] : []
  }
}

function declaredFunctionAbiOf (
  name: string,
  { typeParameterCount, params, returns }: FunctionSignature,
  isView: boolean
): FunctionAbi {
  return {
    name,
    visibility: 'public',
    is_entry: !isView,
    is_view: isView,
    generic_type_params: Array.from({ length: typeParameterCount }, () => ({ constraints: [] })),
    params: [...params],
    return: [...returns]
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
