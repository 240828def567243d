import t from 'tap'
import { isExplainedByRendering, type RenderedBody } from '../../src/api/rendering-difference.js'
import { modulesInBcs } from '../../src/api/modules-bcs.js'
import { type Read } from '../../src/api/read.js'
import { splitResourcesBcs } from '../../src/api/resources-bcs.js'
import { readOfTarget } from '../support/proxy-context.js'

const modules = readOfTarget('/v1/accounts/0x1/modules?ledger_version=5')
const block = readOfTarget('/v1/blocks/by_version/5?with_transactions=true')
const page = readOfTarget(`/v1/accounts/0x1/events/${encodeURIComponent('0x1::a::B')}/c?start=5&limit=2`)
const item: Read = {
  ...readOfTarget('/v1/blocks/by_version/5'),
  endpoint: { ...modules.endpoint, name: 'table_item', takesCursor: false }
}
const bcs = (read: Read): Read => ({ ...read, accept: 'bcs' })

interface How {
  readonly releases?: [string | undefined, string | undefined]
  /** The cursor where the first listing ends. */
  readonly cursor?: string
}

function may (
  read: Read,
  one: string | Buffer,
  other: string | Buffer,
  { releases: [first, second] = ['a', 'a'], cursor }: How = {}
): boolean {
  const a: RenderedBody = { body: Buffer.from(one as string), release: first, cursor }
  const b: RenderedBody = { body: Buffer.from(other as string), release: second, cursor: undefined }
  t.equal(isExplainedByRendering(read, b, a), isExplainedByRendering(read, a, b), 'in either order')
  return isExplainedByRendering(read, a, b)
}

const module = (abi: unknown, bytecode = '0xa1'): object => ({ bytecode, abi })
const list = (...items: unknown[]): string => JSON.stringify(items)

t.test('two releases may render JSON differently, but never stored data or BCS', async t => {
  for (
    const releases of [['a', 'b'], ['a', undefined], [undefined, undefined]] as Array<
      [string | undefined, string | undefined]
    >
  ) {
    t.ok(may(modules, list(module('x')), list(module('y')), { releases }), String(releases))
    t.ok(may(item, '"1"', '"2"', { releases }))
  }
  t.notOk(may(modules, list(module('x')), list(module('x', '0xa2')), { releases: ['a', 'b'] }))
  t.notOk(may(modules, list(module('x')), list(module('y'))))
  t.notOk(may(item, '"1"', '"2"'))
  t.notOk(may(bcs(modules), 'one', 'two', { releases: ['a', 'b'] }))
  t.notOk(may(bcs(item), 'one', 'two', { releases: ['a', 'b'] }))
})

t.test('a module may gain members while a newer release is not known yet', async t => {
  t.ok(
    may(modules, list(module({ structs: [{ name: 'S' }] })), list(module({ structs: [{ name: 'S', is_enum: false }] })))
  )
  t.ok(may(modules, list(module(null)), list(module({}))))
  t.notOk(
    may(modules, list(module({ structs: [{ name: 'S' }] })), list(module({ structs: [{ name: 'T', is_enum: false }] })))
  )
  t.notOk(
    may(modules, list(module({ name: 'S' })), '[{"bytecode":"0xa1","abi":{"name":"S","name":"T"}}]'),
    'a repeated member makes the shape unreadable'
  )
  t.notOk(may(modules, list(module([])), '[{"bytecode":"0xa1","abi":[1 2]}]'))
  const deep = (leaf: string): string => `[{"abi":${'['.repeat(150)}${leaf}${']'.repeat(150)}}]`
  t.notOk(may(modules, deep('1'), deep('2')), 'deeper texts are compared byte for byte')
})

t.test('a listing may be longer than one that ends early with a cursor, unless that one is empty', async t => {
  const [a, b, c] = [module('a'), module('b'), module('c')]
  const cursor = '00ab'
  t.ok(may(modules, list(a, b), list(a, b, c), { cursor }))
  t.notOk(may(modules, list(a, b), list(a, b, c)), 'no cursor')
  t.notOk(may(modules, list(a, module('b', '0xff')), list(a, b, c), { cursor }))
  t.notOk(may(modules, list(), list(a), { cursor }))
  t.notOk(may(modules, '[1', list(a), { cursor }))
  const packed = (name: string, code: string): Buffer =>
    Buffer.concat([
      Buffer.alloc(32, 1),
      Buffer.from([name.length]),
      Buffer.from(name),
      Buffer.from([code.length]),
      Buffer.from(code)
    ])
  const map = (...items: Buffer[]): Buffer => Buffer.concat([Buffer.from([items.length]), ...items])
  const [x, y, z] = [packed('a', 'x'), packed('b', 'yy'), packed('c', '')]
  t.ok(may(bcs(modules), map(x, z), map(x, y, z), { cursor }))
  t.notOk(may(bcs(modules), map(x, z), map(x, y, z)))
  t.notOk(may(bcs(modules), map(x, y), map(x, z), { cursor }))
  t.notOk(may(bcs(modules), map(x, packed('c', 'z')), map(x, y, z), { cursor }))
  t.notOk(may(bcs(modules), map(x, z).subarray(0, -1), map(x, y, z), { cursor }))
  t.same(modulesInBcs(map(x, y))?.length, 2)
  t.equal(modulesInBcs(Buffer.concat([map(x), y])), undefined, 'longer than its count')
  t.equal(modulesInBcs(Buffer.from([])), undefined)
  t.equal(modulesInBcs(Buffer.from([255, 255, 255, 255, 255, 255])), undefined, 'no length is that long')
  t.equal(modulesInBcs(Buffer.concat([Buffer.from([0x81, 0x00]), x]))?.length, 1)
  const long = Buffer.concat([Buffer.alloc(32), Buffer.from([1, 97, 0xac, 0x02]), Buffer.alloc(300)])
  t.equal(modulesInBcs(map(long))?.length, 1)
})

t.test('decoding of transactions may differ, but not hashes, senders or the block', async t => {
  const transaction = (change: object = {}): object => ({
    version: '5',
    hash: '0xa',
    gas_used: '1',
    sender: '0x1',
    vm_status: 'ok',
    changes: [{ data: null }],
    payload: { arguments: ['0x05'] },
    events: [{ guid: { creation_number: '1' }, sequence_number: '1', data: { amount: '1' } }],
    ...change
  })
  const made = (transactions: unknown, change: object = {}): string =>
    JSON.stringify({ block_height: '1', first_version: '5', last_version: '6', transactions, ...change })
  const same: Array<[what: string, change: object]> = [
    ['a node with an index of tables', { changes: [{ data: { key: '1' } }] }],
    ['a change that cannot be decoded', { changes: [] }],
    ['an argument that can be', { payload: { arguments: ['5'] } }],
    ['a failure in other words', { vm_status: 'worse' }],
    ['an event numbered by another index', {
      events: [{ guid: { creation_number: '0' }, sequence_number: '0', data: { amount: '1' } }]
    }],
    ['a member that is new', { added: 1 }]
  ]
  for (const [what, change] of same) t.ok(may(block, made([transaction()]), made([transaction(change)])), what)
  const others: Array<[what: string, change: object]> = [['gas', { gas_used: '2' }], ['a sender', { sender: '0x2' }], [
    'an argument',
    { payload: { arguments: ['0x06'] } }
  ], ['an amount', { events: [{ guid: { creation_number: '1' }, sequence_number: '1', data: { amount: '999' } }] }]]
  for (const [what, change] of others) t.notOk(may(block, made([transaction()]), made([transaction(change)])), what)
  t.ok(
    may(block, made([transaction()]), made([transaction({ payload: { arguments: ['0x06'] } })]), {
      releases: ['a', 'b']
    })
  )
  t.notOk(may(block, made([transaction()]), made([transaction({ gas_used: '2' })]), { releases: ['a', 'b'] }))
  t.notOk(may(block, made([transaction()]), made([transaction(), transaction()])))
  t.notOk(may(block, made([transaction()]), made([transaction({ added: 1 })], { block_height: '2' })))
  t.notOk(may(block, made([1]), made([2])))
  t.notOk(may(block, made(null), made([])))
  t.notOk(may(block, made([]), '{}'))
  t.notOk(may(block, 'no block', made([])))
  t.notOk(
    may(readOfTarget('/v1/blocks/by_version/5'), '{"block_height":"1"}', '{"block_height":"2"}', {
      releases: ['a', 'b']
    }),
    'a block without transactions renders alike in every release'
  )
  t.notOk(may(bcs(block), made([transaction()]), made([transaction({ added: 1 })])))
})

t.test('decoding of an event\'s payload may differ, but not its identity or decoded content', async t => {
  const event = (sequence: string, data: unknown): object => ({
    version: '9',
    guid: { creation_number: '2', account_address: '0x1' },
    sequence_number: sequence,
    type: '0x1::a::B',
    data
  })
  t.ok(may(page, list(event('5', '0x01')), list(event('5', { amount: '1' }))))
  t.notOk(may(page, list(event('5', { amount: '1' })), list(event('5', { amount: '999' }))))
  t.notOk(may(page, list(event('5', 1)), list(event('6', 1))))
  t.notOk(may(page, '[1]', '[2]'))
  t.notOk(may(page, '{}', '[]'))
})

t.test('no release may change the stored data of a module, a resource or a transaction', async t => {
  const one = readOfTarget('/v1/accounts/0x1/module/a?ledger_version=5')
  t.ok(may(one, JSON.stringify(module('x')), JSON.stringify(module('y')), { releases: ['a', 'b'] }))
  t.notOk(may(one, JSON.stringify(module('x')), JSON.stringify(module('x', '0xa2')), { releases: ['a', 'b'] }))
  const resources = readOfTarget('/v1/accounts/0x1/resources?ledger_version=5')
  const resource = (type: string, data: unknown): object => ({ type, data })
  t.ok(
    may(resources, list(resource('0x1::a::B', { a: '0xab' })), list(resource('0x1::a::B', { a: 'text' }))),
    'decoded by the modules of the head'
  )
  t.ok(
    may(resources, list(resource('0x1::a::B', {})), list(resource('0x1::a::B', {}), resource('0x1::a::C', {})), {
      cursor: '00ab'
    })
  )
  t.notOk(may(resources, list(resource('0x1::a::B', {})), list(resource('0x1::a::C', {})), { releases: ['a', 'b'] }))
  const transaction = (hash: string, more: object = {}): object => ({ version: '5', hash, ...more })
  for (
    const [read, of] of [
      [readOfTarget('/v1/transactions/by_version/5'), (item: object) => JSON.stringify(item)],
      [readOfTarget(`/v1/transactions/by_hash/${'ab'.repeat(32)}`), (item: object) => JSON.stringify(item)],
      [readOfTarget('/v1/transactions?start=5&limit=1'), (item: object) => list(item)]
    ] as const
  ) {
    t.ok(
      may(read, of(transaction('0xa', { payload: 'x' })), of(transaction('0xa', { payload: 'y' })), {
        releases: ['a', 'b']
      })
    )
    t.notOk(may(read, of(transaction('0xa', { payload: 'x' })), of(transaction('0xa', { payload: 'y' }))))
    t.notOk(may(read, of(transaction('0xa')), of(transaction('0xb')), { releases: ['a', 'b'] }))
  }
  const run = readOfTarget('/v1/transactions?start=5&limit=1')
  t.notOk(may(run, '[1', list(transaction('0xa')), { releases: ['a', 'b'] }), 'not a list')
  t.notOk(may(run, list(), list(transaction('0xa')), { releases: ['a', 'b'] }), 'an empty list')
  const height = readOfTarget('/v1/blocks/by_height/5?with_transactions=true')
  t.ok(
    may(
      height,
      '{"block_height":"5","transactions":[{"version":"5","hash":"0xa","x":1}]}',
      '{"block_height":"5","transactions":[{"version":"5","hash":"0xa","x":2}]}',
      { releases: ['a', 'b'] }
    )
  )
})

t.test('resources in BCS are split by their types at any depth, and malformed listings rejected', async t => {
  const text = (characters: string): Buffer =>
    Buffer.concat([Buffer.from([characters.length]), Buffer.from(characters)])
  const struct = (name: string, ...types: Buffer[]): Buffer =>
    Buffer.concat([Buffer.alloc(32, 1), text('m'), text(name), Buffer.from([types.length]), ...types])
  const nested = (level: number): Buffer =>
    level === 0 ? Buffer.from([2]) : Buffer.concat([Buffer.from([6]), nested(level - 1)])
  const all = [
    struct('A'),
    struct('B', Buffer.from([17]), Buffer.concat([Buffer.from([6, 7]), struct('C', Buffer.from([1]))])),
    struct('D', nested(8))
  ]
  const items = all.map((type, at) => Buffer.concat([type, text('x'.repeat(at))]))
  const body = Buffer.concat([Buffer.from([items.length]), ...items])
  t.same(splitResourcesBcs(body), items.map(item => item.toString('latin1')))
  for (let length = 0; length < body.length; length++) t.equal(splitResourcesBcs(body.subarray(0, length)), undefined)
  t.equal(splitResourcesBcs(Buffer.concat([body, Buffer.from([0])])), undefined)
  for (const type of [Buffer.from([11]), Buffer.from([18]), nested(40)]) {
    t.equal(splitResourcesBcs(Buffer.concat([Buffer.from([1]), struct('A', type), text('')])), undefined)
  }
  const deep = (level: number): Buffer =>
    struct('A', level === 0 ? Buffer.from([2]) : Buffer.concat([Buffer.from([7]), deep(level - 1)]))
  t.equal(splitResourcesBcs(Buffer.concat([Buffer.from([1]), deep(20), text('')])), undefined)
})
