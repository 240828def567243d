import { type Address } from './address.js'
import { bookings, isBooked } from './bookings.js'
import { digest, Draws } from './digest.js'
import { drawValue, type DrawnValue } from './drawn-value.js'
import { type Ledger } from './ledger.js'
import { printTypeTag, type TypeTag } from './type-tag.js'

/** Which item of which table. */
export interface ItemName {
  readonly handle: Address
  readonly keyType: TypeTag
  readonly key: Buffer
}

/** When an item was first written, and how often it is written again; undefined for one that never is. */
export function lifeOf (seed: number, name: ItemName): { born: bigint, period: bigint, mark: Buffer } | undefined {
  const keyType = printTypeTag(name.keyType)
  const mark = digest(seed, 'item', name.handle, keyType, name.key)
  const sure = name.handle === bookings || isSure(keyType, name.key)
  if (!sure && mark.readUInt8(0) % 8 === 0) return undefined
  const born = sure || mark.readUInt8(1) % 2 === 0 ? 0 : mark.readUInt16LE(2) % 6000
  const period = (2 + mark.readUInt8(4) % 200) * (mark.readUInt8(5) % 4 === 0 ? 50 : 1)
  return { born: BigInt(born), period: BigInt(period), mark }
}

/** What an item holds at a version: `absent` when it is not there, `unknown` when its type is not known. */
export function itemAt (
  ledger: Ledger,
  name: ItemName,
  valueType: TypeTag,
  version: bigint
): DrawnValue | 'absent' | 'unknown' {
  const life = lifeOf(ledger.seed, name)
  if (life === undefined || (name.handle === bookings && !isThereNow(ledger, name, version))) return 'absent'
  const age = version - ledger.startVersion - life.born
  if (age < 0n) return 'absent'
  return drawValue(valueType, new Draws('value', life.mark, age / life.period, printTypeTag(valueType))) ?? 'unknown'
}

function isThereNow (ledger: Ledger, { keyType, key }: ItemName, version: bigint): boolean {
  return printTypeTag(keyType) === 'u64' && isBooked(ledger, key.readBigUInt64LE(), version)
}

// These exist from the first version on, in every table, for examples and tests.
function isSure (keyType: string, key: Buffer): boolean {
  if (keyType === 'u64') return key.readBigUInt64LE() < 100n
  return keyType === '0x1::string::String' && ['\u0005alice', '\u0003bob'].includes(key.toString('latin1'))
}
