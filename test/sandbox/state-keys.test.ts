import { readFileSync } from 'node:fs'
import t from 'tap'
import { readAddress } from '../../sandbox/address.js'
import { parseJson } from '../../sandbox/json.js'
import { groupKey, itemKey, moduleKey, readStateKey, resourceKey, stateKeyHash } from '../../sandbox/state-key.js'
import { trustedStructTag, trustedTypeTag } from '../../sandbox/type-tag.js'
import { keyBytes } from '../../sandbox/values.js'

interface Change {
  readonly kind: string
  readonly hash: string
  readonly address?: string
  readonly tag?: string
  readonly module?: string
  readonly handle?: string
  readonly key?: string
  readonly key_type?: string
  readonly json_key?: unknown
}

const changes = readFileSync('test/cases/state-keys.jsonl', 'utf8')
  .trim().split('\n').map(line => JSON.parse(line) as Change)
const addressOf = (text: string | undefined): string => String(readAddress(String(text)))

t.test('table items and modules of public networks have the hashes that the formula gives', async t => {
  let counted = 0
  for (const { hash, address, module, handle, key } of changes) {
    if (module !== undefined) t.equal(stateKeyHash(moduleKey(addressOf(address), nameOf(module))), hash, module)
    else if (handle !== undefined) {
      t.equal(stateKeyHash(itemKey(addressOf(handle), Buffer.from(String(key).slice(2), 'hex'))), hash, handle)
    } else continue
    counted++
  }
  t.ok(counted > 200, `${counted}`)
})

t.test('resources have the hash of their own key, or of their group\'s, which members share', async t => {
  const group = trustedStructTag('0x1::object::ObjectGroup')
  const counts = { own: 0, group: 0, other: 0 }
  const others = new Set<string>()
  for (const { hash, address, tag } of changes) {
    if (tag === undefined) continue
    if (stateKeyHash(resourceKey(addressOf(address), trustedStructTag(tag))) === hash) counts.own++
    else if (stateKeyHash(groupKey(addressOf(address), group)) === hash) counts.group++
    else {
      counts.other++
      others.add(tag)
    }
  }
  t.ok(counts.own > 400 && counts.group > 700, JSON.stringify(counts))
  // Members of a group whose tag no change names.
  t.ok(counts.other <= 16 && [...others].every(tag => tag.startsWith('0x867ed1f6')), [...others].join(' '))
})

t.test('keys written as JSON have the bytes that the chain has', async t => {
  let counted = 0
  for (const { key, key_type: type, json_key: json } of changes) {
    if (type === undefined || json === undefined) continue
    const bytes = knownBytes(type, json)
    if (bytes === undefined) continue
    t.equal(`0x${bytes.toString('hex')}`, key, `${type} ${JSON.stringify(json)}`)
    counted++
  }
  // All keys whose type is no struct of another package: numbers, addresses, byte vectors and texts.
  t.equal(counted, 52)
})

t.test('a state key is read back from its bytes', async t => {
  const [address, tag] = [addressOf('0xcafe'), trustedStructTag('0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>')]
  t.same(readStateKey(moduleKey(address, 'menu')), { kind: 'module', address, name: 'menu' })
  t.same(readStateKey(resourceKey(address, tag)), { kind: 'resource', address, tag })
  t.same(readStateKey(groupKey(address, tag)), { kind: 'group', address, tag })
  t.same(readStateKey(itemKey(address, Buffer.from('0702', 'hex'))), {
    kind: 'item',
    handle: address,
    key: Buffer.from('0702', 'hex')
  })
  t.throws(() => readStateKey(Buffer.concat([Buffer.from([2]), Buffer.alloc(40)])))
})

function nameOf (module: string): string {
  return String(module.split('::').at(-1))
}

// Structs of other packages are unknown to the sandbox.
function knownBytes (type: string, json: unknown): Buffer | undefined {
  try {
    return keyBytes(trustedTypeTag(type), parseJson(Buffer.from(JSON.stringify(json))))
  } catch {
    return undefined
  }
}
