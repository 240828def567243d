import { type Address } from './address.js'
import { bookingsTable, isBooked } from './bookings.js'
import { digest, DigestRandom } from './digest.js'
import { generateValue, type EncodedValue } from './generated-value.js'
import { type Ledger } from './ledger.js'
import { printTypeTag, type TypeTag } from './type-tag.js'

/** Which item of which table. */
export interface TableItemId {
  readonly handle: Address
  readonly keyType: TypeTag
  readonly key: Buffer
}

/** When an item was first written, and how often it is written again; undefined for one that never is. */
export function itemLifecycleOf (
  seed: number,
  name: TableItemId
): { born: bigint, period: bigint, hash: Buffer } | undefined {
  const keyType = printTypeTag(name.keyType)
  const hash = digest(seed, 'item', name.handle, keyType, name.key)
  const isPermanent = name.handle === bookingsTable || isPermanentItem(keyType, name.key)
  if (!isPermanent && hash.readUInt8(0) % 8 === 0) return undefined
  const born = isPermanent || hash.readUInt8(1) % 2 === 0 ? 0 : hash.readUInt16LE(2) % 6000
  const period = (2 + hash.readUInt8(4) % 200) * (hash.readUInt8(5) % 4 === 0 ? 50 : 1)
  return { born: BigInt(born), period: BigInt(period), hash }
}

/** What an item holds at a version: `absent` when it is not there, `unknown` when its type is not known. */
export function tableItemAt (
  ledger: Ledger,
  name: TableItemId,
  valueType: TypeTag,
  version: bigint
): EncodedValue | 'absent' | 'unknown' {
  const lifecycle = itemLifecycleOf(ledger.seed, name)
  if (lifecycle === undefined || (name.handle === bookingsTable && !isBookedItem(ledger, name, version))) {
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
  return printTypeTag(keyType) === 'u64' && isBooked(ledger, key.readBigUInt64LE(), version)
}

// These exist from the first version on, in every table, for examples and tests.
function isPermanentItem (keyType: string, key: Buffer): boolean {
  if (keyType === 'u64') return key.readBigUInt64LE() < 100n
  return keyType === '0x1::string::String' && ['\u0005alice', '\u0003bob'].includes(key.toString('latin1'))
}
