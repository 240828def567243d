import { type Address } from './address.js'
import { chainAsset, nativeCoinType, primaryStore } from './native-coin-resources.js'
import { type Ledger } from './ledger.js'
import { resourceAt } from './state.js'
import { printTypeTag, readStructTag, type StructTag } from './type-tag.js'

/** Returns an account's balance of an asset: the sum of its coin store and its primary store, 0 if it has neither. */
export function balanceAt (ledger: Ledger, address: Address, asset: StructTag | Address, version: bigint): bigint {
  const coins = typeof asset === 'string'
    ? 0n
    : storedAmount(ledger, address, `0x1::coin::CoinStore<${printTypeTag(asset)}>`, version)
  const metadata = typeof asset === 'string' ? asset : printTypeTag(asset) === nativeCoinType ? chainAsset : undefined
  return coins +
    (metadata === undefined
      ? 0n
      : storedAmount(ledger, primaryStore(address, metadata), '0x1::fungible_asset::FungibleStore', version))
}

function storedAmount (ledger: Ledger, address: Address, type: string, version: bigint): bigint {
  const tag = readStructTag(type)
  const resource = tag && resourceAt(ledger, address, tag, version)
  // Both resources contain the amount as a u64: first in a coin store, after the 32-byte metadata in a fungible store.
  return resource === undefined ? 0n : resource.value.bytes.readBigUInt64LE(type.includes('FungibleStore') ? 32 : 0)
}
