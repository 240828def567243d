import { type Address } from './address.js'
import { balanceAt } from './balances.js'
import { digestBytes, DigestRandom } from './seeded-digest.js'
import { frameworkViewSignatures } from './framework-view-signatures.js'
import { type Ledger } from './ledger.js'
import { oracleFunctions, oracleModuleId } from './oracle-module.js'
import { frameworkResourceAt, resourceAt } from './state.js'
import { printTypeTag, trustedStructTag, type TypeTag } from './type-tag.js'
import { boolValue, type EncodedValue, u128Value, u64Value } from './encoded-value.js'

/** Input of a view function. */
export interface ViewCall {
  readonly ledger: Ledger
  readonly version: bigint
  readonly types: readonly TypeTag[]
  readonly values: readonly EncodedValue[]
}

/** View function; `run` returns a text, the abort message, in place of values if it aborts. */
export interface ViewFunction {
  readonly typeParameterCount: number
  /** Types of the parameters; `T0` is the first type parameter. */
  readonly params: readonly string[]
  readonly returns: readonly string[]
  readonly run: (call: ViewCall) => EncodedValue[] | string
}

const accountTag = trustedStructTag('0x1::account::Account')
const aboveHundredAbort = `Move abort in ${oracleModuleId}: EABOVE_HUNDRED(0x10001): The number is above a hundred.`

const { account, block, coin, timestamp } = frameworkViewSignatures

const viewFunctions: ReadonlyMap<string, ViewFunction> = new Map([
  ...Object.entries(oracleFunctions).map(([name, declared]) =>
    [`${oracleModuleId}::${name}`, { ...declared, run: implementationOf(name) }] as const
  ),
  ['0x1::account::exists_at', { ...account.exists_at, run: call => [boolValue(accountOf(call) !== undefined)] }],
  ['0x1::account::get_sequence_number', {
    ...account.get_sequence_number,
    run: call => [u64Value(BigInt(accountOf(call)?.sequence_number ?? 0))]
  }],
  ['0x1::block::get_current_block_height', {
    ...block.get_current_block_height,
    run: call => [u64Value(heightOf(call))]
  }],
  ['0x1::coin::balance', { ...coin.balance, run: call => [u64Value(balanceOf(call))] }],
  ['0x1::timestamp::now_microseconds', {
    ...timestamp.now_microseconds,
    run: ({ ledger, version }) => {
      const { microseconds } = frameworkResourceAt(ledger, '0x1::timestamp::CurrentTimeMicroseconds', version)
      return [u64Value(BigInt(String(microseconds)))]
    }
  }]
] as ReadonlyArray<readonly [string, ViewFunction]>)

/** Returns a view function by its full name; undefined if there is none. */
export function findViewFunction (address: string, module: string, name: string): ViewFunction | undefined {
  return viewFunctions.get(`${address}::${module}::${name}`)
}

/** Returns the gas that a call uses, which depends on the function, its arguments and the epoch. */
export function gasUsedBy (name: string, { ledger, version, values }: ViewCall): bigint {
  const { epoch } = frameworkResourceAt(ledger, '0x1::reconfiguration::Configuration', version)
  const size = values.reduce((sum, { bytes }) => sum + bytes.length, 0)
  return BigInt(2 + digestBytes('gas', name).readUInt8() % 5 + Math.ceil(size / 32)) + BigInt(String(epoch)) % 3n
}

function implementationOf (name: string): ViewFunction['run'] {
  switch (name) {
    case 'height':
      return call => [u64Value(heightOf(call))]
    case 'balance_of':
      return call => [u64Value(balanceOf({ ...call, types: [coinType] }))]
    case 'price_of':
      return call => priceOf(call)
    case 'holds':
      return call => [boolValue(hasResource(call))]
    case 'at_most_a_hundred':
      return ({ values }) =>
        values.some(({ bytes }) => bytes.readBigUInt64LE() > 100n) ? aboveHundredAbort : [...values]
    default:
      return ({ values }) => [...values]
  }
}

const coinType: TypeTag = {
  kind: 'struct',
  address: '1'.padStart(64, '0'),
  module: 'aptos_coin',
  name: 'AptosCoin',
  args: []
}

function balanceOf (call: ViewCall): bigint {
  const [coin] = call.types
  return coin?.kind === 'struct' ? balanceAt(call.ledger, addressArgument(call), coin, call.version) : 0n
}

// A price changes every ten blocks.
function priceOf (call: ViewCall): EncodedValue[] {
  const { ledger, types, values } = call
  const random = new DigestRandom(
    ledger.seed,
    'price',
    heightOf(call) / 10n,
    ...types.map(printTypeTag),
    ...values.map(({ bytes }) => bytes)
  )
  return [u128Value(BigInt(`0x${random.bytes(12).toString('hex')}`)), boolValue(random.below(2) === 1)]
}

function heightOf ({ ledger, version }: ViewCall): bigint {
  return BigInt(String(frameworkResourceAt(ledger, '0x1::block::BlockResource', version).height))
}

function accountOf (call: ViewCall): { sequence_number: string } | undefined {
  const found = resourceAt(call.ledger, addressArgument(call), accountTag, call.version)
  return found && JSON.parse(found.value.json) as { sequence_number: string }
}

function hasResource (call: ViewCall): boolean {
  const [type] = call.types
  return type?.kind === 'struct' && resourceAt(call.ledger, addressArgument(call), type, call.version) !== undefined
}

function addressArgument ({ values }: ViewCall): Address {
  return Buffer.concat(values.map(({ bytes }) => bytes)).toString('hex', 0, 32)
}
