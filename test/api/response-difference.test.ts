import t from 'tap'
import { differenceOf, type HarmlessCause, type RenderedResponse } from '../../src/api/response-difference.js'
import { type Read } from '../../src/api/read.js'
import { readOfTarget } from '../support/proxy-context.js'

const modules = readOfTarget('/v1/accounts/0x1/modules?ledger_version=5')
const resources = readOfTarget('/v1/accounts/0x1/resources?ledger_version=5')
const oneModule = readOfTarget('/v1/accounts/0x1/module/a?ledger_version=5')
const block = readOfTarget('/v1/blocks/by_version/5?with_transactions=true')
const blockAlone = readOfTarget('/v1/blocks/by_version/5')
const byHeight = readOfTarget('/v1/blocks/by_height/5?with_transactions=true')
const byVersion = readOfTarget('/v1/transactions/by_version/5')
const byHash = readOfTarget(`/v1/transactions/by_hash/${'ab'.repeat(32)}`)
const run = readOfTarget('/v1/transactions?start=5&limit=1')
const sends = readOfTarget('/v1/accounts/0x1/transactions?start=5&limit=1')
const summaries = readOfTarget('/v1/accounts/0x1/transaction_summaries?start_version=5')
const auxiliary = readOfTarget('/v1/transactions/auxiliary_info?start_version=5&limit=1')
const summary = (hash: string): object => ({ sender: '0x1', version: '5', transaction_hash: hash })
const page = readOfTarget(`/v1/accounts/0x1/events/${encodeURIComponent('0x1::a::B')}/c?start=5&limit=1`)
const stream = readOfTarget('/v1/accounts/0x1/events/2?start=5&limit=1')
const item: Read = { ...blockAlone, endpoint: { ...modules.endpoint, name: 'table_item', takesCursor: false } }
const bcs = (read: Read): Read => ({ ...read, accept: 'bcs' })

type Row = readonly [
  why: string,
  read: Read,
  one: unknown,
  other: unknown,
  cause: HarmlessCause | 'wrong',
  change?: { readonly releases?: readonly [string | undefined, string | undefined], readonly cursor?: string }
]

const response: RenderedResponse = {
  status: 200,
  contentType: 'application/json',
  body: Buffer.from('[]'),
  release: 'a',
  cursor: undefined,
  gasUsed: undefined
}
const bodyOf = (value: unknown): Buffer => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))

const releases = ['a', 'b'] as const
const cut = { cursor: '00ab' }
const module = (abi: unknown, bytecode = '0xa1'): object => ({ bytecode, abi })
const resource = (type: string, data: unknown): object => ({ type: `0x1::a::${type}`, data })
const nested = (leaf: string): string => `[{"abi":${'['.repeat(150)}${leaf}${']'.repeat(150)}}]`
const short = (hash: string, payload = ''): object => ({ version: '5', hash, payload })
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
const made = (transactions: unknown, change: object = {}): object => ({
  block_height: '1',
  first_version: '5',
  last_version: '6',
  transactions,
  ...change
})
const event = (sequence: string, data: unknown, creation = '2'): object => ({
  version: '9',
  guid: { creation_number: creation, account_address: '0x1' },
  sequence_number: sequence,
  type: '0x1::a::B',
  data
})
const inBlock = (
  why: string,
  change: object,
  cause: Row[4]
): Row => [why, block, made([transaction()]), made([transaction(change)]), cause]

const rows: readonly Row[] = [
  ['another release', modules, [module('x')], [module('y')], 'release', { releases }],
  ['a release that is not known', modules, [module('x')], [module('y')], 'release', { releases: ['a', undefined] }],
  ['a table item by another release', item, '"1"', '"2"', 'release', { releases }],
  ['a table item by the same release', item, '"1"', '"2"', 'wrong'],
  ['a module by the same release', modules, [module('x')], [module('y')], 'wrong'],
  ['bytecode', modules, [module('x')], [module('x', '0xa2')], 'wrong', { releases }],
  ['bytecode of one module', oneModule, module('x'), module('x', '0xa2'), 'wrong', { releases }],
  ['ABI of one module', oneModule, module('x'), module('y'), 'release', { releases }],
  ['BCS of a listing', bcs(modules), 'one', 'two', 'wrong', { releases }],
  ['BCS of an item', bcs(item), 'one', 'two', 'wrong', { releases }],
  ['a new member', modules, [module({ name: 'S' })], [module({ name: 'S', is_enum: false })], 'upstream'],
  ['an ABI that can be made', modules, [module(null)], [module({})], 'upstream'],
  ['another name', modules, [module({ name: 'S' })], [module({ name: 'T', is_enum: false })], 'wrong'],
  [
    'a repeated member',
    modules,
    [module({ name: 'S' })],
    '[{"bytecode":"0xa1","abi":{"name":"S","name":"T"}}]',
    'wrong'
  ],
  ['malformed JSON', modules, [module([])], '[{"bytecode":"0xa1","abi":[1 2]}]', 'wrong'],
  ['a leaf below any depth that nodes print', modules, nested('1'), nested('2'), 'wrong'],
  ['a longer listing', modules, [module('a')], [module('a'), module('b')], 'upstream', cut],
  ['a longer listing without a cursor', modules, [module('a')], [module('a'), module('b')], 'wrong'],
  ['a longer listing that begins otherwise', modules, [module('a')], [module('b', '0xff'), module('b')], 'wrong', cut],
  ['an empty listing', modules, [], [module('a')], 'wrong', cut],
  ['no listing', modules, '[1', [module('a')], 'wrong', cut],
  ['a longer listing in BCS', bcs(modules), 'one', 'one and two', 'upstream', cut],
  ['a longer listing in BCS without a cursor', bcs(modules), 'one', 'one and two', 'wrong'],
  ['a shorter listing in BCS without a cursor', bcs(modules), 'one and two', 'one', 'wrong', cut],
  [
    'a resource decoded by the modules of the head',
    resources,
    [resource('B', '0xab')],
    [resource('B', 'x')],
    'upstream'
  ],
  ['more resources', resources, [resource('B', {})], [resource('B', {}), resource('C', {})], 'upstream', cut],
  ['another resource', resources, [resource('B', {})], [resource('C', {})], 'wrong', { releases }],
  inBlock('a node with an index of tables', { changes: [{ data: { key: '1' } }] }, 'upstream'),
  inBlock('a change that cannot be decoded', { changes: [] }, 'upstream'),
  inBlock('an argument that can be decoded', { payload: { arguments: ['5'] } }, 'upstream'),
  inBlock('a failure in other words', { vm_status: 'worse' }, 'upstream'),
  inBlock(
    'an event numbered by another index',
    { events: [{ guid: { creation_number: '0' }, sequence_number: '0', data: { amount: '1' } }] },
    'upstream'
  ),
  inBlock('a member that is new', { added: 1 }, 'upstream'),
  inBlock('gas', { gas_used: '2' }, 'wrong'),
  inBlock('a sender', { sender: '0x2' }, 'wrong'),
  inBlock('an argument', { payload: { arguments: ['0x06'] } }, 'wrong'),
  inBlock(
    'an amount',
    { events: [{ guid: { creation_number: '1' }, sequence_number: '1', data: { amount: '9' } }] },
    'wrong'
  ),
  ['more transactions', block, made([transaction()]), made([transaction(), transaction()]), 'wrong'],
  ['another height', block, made([1]), made([1], { block_height: '2' }), 'wrong'],
  ['no transactions', block, made([1]), made([2]), 'wrong'],
  ['no list of transactions', block, made(null), made([]), 'wrong'],
  ['a block without its transactions', block, made([]), {}, 'wrong'],
  ['no block', block, 'no block', made([]), 'wrong'],
  ['a block that renders alike in every release', blockAlone, { h: '1' }, { h: '2' }, 'wrong', { releases }],
  ['a block in BCS', bcs(block), made([transaction()]), made([transaction({ added: 1 })]), 'wrong'],
  ['a block by height', byHeight, made([short('0xa', 'x')]), made([short('0xa', 'y')]), 'release', { releases }],
  ['gas, by another release', block, made([transaction()]), made([transaction({ gas_used: '2' })]), 'wrong', {
    releases
  }],
  ['the payload of an event', page, [event('5', '0x01')], [event('5', { amount: '1' })], 'upstream'],
  ['a decoded amount of an event', page, [event('5', { amount: '1' })], [event('5', { amount: '9' })], 'wrong'],
  ['the number of an event', page, [event('5', 1)], [event('6', 1)], 'wrong'],
  ['no events', page, '[1]', '[2]', 'wrong'],
  ['no list of events', page, '{}', '[]', 'wrong'],
  ['another stream of a handle', page, [event('5', 1, '2')], [event('5', 1, '3')], 'stream'],
  ['another stream of a creation number', stream, [event('5', 1, '2')], [event('5', 1, '3')], 'wrong'],
  ['no list of transactions in a run', run, '[1', [short('0xa')], 'wrong', { releases }],
  ['summaries of another hash', summaries, [summary('0xa')], [summary('0xb')], 'wrong', { releases }],
  ['a longer page of summaries', summaries, [summary('0xa')], [summary('0xa'), summary('0xb')], 'upstream'],
  ['summaries of another release', summaries, [summary('0xa')], [{ ...summary('0xa'), kind: 1 }], 'release', {
    releases
  }],
  ['auxiliary facts of one release', auxiliary, [{ type: 'v1' }], [{ type: 'v2' }], 'wrong'],
  ['auxiliary facts of two releases', auxiliary, [{ type: 'v1' }], [{ type: 'v2' }], 'release', { releases }],
  ['an empty run', run, [], [short('0xa')], 'wrong', { releases }],
  ['a longer run', run, [short('0xa')], [short('0xa'), short('0xb')], 'upstream'],
  ...([[byVersion, (one: object) => one], [byHash, (one: object) => one], [run, (one: object) => [one]], [
    sends,
    (one: object) => [one]
  ]] as const)
    .flatMap(([read, of]): Row[] => [
      ['a payload, by another release', read, of(short('0xa', 'x')), of(short('0xa', 'y')), 'release', { releases }],
      ['a payload', read, of(short('0xa', 'x')), of(short('0xa', 'y')), 'wrong'],
      ['a hash', read, of(short('0xa')), of(short('0xb')), 'wrong', { releases }]
    ])
]

t.test('two bodies of one read differ by a known cause, or one of them is wrong', async t => {
  for (const [why, read, one, other, cause, { releases: [first, second] = ['a', 'a'], cursor } = {}] of rows) {
    const a = { ...response, body: bodyOf(one), release: first, cursor }
    const b = { ...response, body: bodyOf(other), release: second }
    const expected = { part: 'body', cause: cause === 'wrong' ? undefined : cause }
    t.same([differenceOf(read, a, b), differenceOf(read, b, a)], [expected, expected], `${read.endpoint.name}: ${why}`)
  }
})

t.test('every other part of a response is compared too', async t => {
  const parts: ReadonlyArray<readonly [change: Partial<RenderedResponse>, part: string, cause?: HarmlessCause]> = [
    [{ status: 404 }, 'status'],
    [{ contentType: 'Application/JSON; charset=utf-8' }, 'content-type', 'upstream'],
    [{ contentType: 'text/html' }, 'content-type'],
    [{ cursor: '00ab' }, 'cursor'],
    [{ cursor: '00ab', release: 'b' }, 'cursor', 'release'],
    [{ gasUsed: '7' }, 'cursor']
  ]
  t.equal(differenceOf(modules, response, { ...response, release: 'b' }), undefined)
  for (const [change, part, cause] of parts) {
    t.same(differenceOf(modules, response, { ...response, ...change }), { part, cause }, JSON.stringify(change))
  }
})
