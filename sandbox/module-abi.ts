import { shortAddress } from './address.js'
import { viewsOf } from './framework-views.js'
import { type Module } from './modules.js'
import { oracleAbi, oracleAddress, viewRecord } from './oracle-module.js'
import { type Rendering } from './release.js'
import { type FunctionAbi, type ModuleRecord, type StructAbi } from './schema/module.js'

const abilities: ReadonlyArray<StructAbi['abilities']> = [['key'], ['copy', 'drop', 'store'], ['drop', 'store'], [
  'store',
  'key'
]]
const types = ['address', 'u64', 'bool', 'vector<u8>', '0x1::string::String', '&mut signer', 'u128']

/** The record of a module, as a release renders it: the bytecode is of the chain, the ABI is not. */
export function moduleRecord (module: Module, rendering: Rendering): ModuleRecord {
  const bytecode = `0x${module.bytecode.toString('hex')}`
  return { bytecode, abi: module.address === oracleAddress ? oracleAbi(rendering) : drawnAbi(module, rendering) }
}

function drawnAbi (module: Module, rendering: Rendering): ModuleRecord['abi'] {
  const marks = module.bytecode.subarray(-16)
  const mark = (index: number): number => Number(marks[index])
  const address = shortAddress(module.address)
  return {
    address,
    name: module.name,
    friends: mark(0) % 3 === 0 ? [`${address}::${module.name}_admin`] : [],
    exposed_functions: [
      ...Array.from({ length: 1 + mark(1) % 3 }, (_, index) => functionRecord(index, mark(2 + index))),
      // What can be called is told of, since clients read here what to send.
      ...Object.entries(viewsOf(address, module.name)).map(([name, declared]) => viewRecord(name, declared))
    ],
    structs: Array.from({ length: 1 + mark(6) % 2 }, (_, index) => structRecord(index, mark(7 + index), rendering))
  }
}

function functionRecord (index: number, mark: number): FunctionAbi {
  return {
    name: String(['create', 'change', 'read'][index]),
    visibility: mark % 3 === 0 ? 'public' : mark % 3 === 1 ? 'private' : 'friend',
    is_entry: index < 2 && mark % 2 === 0,
    is_view: index === 2,
    generic_type_params: mark % 4 === 0 ? [{ constraints: [] }] : [],
    params: ['&signer', typeOf(mark)],
    return: index === 2 ? [typeOf(mark + 1)] : []
  }
}

function structRecord (index: number, mark: number, { isEnum, variants }: Rendering): StructAbi {
  const enumerated = mark % 3 === 0
  const fields = [{ name: 'at', type: 'u64' }, { name: 'holds', type: typeOf(mark) }]
  return {
    name: String(['Record', 'Changed'][index]),
    is_native: false,
    is_event: index === 1,
    ...isEnum && { is_enum: enumerated },
    abilities: abilities.slice(mark % abilities.length).slice(0, 1).flat(),
    generic_type_params: [],
    fields: enumerated ? [] : fields,
    ...variants && { variants: enumerated ? [{ name: 'V1', fields }] : [] }
  }
}

function typeOf (mark: number): string {
  return String(types[mark % types.length])
}
