import t from 'tap'
import {
  addressDigits,
  digestOfHash,
  wildcardDigest,
  frameworkAddress,
  moduleKey,
  publishedCode,
  resourceKey,
  stateKeyHash,
  structTagOf
} from '../../src/api/state-key.js'
import { readTouchedKeys, type TransactionDigest } from '../../src/follow/transaction-digest.js'
import { type RealChange, realChanges } from '../support/cases.js'

const root = `0x${'ab'.repeat(32)}`
const emptySet = '0xafb6e14fe47d850fd0a7395bcfb997ffacf4715e0f895cc162c218e4a7564bc6'

/** A transaction as nodes print it, with changes of its members; undefined leaves one out. */
function printed (change: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    version: '7',
    state_change_hash: root,
    event_root_hash: root,
    success: true,
    accumulator_root_hash: root,
    changes: [changeOf('0x1::a::B')],
    type: 'user_transaction',
    ...change
  })
}

function changeOf (tag: string, address = '0x42', type = 'write_resource'): Record<string, unknown> {
  const key = resourceKey(addressDigits(address), structTagOf(tag)) ?? Buffer.alloc(0)
  const value = type === 'write_resource' ? { data: { type: tag, data: {} } } : { resource: tag }
  return { address, state_key_hash: `0x${stateKeyHash(key)}`, type, ...value }
}

const read = async (text: string): Promise<TransactionDigest[] | undefined> => await readTouchedKeys(Buffer.from(text))

async function readOne (change: Readonly<Record<string, unknown>>): Promise<TransactionDigest> {
  const [digest] = await read(`[${printed(change)}]`) ?? []
  if (digest === undefined) throw new Error('unreadable')
  return digest
}

t.test('a transaction has its version, its root, its hashes and every key that it lists', async t => {
  t.same(await readOne({ hash: root }), {
    version: 7n,
    root: root.slice(2),
    hashes: [root, root, root].map(hash => hash.slice(2)),
    touched: [
      digestOfHash(String(changeOf('0x1::a::B')['state_key_hash']).slice(2)),
      wildcardDigest('resources', addressDigits('0x42')),
      digestOfHash(root.slice(2))
    ],
    touchesAll: undefined
  })
  t.equal((await readOne({ version: '18446744073709551615' })).version, 2n ** 64n - 1n, 'exact above 2^53')
})

/** Returns a real change as a node prints it in a transaction. */
function printedChange ({ kind: type, hash, address, tag, module, handle, key }: RealChange): Record<string, unknown> {
  const common = { type, state_key_hash: hash, ...address !== undefined && { address } }
  if (handle !== undefined) return { ...common, handle, key, value: '0x00', data: null }
  if (module !== undefined) return { ...common, data: { bytecode: '0x', abi: {} } }
  return type === 'write_resource' ? { ...common, data: { type: tag, data: {} } } : { ...common, resource: tag }
}

t.test('real changes touch their key, and the sets of keys that they belong to', async t => {
  const counts = { own: 0, group: 0, item: 0, module: 0 }
  for (const change of realChanges) {
    const { touched, touchesAll } = await readOne({ changes: [printedChange(change)] })
    const { hash, address = '', handle, module, tag } = change
    t.ok(touchesAll === undefined || address === '0x1')
    const key = digestOfHash(hash.slice(2))
    const at = addressDigits(handle ?? address)
    if (handle !== undefined) {
      counts.item++
      t.same(touched, [key, wildcardDigest('items', at)])
    } else if (module !== undefined) {
      counts.module++
      t.same(touched, [key, publishedCode, wildcardDigest('modules', at)])
    } else {
      const own = resourceKey(at, structTagOf(String(tag))) ?? Buffer.alloc(0)
      const isOwn = `0x${stateKeyHash(own)}` === hash
      counts[isOwn ? 'own' : 'group']++
      t.same(touched, [key, ...isOwn ? [] : [wildcardDigest('groups', at)], wildcardDigest('resources', at)])
    }
  }
  t.ok(Object.values(counts).every(count => count > 40), JSON.stringify(counts))
})

t.test('a deleted module is a change of code, and a resource of unreadable type one of a group', async t => {
  const hash = `0x${stateKeyHash(moduleKey(addressDigits('0x42'), 'm'))}`
  const { touched } = await readOne({
    changes: [{ type: 'delete_module', address: '0x42', state_key_hash: hash, module: 'm' }]
  })
  t.ok(touched.includes(publishedCode))
  const odd = { ...changeOf('0x1::a::B'), data: { type: '0x1::a::B<', data: {} } }
  t.ok((await readOne({ changes: [odd] })).touched.includes(wildcardDigest('groups', addressDigits('0x42'))))
})

t.test('a transaction of unknown kind, of genesis or without its changes touches everything', async t => {
  t.equal((await readOne({ type: 'genesis_transaction' })).touchesAll, 'genesis')
  t.equal((await readOne({ type: 'pending_transaction' })).touchesAll, 'unknown_kind')
  t.equal((await readOne({ type: undefined })).touchesAll, 'unknown_kind')
  t.equal((await readOne({ type: 7 })).touchesAll, 'unknown_kind')
  t.equal((await readOne({ changes: [] })).touchesAll, 'unlisted')
  t.equal((await readOne({ changes: [], state_change_hash: undefined })).touchesAll, 'unlisted')
  t.equal((await readOne({ changes: [], state_change_hash: emptySet })).touchesAll, undefined)
  t.same((await readOne({ changes: [], state_change_hash: emptySet })).touched, [])
})

t.test('a list of changes that cannot be read in full touches everything', async t => {
  const good = changeOf('0x1::a::B')
  const without = (name: string): Record<string, unknown> => ({ ...good, [name]: undefined })
  const unreadable = [
    undefined,
    null,
    {},
    'x',
    [7],
    [good, without('state_key_hash')],
    [without('address'), good],
    [without('data')],
    [{ ...good, data: 7 }],
    [{ ...good, data: { data: {} } }],
    [{ ...good, state_key_hash: String(good['state_key_hash']).toUpperCase() }],
    [{ ...good, state_key_hash: '0x00' }],
    [{ ...good, type: 'delete_resource' }],
    [{ ...good, type: 'write_table_item' }],
    [{ ...good, type: 'write_table_item', handle: 'x' }],
    [{ ...good, address: '0xzz' }],
    [{ ...good, type: 'write_module', address: undefined }]
  ]
  for (const changes of unreadable) {
    t.equal((await readOne({ changes, state_change_hash: emptySet })).touchesAll, 'unreadable', JSON.stringify(changes))
  }
  for (const type of ['write_unknown', undefined, 7]) {
    const { touched, touchesAll } = await readOne({ changes: [{ ...good, type }, good] })
    t.equal(touchesAll, 'unknown_change')
    t.ok(touched.length > 0)
  }
})

t.test('features, the epoch and settings of the chain touch everything, written or deleted', async t => {
  const reasons = [
    ['0x1::features::Features', 'features'],
    ['0x1::reconfiguration::Configuration', 'epoch'],
    ['0x1::version::Version', 'config'],
    ['0x1::gas_schedule::GasScheduleV2', 'config'],
    ['0x1::execution_config::ExecutionConfig', 'config']
  ] as const
  for (const [tag, reason] of reasons) {
    for (const type of ['write_resource', 'delete_resource']) {
      t.equal((await readOne({ changes: [changeOf(tag, '0x1', type), changeOf('0x1::a::B')] })).touchesAll, reason)
    }
    t.equal((await readOne({ changes: [changeOf(tag, '0x2')] })).touchesAll, undefined, 'at another address')
  }
  t.equal(addressDigits('0x1'), frameworkAddress)
})

t.test('a page without certain versions and roots is not read at all', async t => {
  const good = printed()
  const pages = [
    '',
    '{}',
    '[',
    `[${good}`,
    `[${good},]`,
    `[${good},7]`,
    `[${printed({ version: undefined })}]`,
    `[${printed({ version: 7 })}]`,
    `[${printed({ version: '18446744073709551616' })}]`,
    `[${printed({ accumulator_root_hash: undefined })}]`,
    `[${printed({ success: undefined })}]`,
    `[${printed({ accumulator_root_hash: root.toUpperCase() })}]`,
    `[${printed({ accumulator_root_hash: 'x'.repeat(66) })}]`,
    `[${good.replace('"version":"7"', '"version":"7","version":"8"')}]`
  ]
  for (const page of pages) t.equal(await read(page), undefined, page.slice(0, 60))
  t.same(await read('[]'), [])
})

t.test('a transaction without its hashes has none to be found by in BCS', async t => {
  for (const name of ['hash', 'event_root_hash', 'state_change_hash']) {
    t.equal((await readOne({ [name]: undefined })).hashes, undefined, name)
    t.equal((await readOne({ [name]: '0x12' })).hashes, undefined, name)
  }
})
