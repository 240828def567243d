import t from 'tap'
import { isExplained } from '../../src/reads/explained.js'
import { modulesInBcs } from '../../src/reads/modules-bcs.js'
import { type Read } from '../../src/reads/read.js'
import { readOf } from '../support/parts.js'

const modules = readOf('/v1/accounts/0x1/modules?ledger_version=5')
const block = readOf('/v1/blocks/by_version/5?with_transactions=true')
const page = readOf(`/v1/accounts/0x1/events/${encodeURIComponent('0x1::a::B')}/c?start=5&limit=2`)
const bcs = (read: Read): Read => ({ ...read, accept: 'bcs' })

function may (read: Read, one: string | Buffer, other: string | Buffer, releases: [string | undefined, string | undefined] = ['a', 'a']): boolean {
  const both = [one, other].map((body, at) => ({ body: Buffer.from(body as string), release: releases[at] }))
  const [a, b] = both as [typeof both[0] & object, typeof both[0] & object]
  t.equal(isExplained(read, b, a), isExplained(read, a, b), 'whichever was kept')
  return isExplained(read, a, b)
}

t.test('what one release has rendered another may render otherwise, and only in JSON', async t => {
  t.ok(may(modules, '[{"a":1}]', '[{"a":1,"b":2}]', ['a', 'b']))
  t.ok(may(modules, '[{"a":1}]', '[{"a":1,"b":2}]', ['a', undefined]))
  t.ok(may(modules, '[{"a":1}]', '[{"a":1,"b":2}]', [undefined, undefined]), 'what is not known may be anything')
  t.notOk(may(modules, '[{"a":1}]', '[{"a":1,"b":2}]'))
  t.notOk(may(bcs(modules), 'one', 'two', ['a', 'b']))
})

t.test('a listing may be longer where another ends, and never empty', async t => {
  t.ok(may(modules, '[1, 2]', '[1,2,3]'))
  t.notOk(may(modules, '[1,3]', '[1,2,3]'))
  t.notOk(may(modules, '[1,2,4]', '[1,2,3]'))
  t.notOk(may(modules, '[]', '[1]'))
  t.notOk(may(modules, '[1', '[1,2]'))
  const module = (name: string, code: string): Buffer => Buffer.concat([Buffer.alloc(32, 1), Buffer.from([name.length]), Buffer.from(name), Buffer.from([code.length]), Buffer.from(code)])
  const list = (...items: Buffer[]): Buffer => Buffer.concat([Buffer.from([items.length]), ...items])
  const [a, b, c] = [module('a', 'x'), module('b', 'yy'), module('c', '')]
  t.ok(may(bcs(modules), list(a, c), list(a, b, c)))
  t.notOk(may(bcs(modules), list(a, module('c', 'z')), list(a, b, c)))
  t.notOk(may(bcs(modules), list(a, c).subarray(0, -1), list(a, b, c)))
  t.same(modulesInBcs(list(a, b))?.length, 2)
  t.equal(modulesInBcs(Buffer.concat([list(a), b])), undefined, 'more than it says')
  t.equal(modulesInBcs(Buffer.from([])), undefined)
  t.equal(modulesInBcs(Buffer.from([255, 255, 255, 255, 255, 255])), undefined, 'no length is that long')
  t.equal(modulesInBcs(Buffer.concat([Buffer.from([0x81, 0x00]), a]))?.length, 1)
  const long = Buffer.concat([Buffer.alloc(32), Buffer.from([1, 97, 0xac, 0x02]), Buffer.alloc(300)])
  t.equal(modulesInBcs(list(long))?.length, 1)
})

t.test('transactions may be decoded otherwise, but not what they commit to, nor the block', async t => {
  const transaction = (change: object = {}): object => ({ version: '5', hash: '0xa', gas_used: '1', changes: [{ data: null }], ...change })
  const made = (transactions: unknown, change: object = {}): string => JSON.stringify({ block_height: '1', first_version: '5', last_version: '6', transactions, ...change })
  t.ok(may(block, made([transaction()]), made([transaction({ changes: [{ data: { key: '1' } }] })])), 'a node with an index of tables')
  t.ok(may(block, made([transaction()]), made([transaction({ added: 1 })])))
  t.notOk(may(block, made([transaction()]), made([transaction({ gas_used: '2' })])))
  t.notOk(may(block, made([transaction()]), made([transaction(), transaction()])))
  t.notOk(may(block, made([transaction()]), made([transaction({ added: 1 })], { block_height: '2' })))
  t.notOk(may(block, made([1]), made([2])))
  t.notOk(may(block, made(null), made([])))
  t.notOk(may(block, made([]), '{}'))
  t.notOk(may(block, 'no block', made([])))
  t.notOk(may(readOf('/v1/blocks/by_version/5'), '{"block_height":"1"}', '{"block_height":"2"}', ['a', 'b']), 'no release shows in a block without them')
  t.notOk(may(bcs(block), made([transaction()]), made([transaction({ added: 1 })])))
})

t.test('the payload of an event may be decoded otherwise, but not which event it is', async t => {
  const event = (sequence: string, data: unknown): object => ({ version: '9', guid: { creation_number: '2', account_address: '0x1' }, sequence_number: sequence, type: '0x1::a::B', data })
  t.ok(may(page, JSON.stringify([event('5', 1)]), JSON.stringify([event('5', 2)])))
  t.notOk(may(page, JSON.stringify([event('5', 1)]), JSON.stringify([event('6', 1)])))
  t.notOk(may(page, '[1]', '[2]'))
  t.notOk(may(page, '{}', '[]'))
})
