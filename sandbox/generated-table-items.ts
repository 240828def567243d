import { addressOf } from './address.js'
import { textBytes, u64Bytes } from './bcs.js'
import { digestHex, DigestRandom, drawShare } from './digests.js'
import { type EncodedValue, generateValue, keyBytes } from './values.js'
import { parseJson } from './json.js'
import { itemKey, type StateKey } from './state-key.js'
import { printTypeTag, trustedTypeTag, type TypeTag } from './type-tag.js'
import { type TableItemValue, type Write } from './write.js'

/** Handle of the table that most transactions write to. */
export const busyTable = addressOf('5eed')

const u64 = trustedTypeTag('u64')
const shopItem = trustedTypeTag('0x42::shop::Item')
const names = ['alice', 'bob'].map(textBytes)

// Numbers below this are keys of every table from genesis on.
const permanentKeys = 100

// Keys of every type, in the table that changes most.
const keysOfAllTypes: ReadonlyArray<readonly [type: string, key: string]> = [
  ['u64', '"18446744073709551615"'],
  ['u64', '"9007199254740993"'],
  ['u64', '"9007199254740992"'],
  ['u8', '3'],
  ['u8', '7'],
  ['u16', '700'],
  ['u32', '7'],
  ['u32', '70000'],
  ['u128', '"7"'],
  ['u256', '"9"'],
  ['i8', '-7'],
  ['i32', '-70000'],
  ['i64', '"-5"'],
  ['i128', '"0"'],
  ['bool', 'true'],
  ['bool', 'false'],
  ['address', '"0xcafe"'],
  ['address', '"0x1"'],
  ['address', '"0x42"'],
  ['vector<u8>', '"0xab"'],
  ['vector<u64>', '["1","2"]'],
  ['vector<vector<u8>>', '["0x","0x00"]'],
  ['0x1::string::String', '"Alice"'],
  ['0x1::string::String', '"7"'],
  ['0x1::string::String', '"carol"'],
  ['0x42::game::Cell', '{"x":"1","y":"2","owner":"0x1"}'],
  ['0x42::game::Cell', '{"x":"1","y":"2","owner":"0x42"}'],
  [
    '0x42::game::Line<u8>',
    '{"from":{"x":"1","y":"2","owner":"0x42"},"to":{"x":"1","y":"2","owner":"0x42"},"tag":1}'
  ],
  ['0x1::option::Option<u8>', '{"vec":"0x01"}']
]

/** Keys of the items that genesis writes. */
export const genesisItemKeys: readonly StateKey[] = [
  ...keysOfAllTypes.map(([type, key]) =>
    itemKey(busyTable, keyBytes(trustedTypeTag(type), parseJson(Buffer.from(key))))
  ),
  ...[busyTable, ...['42', '1', 'ab', '5'].map(addressOf)].flatMap(handle =>
    [...names, ...Array.from({ length: permanentKeys }, (_, key) => u64Bytes(BigInt(key)))].map(key =>
      itemKey(handle, key)
    )
  )
]

// The hottest first: each is written about twice as often as the one twice as far down.
const itemsByHeat: readonly StateKey[] = [
  itemKey(busyTable, u64Bytes(7n)),
  ...genesisItemKeys.slice(0, 80),
  // These exist from their first write on.
  ...Array.from({ length: 28 }, (_, key) => itemKey(busyTable, u64Bytes(BigInt(permanentKeys + key)))),
  ...genesisItemKeys.slice(80)
]

/** Draws the key of the item that a transaction writes, by Zipf's law. */
export function drawItemKey (seed: number, place: number): StateKey {
  const share = drawShare(seed, place)
  const index = Math.floor((itemsByHeat.length + 1) ** share) - 1
  return itemsByHeat[index] ?? itemKey(busyTable, u64Bytes(7n))
}

/** Writes a table item; each write gives it another value. */
export function itemWrite (seed: number, key: StateKey, version: bigint, decoded?: Write['decoded']): Write {
  return {
    key,
    value: () => ({ kind: 'item', item: makeItem(key, digestHex(seed, 'item', key, version)) }),
    ...decoded && { decoded }
  }
}

/** Returns an item as a value of a type; throws if the type is unknown. */
export function itemValue (seed: string, type: TypeTag): EncodedValue {
  return generateValue(type, new DigestRandom('value', seed, printTypeTag(type)))
}

function makeItem (key: StateKey, seed: string): TableItemValue {
  const type = key.length === 33 + 8 ? u64 : shopItem
  return { type, bytes: itemValue(seed, type).bytes, seed }
}
