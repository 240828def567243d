import { type Declared } from './oracle-module.js'

/** The functions of the framework that answer questions, by module and name. */
export const frameworkViews = {
  account: {
    exists_at: { types: 0, params: ['address'], returns: ['bool'] },
    get_sequence_number: { types: 0, params: ['address'], returns: ['u64'] }
  },
  block: { get_current_block_height: { types: 0, params: [], returns: ['u64'] } },
  coin: { balance: { types: 1, params: ['address'], returns: ['u64'] } },
  timestamp: { now_microseconds: { types: 0, params: [], returns: ['u64'] } }
} as const satisfies Readonly<Record<string, Readonly<Record<string, Declared>>>>

/** Those of a module of the framework; none for any other module. */
export function viewsOf (address: string, module: string): Readonly<Record<string, Declared>> {
  return address === '0x1' && Object.hasOwn(frameworkViews, module)
    ? frameworkViews[module as keyof typeof frameworkViews]
    : {}
}
