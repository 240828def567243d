import { type ViewSignature } from './view-signature.js'

/** View functions of the framework, by module and name. */
export const frameworkViewSignatures = {
  account: {
    exists_at: { typeParameterCount: 0, params: ['address'], returns: ['bool'] },
    get_sequence_number: { typeParameterCount: 0, params: ['address'], returns: ['u64'] }
  },
  block: { get_current_block_height: { typeParameterCount: 0, params: [], returns: ['u64'] } },
  coin: { balance: { typeParameterCount: 1, params: ['address'], returns: ['u64'] } },
  timestamp: { now_microseconds: { typeParameterCount: 0, params: [], returns: ['u64'] } }
} as const satisfies Readonly<Record<string, Readonly<Record<string, ViewSignature>>>>

/** Returns the view functions of a framework module; empty for any other module. */
export function viewSignaturesOf (address: string, module: string): Readonly<Record<string, ViewSignature>> {
  return address === '0x1' && Object.hasOwn(frameworkViewSignatures, module)
    ? frameworkViewSignatures[module as keyof typeof frameworkViewSignatures]
    : {}
}
