import t from 'tap'
import {
  addressDigits,
  digestOf,
  digestOfHash,
  wildcardDigest,
  groupKey,
  itemKey,
  moduleKey,
  objectGroup,
  pairedAssetOf,
  primaryStoreOf,
  publishedCode,
  resourceKey,
  stateKeyHash,
  structTagBytes,
  structTagOf
} from '../../src/api/state-key.js'
import { chainAsset, primaryStore } from '../../sandbox/resources.js'
import { resourceKey as sandboxResourceKey } from '../../sandbox/state-key.js'
import { trustedStructTag } from '../../sandbox/type-tag.js'
import { type RealChange, realChanges } from '../support/cases.js'

/** Returns the keys that a change can be of: its own, and for a resource the key of the object's group. */
function keysOf ({ address = '', tag, module, handle, key = '' }: RealChange): Buffer[] {
  if (handle !== undefined) return [itemKey(addressDigits(handle), Buffer.from(key.slice(2), 'hex'))]
  const digits = addressDigits(address)
  if (module !== undefined) return [moduleKey(digits, String(module.split('::').at(-1)))]
  return [resourceKey(digits, structTagOf(String(tag))), groupKey(digits, objectGroup)]
    .map(key => key ?? Buffer.alloc(0))
}

t.test('a table item and a module have one key; a resource has its own key or a group\'s', async t => {
  const matched = new Map<string, number>()
  for (const change of realChanges) {
    const at = keysOf(change).findIndex(key => `0x${stateKeyHash(key)}` === change.hash)
    const kind = `${change.kind.replace(/^(?:write|delete)_/, '')} ${at}`
    if (at >= 0) t.equal(digestOf(keysOf(change)[at] ?? Buffer.alloc(0)), digestOfHash(change.hash.slice(2)), kind)
    // Members of another group than an object's, whose tag no change names.
    else t.match(change.tag, /^0x867ed1f6/)
    matched.set(kind, (matched.get(kind) ?? 0) + 1)
  }
  t.same([...matched.keys()].sort(), ['module 0', 'resource -1', 'resource 0', 'resource 1', 'table_item 0'])
  t.ok(Number(matched.get('table_item 0')) > 150 && Number(matched.get('module 0')) > 40)
  t.ok(Number(matched.get('resource 0')) > 400 && Number(matched.get('resource 1')) > 700)
})

t.test('the published examples have their hashes', async t => {
  const [two, table] = [addressDigits('0x2'), addressDigits('0x1002')]
  const hashOf = (key: Buffer | undefined): string => stateKeyHash(key ?? Buffer.alloc(0)).slice(0, 16)
  t.equal(hashOf(resourceKey(two, structTagOf('0x1::account::Account'))), '8f9ab5d5e3c9f5b8')
  t.equal(hashOf(groupKey(two, objectGroup)), '87973d52189ac6a2')
  t.equal(hashOf(moduleKey(two, 'mymodule')), '83d33b345c5e4b25')
  t.equal(hashOf(itemKey(table, Buffer.from('070203', 'hex'))), '6f5550015f7a6036')
})

t.test('type arguments of every kind have the bytes that nodes give them', async t => {
  const owner = addressDigits('0x2')
  const names = 'bool u8 u16 u32 u64 u128 u256 i8 i16 i32 i64 i128 i256 address signer'.split(' ')
  for (const type of [...names, 'vector<vector<u8>>', '0x1::coin::Coin<0x1::a::B<u8,vector<address>>>']) {
    const tag = `0x42::game::Line<${type}>`
    t.same(resourceKey(owner, structTagOf(tag)), sandboxResourceKey(owner, trustedStructTag(tag)), type)
  }
})

t.test('a type without a form in BCS has no key', async t => {
  const owner = addressDigits('0x2')
  for (const tag of ['u8', 'vector<u8>', '0x1::a::B<T0>', '0x1::a::B<vector<T0>>', '0x1::a::B<0x1::c::D<T0>>']) {
    t.equal(structTagBytes(structTagOf(tag)), undefined, tag)
    t.equal(resourceKey(owner, structTagOf(tag)), undefined)
    t.equal(groupKey(owner, structTagOf(tag)), undefined)
  }
  t.throws(() => structTagOf('0x1::'), /not a type tag: 0x1::/)
})

t.test('every set of keys has a digest of its own', async t => {
  const digests = (['groups', 'modules', 'resources', 'items'] as const).flatMap(set =>
    ['0x1', '0x2', `0x${'f'.repeat(64)}`].map(address => wildcardDigest(set, addressDigits(address)))
  )
  t.equal(new Set([...digests, publishedCode]).size, 13)
  t.equal(
    wildcardDigest('items', addressDigits('0xAB')),
    wildcardDigest('items', addressDigits(`0x${'00ab'.padStart(64, '0')}`))
  )
})

t.test('the store of an asset and the asset of a coin have the addresses that nodes compute', async t => {
  const [owner, native] = [addressDigits('0xcafe'), 'a'.padStart(64, '0')]
  t.equal(pairedAssetOf(structTagOf('0x1::aptos_coin::AptosCoin')), native)
  t.equal(primaryStoreOf(owner, native), primaryStore(owner, chainAsset))
  // Seeds are the texts that nodes print, with a blank behind each comma.
  const pairs = ['0x1::a::B<u8,u64>', '0x1::a::B<u8, u64>', '0x01::a::B<u8,u64>'].map(text =>
    pairedAssetOf(structTagOf(text))
  )
  t.equal(new Set(pairs).size, 1)
  t.match(pairs[0], /^[0-9a-f]{64}$/)
  t.not(pairedAssetOf(structTagOf('0x1::a::C')), pairs[0])
})
