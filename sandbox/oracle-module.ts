import { addressOf } from './address.js'
import { type Rendering } from './release.js'
import { type ModuleRecord } from './records.js'
import { makeViewFunctionAbi, type ViewSignature } from './view-signature.js'

/** Account of the oracle module. */
export const oracleAddress = addressOf('feed')

/** Module whose view functions read generated state. */
export const oracleModuleId = '0xfeed::oracle'

/** View functions of the module; a function without an implementation of its own returns its arguments. */
export const oracleFunctions = {
  height: { typeParameterCount: 0, params: [], returns: ['u64'] },
  balance_of: { typeParameterCount: 0, params: ['address'], returns: ['u64'] },
  price_of: { typeParameterCount: 1, params: ['u64'], returns: ['u128', 'bool'] },
  holds: { typeParameterCount: 1, params: ['address'], returns: ['bool'] },
  at_most_a_hundred: { typeParameterCount: 0, params: ['u64'], returns: ['u64'] },
  echo: { typeParameterCount: 1, params: ['T0'], returns: ['T0'] },
  several: {
    typeParameterCount: 0,
    params: ['u8', 'u128', 'bool', '0x1::string::String', 'vector<u8>', 'vector<u64>', '0x1::option::Option<address>'],
    returns: ['u8', 'u128', 'bool', '0x1::string::String', 'vector<u8>', 'vector<u64>', '0x1::option::Option<address>']
  }
} as const satisfies Readonly<Record<string, ViewSignature>>

/** Builds the ABI of the module as a release renders it. */
export function oracleAbi ({ isEnum, variants }: Rendering): ModuleRecord['abi'] {
  return {
    address: '0xfeed',
    name: 'oracle',
    friends: [],
    exposed_functions: [
      {
        name: 'set_price',
        visibility: 'public',
        is_entry: true,
        is_view: false,
        generic_type_params: [],
        params: ['&signer', 'u64'],
        return: []
      },
      ...Object.entries<ViewSignature>(oracleFunctions).map(([name, declared]) => makeViewFunctionAbi(name, declared))
    ],
    structs: [{
      name: 'Price',
      is_native: false,
      is_event: false,
      ...isEnum && { is_enum: false },
      abilities: ['copy', 'drop', 'store'],
      generic_type_params: [],
      fields: [{ name: 'value', type: 'u128' }, { name: 'rising', type: 'bool' }],
      ...variants && { variants: [] }
    }]
  }
}
