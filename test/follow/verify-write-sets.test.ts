import { hash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import {
  digestOf,
  wildcardDigest,
  groupKey,
  itemKey,
  moduleKey,
  publishedCode,
  resourceKey,
  structTagOf
} from '../../src/api/state-key.js'
import { readTouchedKeys, type TransactionDigest } from '../../src/follow/transaction-digest.js'
import { verifyWriteSets } from '../../src/follow/verify-write-sets.js'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { type TailFault } from '../../sandbox/transaction-page-fault.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { pageInBcs, pageInJson, versionsFrom } from '../support/tail.js'

const ledger = new Ledger({ ...defaultSettings, blocks: 60, prunedBlocks: 0 })
const versions = versionsFrom(ledger.block(40).firstVersion, 24)
const digestsOf = async (fault?: TailFault): Promise<TransactionDigest[]> =>
  await readTouchedKeys(pageInJson(ledger, versions, fault)) ?? []
const honest = { json: await digestsOf(), bcs: pageInBcs(ledger, versions) }
const changed = versions.filter((_, index) => Number(honest.json[index]?.touched.length) > 1).slice(0, 12)

t.test('an honest page is equal in JSON and in BCS, whatever its kinds of transactions', async t => {
  t.equal(honest.json.length, versions.length)
  t.equal(await verifyWriteSets(honest.json, honest.bcs), 'equal')
  const first = versionsFrom(0n, Number(ledger.head.version) + 1)
  t.equal(
    await verifyWriteSets(await readTouchedKeys(pageInJson(ledger, first)) ?? [], pageInBcs(ledger, first)),
    'equal'
  )
  t.equal(await verifyWriteSets([], pageInBcs(ledger, [])), 'equal')
})

t.test('a change that JSON does not list is a difference', async t => {
  let missed = 0
  for (const version of changed) {
    const json = await digestsOf({ kind: 'tail', lie: 'droppedChange', version })
    // Other members of a group still name its key.
    const isListed = json.every(({ touched }, index) => touched.length === honest.json[index]?.touched.length)
    if (!isListed) missed++
    t.equal(await verifyWriteSets(json, honest.bcs), isListed ? 'equal' : 'different', `${version}`)
  }
  t.ok(missed > 5, `${missed}`)
  t.equal(await verifyWriteSets(await digestsOf({ kind: 'tail', lie: 'noWriteSets' }), honest.bcs), 'different')
})

t.test('a write set without the hash that its transaction commits to is a difference', async t => {
  for (const version of changed) {
    const bcs = pageInBcs(ledger, versions, { kind: 'tail', lie: 'droppedChange', version })
    t.equal(await verifyWriteSets(honest.json, bcs), 'different', `${version}`)
  }
  const none = pageInBcs(ledger, versions, { kind: 'tail', lie: 'noWriteSets' })
  t.equal(await verifyWriteSets(honest.json, none), 'different')
})

t.test('pages of other transactions, or in another order, are not equal', async t => {
  for (const lie of ['skipped', 'repeated', 'reordered', 'shortened', 'otherChain'] as const) {
    t.not(await verifyWriteSets(honest.json, pageInBcs(ledger, versions, { kind: 'tail', lie })), 'equal', lie)
    t.not(await verifyWriteSets(await digestsOf({ kind: 'tail', lie }), honest.bcs), 'equal', lie)
  }
  t.equal(await verifyWriteSets(honest.json, Buffer.concat([honest.bcs, Buffer.from([0])])), 'unavailable')
  t.equal(await verifyWriteSets(honest.json.map(each => ({ ...each, hashes: undefined })), honest.bcs), 'unavailable')
  t.equal(await verifyWriteSets(honest.json.map(each => ({ ...each, root: undefined })), honest.bcs), 'unavailable')
})

t.test(`a page that is cut or changed anywhere never fails, and is equal only if no key differs (${seedTitle})`, async t => {
  const place = fc.nat(honest.bcs.length - 1)
  await checkAsync(
    fc.asyncProperty(place, async at => await verifyWriteSets(honest.json, honest.bcs.subarray(0, at)) !== 'equal'),
    100
  )
  await checkAsync(
    fc.asyncProperty(place, fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const bytes = Buffer.from(honest.bcs)
      bytes[at] = Number(bytes[at]) ^ flip
      // A byte of a payload or an event does not concern the write set.
      return ['equal', 'different', 'unavailable'].includes(await verifyWriteSets(honest.json, bytes))
    }),
    100
  )
  t.pass()
})

const [transactionHash, eventsHash, rootHash] = ['aa', 'bb', 'cc'].map(digits => digits.repeat(32))
const address = '42'.padStart(64, '0')
const u64 = Buffer.alloc(8)

/** A page of one transaction with a write set of these bytes, whose hash is right; `between` separates its hashes. */
function pageOf (
  writes: Buffer,
  touched: readonly bigint[],
  form = 0,
  between = ''
): { json: TransactionDigest[], bcs: Buffer } {
  const writeSet = Buffer.concat([Buffer.from([form]), writes])
  const changes = hash('sha3-256', Buffer.concat([hash('sha3-256', 'APTOS::WriteSet', 'buffer'), writeSet]), 'hex')
  const hashes = [transactionHash ?? '', eventsHash ?? '', changes] as const
  const version = Buffer.alloc(8)
  version.writeBigUInt64LE(9n)
  return {
    json: [{ version: 9n, root: rootHash, hashes, touched, touchesAll: undefined }],
    bcs: Buffer.concat([
      Buffer.from([1]),
      version,
      Buffer.from('payload'),
      Buffer.from(hashes.join(between), 'hex'),
      Buffer.from('events'),
      Buffer.from(String(rootHash), 'hex'),
      writeSet
    ])
  }
}

/** A state key in BCS, which gives the length of an item's key too. */
function keyInBcs (key: Buffer): Buffer {
  return key[0] === 1 ? Buffer.concat([key.subarray(0, 33), Buffer.from([key.length - 33]), key.subarray(33)]) : key
}

const item = itemKey(address, Buffer.from('0702', 'hex'))
const verdict = async (writes: Buffer, touched: readonly bigint[], form?: number): Promise<string> => {
  const { json, bcs } = pageOf(writes, touched, form)
  return await verifyWriteSets(json, bcs)
}

t.test('every kind of write and every form of metadata is read', async t => {
  const value = Buffer.from([2, 1, 2])
  const [short, long] = [Buffer.concat([Buffer.from([0]), u64, u64]), Buffer.concat([Buffer.from([1]), u64, u64, u64])]
  const touched = [digestOf(item), wildcardDigest('items', address)]
  const write = (kind: number, ...parts: Buffer[]): Buffer =>
    Buffer.concat([Buffer.from([1]), keyInBcs(item), Buffer.from([kind]), ...parts])
  for (
    const writes of [
      write(0, value),
      write(1, value),
      write(2),
      write(3, value, short),
      write(3, value, long),
      write(4, value, short),
      write(5, short),
      write(5, long)
    ]
  ) {
    t.equal(await verdict(writes, touched), 'equal')
    t.equal(await verdict(writes, [digestOf(item)]), 'different', 'the table is missing')
    t.equal(await verdict(writes.subarray(0, -1), touched), 'unavailable')
  }
  t.equal(await verdict(write(6), touched), 'unavailable')
  t.equal(await verdict(write(5, Buffer.concat([Buffer.from([2]), u64, u64])), touched), 'unavailable')
  t.equal(await verdict(write(2), touched, 1), 'unavailable', 'an unknown form of the write set')
  t.equal(await verdict(Buffer.from([0]), []), 'equal', 'nothing is written')
})

t.test('a newer form of the info of a transaction is unknown where its hashes are not as before', async t => {
  const hashes = Buffer.from(honest.json[0]?.hashes?.join('') ?? '', 'hex')
  const at = honest.bcs.indexOf(hashes)
  const withHotStateHash = (offset: number): Buffer =>
    Buffer.concat([honest.bcs.subarray(0, at + offset), Buffer.alloc(33, 7), honest.bcs.subarray(at + offset)])
  for (const offset of [32, 64]) t.equal(await verifyWriteSets(honest.json, withHotStateHash(offset)), 'unavailable')
  // Behind the hashes it is passed over: the write set still has the hash that the transaction commits to.
  t.equal(await verifyWriteSets(honest.json, withHotStateHash(96)), 'equal')
})

t.test('raw and unknown state keys, and lengths beyond four groups, are not read', async t => {
  const after = Buffer.from([2, 2])
  t.equal(await verdict(Buffer.concat([Buffer.from([1, 2]), after]), []), 'unavailable')
  t.equal(await verdict(Buffer.concat([Buffer.from([1, 3]), Buffer.alloc(64)]), []), 'unavailable')
  t.equal(await verdict(Buffer.from('ffffffffffff01', 'hex'), []), 'unavailable')
})

t.test('keys of modules, resources and groups touch the sets that JSON names', async t => {
  const tag = structTagOf('0x1::object::ObjectGroup')
  const resources = wildcardDigest('resources', address)
  const cases = [
    [moduleKey(address, 'm'), publishedCode, wildcardDigest('modules', address)],
    [resourceKey(address, tag), resources],
    [groupKey(address, tag), resources, wildcardDigest('groups', address)]
  ] as const
  for (const [key = Buffer.alloc(0), ...sets] of cases) {
    const writes = Buffer.concat([Buffer.from([1]), key, Buffer.from([2])])
    const touched = [digestOf(key), ...sets]
    t.equal(await verdict(writes, touched), 'equal')
    for (const missing of touched) t.equal(await verdict(writes, touched.filter(each => each !== missing)), 'different')
  }
})

t.test('a transaction in a form that puts more between its hashes is unknown, not equal', async t => {
  const { json, bcs } = pageOf(Buffer.from([0]), [], 0, 'dd'.repeat(32))
  t.equal(await verifyWriteSets(json, bcs), 'unavailable')
})
