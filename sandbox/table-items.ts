import { type Address } from './address.js'
import { shortLivedTable, itemExistsAt } from './short-lived-state.js'
import { digest, DigestRandom } from './digest.js'
import { generateValue, type EncodedValue } from './generated-value.js'
import { type Ledger } from './ledger.js'
import { printTypeTag, type TypeTag } from './type-tag.js'

/** Identity of a table item. */
export interface TableItemId {
  readonly handle: Address
  readonly keyType: TypeTag
  readonly key: Buffer
}

/** Returns when an item is first written and how many versions pass between writes; undefined if it never exists. */
export function itemLifecycleOf (
  seed: number,
  name: TableItemId
): { born: bigint, period: bigint, hash: Buffer } | undefined {
  const keyType = printTypeTag(name.keyType)
  const hash = digest(seed, 'item', name.handle, keyType, name.key)
  const isPermanent = name.handle === shortLivedTable || isPermanentItem(keyType, name.key)
  if (!isPermanent && hash.readUInt8(0) % 8 === 0) return undefined
  const born = isPermanent || hash.readUInt8(1) % 2 === 0 ? 0 : hash.readUInt16LE(2) % 6000
  const period = (2 + hash.readUInt8(4) % 200) * (hash.readUInt8(5) % 4 === 0 ? 50 : 1)
  return { born: BigInt(born), period: BigInt(period), hash }
}

/** Returns the value of an item at a version: `absent` if it does not exist, `unknown` if its type is unknown. */
export function tableItemAt (
  ledger: Ledger,
  name: TableItemId,
  valueType: TypeTag,
  version: bigint
): EncodedValue | 'absent' | 'unknown' {
  const lifecycle = itemLifecycleOf(ledger.seed, name)
  if (lifecycle === undefined || (name.handle === shortLivedTable && !isBookedItem(ledger, name, version))) {
    return 'absent'
  }
  const age = version - ledger.startVersion - lifecycle.born
  if (age < 0n) return 'absent'
  return generateValue(
    valueType,
    new DigestRandom('value', lifecycle.hash, age / lifecycle.period, printTypeTag(valueType))
  ) ?? 'unknown'
}

function isBookedItem (ledger: Ledger, { keyType, key }: TableItemId, version: bigint): boolean {
  return printTypeTag(keyType) === 'u64' && itemExistsAt(ledger, key.readBigUInt64LE(), version)
}

// Items that exist in every table from the first version on, for examples and tests.
function isPermanentItem (keyType: string, key: Buffer): boolean {
  if (keyType === 'u64') return key.readBigUInt64LE() < 100n
  return keyType === '0x1::string::String' && ['\u0005alice', '\u0003bob'].includes(key.toString('latin1'))
}
