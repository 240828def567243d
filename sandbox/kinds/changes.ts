import { type Address, addressOf, longAddress, shortAddress } from '../address.js'
import { textBytes, u64Bytes } from '../bcs.js'
import { type Booking, bookings } from '../bookings.js'
import { digest, digestHex } from '../digest.js'
import { moduleRecord } from '../module-abi.js'
import { moduleAt } from '../modules.js'
import { renderingOf } from '../release.js'
import { resourceAt } from '../resources.js'
import { type Change } from '../schema/change.js'
import { moduleKey, resourceKey } from '../state-key.js'
import { itemAt } from '../table.js'
import { printTypeTag, type StructTag, type TypeTag } from '../type-tag.js'
import { type Slot } from './slot.js'

const u64: TypeTag = { kind: 'primitive', name: 'u64' }
const text = tagOf('string', 'String')
const ware = tagOf('shop', 'Item', [], '42')

/** The coin store of the chain's own coin. */
export const coinTag = tagOf('coin', 'CoinStore', [tagOf('aptos_coin', 'AptosCoin')])

/** The table that user transactions write to; its keys are u64 numbers below 128, and names. */
export const busyTable = addressOf('5eed')

/** What most transactions leave: an item, where there is one at this version. */
export function busyItem (slot: Slot, keys = 128): Change[] {
  const key = BigInt(digest(slot.ledger.seed, 'written', slot.version).readUInt8() % keys)
  return itemWrite(slot, busyTable, numbered(key), u64, false)
}

/** An item that is told in JSON too. */
export function namedItem (slot: Slot): Change[] {
  return itemWrite(slot, busyTable, { type: text, bytes: textBytes('alice'), json: 'alice' }, ware, true)
}

/** What is left of an item of the table of bookings. */
export function bookingChange (slot: Slot, { key, does, isDecoded }: Booking): Change[] {
  const { bytes, type, json } = numbered(key)
  if (does === 'write') return itemWrite(slot, bookings, numbered(key), u64, isDecoded)
  return [{
    ...itemOf(bookings, bytes),
    data: isDecoded ? { key: json, key_type: printTypeTag(type) } : null,
    type: 'delete_table_item'
  }]
}

/** What is left of a resource: what a read at this version finds. */
export function resourceChange ({ ledger, version }: Slot, address: Address, tag: StructTag): Change {
  const found = resourceAt(ledger, address, tag, version)
  const type = printTypeTag(tag)
  const of = { address: shortAddress(address), state_key_hash: digestHex('state key', resourceKey(address, tag)) }
  if (found === undefined) return { ...of, resource: type, type: 'delete_resource' }
  return {
    ...of,
    data: { type, data: JSON.parse(found.value.json) as Record<string, unknown> },
    type: 'write_resource'
  }
}

/** What is left of a module: what the listing at this version has. */
export function moduleChange ({ ledger, version }: Slot, address: Address, name: string): Change {
  const found = moduleAt(ledger, address, name, version)
  const of = { address: shortAddress(address), state_key_hash: digestHex('state key', moduleKey(address, name)) }
  if (found === undefined) return { ...of, module: `${of.address}::${name}`, type: 'delete_module' }
  return { ...of, data: moduleRecord(found, renderingOf(ledger.release)), type: 'write_module' }
}

/** The tag of a struct of an account, which is the framework's where none is told. */
export function tagOf (module: string, name: string, args: readonly TypeTag[] = [], digits = '1'): StructTag {
  return { kind: 'struct', address: addressOf(digits), module, name, args }
}

interface Key {
  readonly type: TypeTag
  readonly bytes: Buffer
  readonly json: unknown
}

function numbered (key: bigint): Key {
  return { type: u64, bytes: u64Bytes(key), json: String(key) }
}

function itemWrite (
  { ledger, version }: Slot,
  handle: Address,
  key: Key,
  valueType: TypeTag,
  isDecoded: boolean
): Change[] {
  const value = itemAt(ledger, { handle, keyType: key.type, key: key.bytes }, valueType, version)
  // What is not there was not written.
  if (typeof value === 'string') return []
  return [{
    ...itemOf(handle, key.bytes),
    value: `0x${value.bytes.toString('hex')}`,
    data: isDecoded
      ? {
        key: key.json,
        key_type: printTypeTag(key.type),
        value: JSON.parse(value.json),
        value_type: printTypeTag(valueType)
      }
      : null,
    type: 'write_table_item'
  }]
}

function itemOf (handle: Address, key: Buffer) {
  return {
    state_key_hash: digestHex('state key', handle, key),
    handle: longAddress(handle),
    key: `0x${key.toString('hex')}`
  }
}
