import { type Address, addressOf, longAddress, shortAddress } from '../address.js'
import { textBytes, u64Bytes } from '../bcs.js'
import { type TableChange, shortLivedTable } from '../short-lived-state.js'
import { digest, digestHex } from '../digest.js'
import { moduleRecord } from '../module-abi.js'
import { moduleAt } from '../modules.js'
import { renderingOf } from '../release.js'
import { resourceAt } from '../resources.js'
import { type WriteSetChange } from '../schema/change.js'
import { moduleKey, resourceKey } from '../state-key.js'
import { tableItemAt } from '../table-items.js'
import { printTypeTag, type StructTag, type TypeTag } from '../type-tag.js'
import { type TransactionLocation } from './transaction-location.js'

const u64: TypeTag = { kind: 'primitive', name: 'u64' }
const stringTag = tagOf('string', 'String')
const shopItemTag = tagOf('shop', 'Item', [], '42')

/** Type of the store of the chain's native coin. */
export const coinTag = tagOf('coin', 'CoinStore', [tagOf('aptos_coin', 'AptosCoin')])

/** Handle of the table that user transactions write to; its keys are u64 numbers below 128 and names. */
export const busyTable = addressOf('5eed')

/** Writes one table item, chosen by digest; empty if the item does not exist at this version. */
export function busyItemChange (location: TransactionLocation, keys = 128): WriteSetChange[] {
  const key = BigInt(digest(location.ledger.seed, 'written', location.version).readUInt8() % keys)
  return itemChange(location, busyTable, u64KeyOf(key), u64, false)
}

/** Writes an item with `data`, as nodes that know the table's types print it. */
export function namedItemChange (location: TransactionLocation): WriteSetChange[] {
  return itemChange(
    location,
    busyTable,
    { type: stringTag, bytes: textBytes('alice'), json: 'alice' },
    shopItemTag,
    true
  )
}

/** Writes or deletes an item of the bookings table. */
export function bookingChange (
  location: TransactionLocation,
  { key, action, isDecoded }: TableChange
): WriteSetChange[] {
  const { bytes, type, json } = u64KeyOf(key)
  if (action === 'write') return itemChange(location, shortLivedTable, u64KeyOf(key), u64, isDecoded)
  return [{
    ...itemOf(shortLivedTable, bytes),
    data: isDecoded ? { key: json, key_type: printTypeTag(type) } : null,
    type: 'delete_table_item'
  }]
}

/** Prints the resource that a read at this version finds, or its deletion. */
export function resourceChange (
  { ledger, version }: TransactionLocation,
  address: Address,
  tag: StructTag
): WriteSetChange {
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

/** Prints the module that a listing at this version contains, or its deletion. */
export function moduleChange (
  { ledger, version }: TransactionLocation,
  address: Address,
  name: string
): WriteSetChange {
  const found = moduleAt(ledger, address, name, version)
  const of = { address: shortAddress(address), state_key_hash: digestHex('state key', moduleKey(address, name)) }
  if (found === undefined) return { ...of, module: `${of.address}::${name}`, type: 'delete_module' }
  return { ...of, data: moduleRecord(found, renderingOf(ledger.release)), type: 'write_module' }
}

/** Builds a struct tag; the framework's address is the default. */
export function tagOf (module: string, name: string, args: readonly TypeTag[] = [], digits = '1'): StructTag {
  return { kind: 'struct', address: addressOf(digits), module, name, args }
}

interface TableKey {
  readonly type: TypeTag
  readonly bytes: Buffer
  readonly json: unknown
}

function u64KeyOf (key: bigint): TableKey {
  return { type: u64, bytes: u64Bytes(key), json: String(key) }
}

function itemChange (
  { ledger, version }: TransactionLocation,
  handle: Address,
  key: TableKey,
  valueType: TypeTag,
  isDecoded: boolean
): WriteSetChange[] {
  const value = tableItemAt(ledger, { handle, keyType: key.type, key: key.bytes }, valueType, version)
  // An item that does not exist at this version has no write.
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
