import { type Address } from './address.js'
import { type Ledger } from './ledger.js'
import { nativeCoinType } from './resources.js'
import { digestBytes, DigestRandom } from './digests.js'
import { balanceAt, frameworkResourceAt } from './state.js'
import { printTypeTag, trustedTypeTag, type TypeTag } from './type-tag.js'
import { boolValue, type EncodedValue, u128Value, u64Value } from './values.js'

/** Input of a view function. */
export interface ViewCall {
  readonly ledger: Ledger
  readonly version: bigint
  readonly types: readonly TypeTag[]
  readonly values: readonly EncodedValue[]
}

/** Calls a view function by its full name; a text is the abort message. */
export function runView (path: string, call: ViewCall): EncodedValue[] | string {
  const run = implementations[path]
  return run === undefined ? [...call.values] : run(call)
}

// Any other view function returns its arguments.
const implementations: Readonly<Record<string, (call: ViewCall) => EncodedValue[] | string>> = {
  '0x1::block::get_current_block_height': call => [u64Value(heightOf(call))],
  '0x1::coin::balance': call => [u64Value(balanceOf(call))],
  '0x1::timestamp::now_microseconds': ({ ledger, version }) => {
    const { microseconds } = frameworkResourceAt(ledger, '0x1::timestamp::CurrentTimeMicroseconds', version)
    return [u64Value(BigInt(String(microseconds)))]
  },
  '0xfeed::oracle::height': call => [u64Value(heightOf(call))],
  '0xfeed::oracle::balance_of': call => [u64Value(balanceOf({ ...call, types: [trustedTypeTag(nativeCoinType)] }))],
  '0xfeed::oracle::price_of': priceOf,
  '0xfeed::oracle::at_most_a_hundred': ({ values }) =>
    values.some(({ bytes }) => bytes.readBigUInt64LE() > 100n)
      ? 'Move abort in 0xfeed::oracle: EABOVE_HUNDRED(0x10001): The number is above a hundred.'
      : [...values]
}

/** Returns the gas that a call uses, which depends on the function, its arguments and the epoch. */
export function gasUsedBy (path: string, { ledger, version, values }: ViewCall): bigint {
  const { epoch } = frameworkResourceAt(ledger, '0x1::reconfiguration::Configuration', version)
  const size = values.reduce((sum, { bytes }) => sum + bytes.length, 0)
  return BigInt(2 + digestBytes('gas', path).readUInt8() % 5 + Math.ceil(size / 32)) + BigInt(String(epoch)) % 3n
}

function balanceOf ({ ledger, version, types: [coin], values }: ViewCall): bigint {
  const address: Address = Buffer.concat(values.map(({ bytes }) => bytes)).toString('hex', 0, 32)
  return coin?.kind === 'struct' ? balanceAt(ledger, address, coin, version) : 0n
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
