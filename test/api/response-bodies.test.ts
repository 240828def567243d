import fc from 'fast-check'
import t from 'tap'
import {
  readAccumulatorRoot,
  type BlockSummary,
  readBlockEnd,
  readBlockSummary,
  type PageSummary,
  readEventPageSummary
} from '../../src/api/body-facts.js'
import { check, seedTitle } from '../support/properties.js'
import { u64 } from '../support/value-variants.js'

const maxU64 = 18446744073709551615n

const fields = {
  block_height: '7',
  block_hash: `0x${'ab'.repeat(32)}`,
  block_timestamp: '1660247629760032',
  first_version: '100',
  last_version: '102',
  transactions: null
}
const head = { height: 7n, first: 100n, last: 102n, isSettled: true }
const settled = { success: false, accumulator_root_hash: `0x${'ef'.repeat(32)}` }
const inJson = (change: object): BlockSummary | undefined =>
  readBlockSummary(Buffer.from(JSON.stringify({ ...fields, ...change })), 'json')

t.test('a block head in JSON is read with its members in any order and with new members', async t => {
  t.strictSame(inJson({}), { ...head, counts: [] })
  t.strictSame(inJson({ transactions: undefined }), { ...head, counts: [] }, 'without the member')
  t.strictSame(inJson({ transactions: [] }), { ...head, counts: [0] })
  t.strictSame(inJson({ transactions: [settled, settled, settled] }), { ...head, counts: [3] })
  t.strictSame(inJson({ transactions: [settled, {}] }), { ...head, counts: [2], isSettled: false })
  const turned = Object.fromEntries(
    Object.entries({ ...fields, transactions: [settled], epoch: { first_version: '5' } }).reverse()
  )
  t.strictSame(readBlockSummary(Buffer.from(JSON.stringify(turned, null, 2)), 'json'), { ...head, counts: [1] })
})

t.test(`versions are exact over all of u64, in both representations (${seedTitle})`, async () => {
  check(fc.property(u64, u64, u64, (height, one, other) => {
    const [first, last] = one < other ? [one, other] : [other, one]
    const json = inJson({ block_height: String(height), first_version: String(first), last_version: String(last) })
    return [json, readBlockSummary(bcsHead(height, first, last), 'bcs')].every(read =>
      read?.height === height && read.first === first && read.last === last
    )
  }))
})

t.test('a block in JSON that is ambiguous or malformed is not read', async t => {
  for (const name of ['block_height', 'first_version', 'last_version']) {
    for (
      const value of [
        undefined,
        null,
        100,
        '',
        '+100',
        '-100',
        '1e2',
        '0x64',
        ' 100',
        '18446744073709551616',
        ['100'],
        { a: '100' }
      ]
    ) {
      t.equal(inJson({ [name]: value }), undefined, `${name} ${JSON.stringify(value)}`)
    }
  }
  for (const transactions of [false, 0, '', '[]', {}, { length: 3 }]) {
    t.equal(inJson({ transactions }), undefined, JSON.stringify(transactions))
  }
  t.equal(inJson({ first_version: '103' }), undefined, 'a range that ends before it begins')
  const text = JSON.stringify(fields)
  for (
    const body of [
      '',
      'null',
      '[]',
      `[${text}]`,
      text + text,
      text.slice(0, -1),
      text.replace('{', '{"first_version":"100",'),
      text.replace('{', '{"first\\u005fversion":"1",')
    ]
  ) {
    t.equal(readBlockSummary(Buffer.from(body), 'json'), undefined, body)
  }
})

function bcsHead (height: bigint, first: bigint, last: bigint): Buffer {
  const bytes = Buffer.alloc(64, 0xee)
  bytes.writeBigUInt64LE(height, 0)
  bytes.writeBigUInt64LE(first, 48)
  bytes.writeBigUInt64LE(last, 56)
  return bytes
}

const inBcs = (...list: number[]): BlockSummary | undefined =>
  readBlockSummary(Buffer.concat([bcsHead(7n, 100n, 102n), Buffer.from(list)]), 'bcs')
const items = (count: number): number[] => Array<number>(count).fill(0xaa)

t.test('a block head in BCS is read by offset, with both encodings of no transactions', async t => {
  t.strictSame(inBcs(), { ...head, counts: [] })
  t.strictSame(inBcs(0), { ...head, counts: [] })
  t.strictSame(readBlockSummary(bcsHead(maxU64, maxU64, maxU64), 'bcs'), {
    height: maxU64,
    first: maxU64,
    last: maxU64,
    counts: [],
    isSettled: true
  })
})

t.test('transactions in BCS are counted with and without the option byte before their length', async t => {
  t.strictSame(inBcs(3, ...items(30)), { ...head, counts: [3] })
  t.strictSame(inBcs(0x80 + 12_000 % 128, Math.floor(12_000 / 128), ...items(12_000)), { ...head, counts: [12_000] })
  t.strictSame(inBcs(0x80, 0x80, 1, ...items(16_384)), { ...head, counts: [16_384] })
})

t.test('a 01 that may be the option byte or the length gives both counts', async t => {
  t.strictSame(inBcs(1, 3, ...items(30)), { ...head, counts: [1, 3] })
  t.strictSame(inBcs(1, 0xac, 2, ...items(300)), { ...head, counts: [1, 300] })
  t.strictSame(inBcs(1, 0), { ...head, counts: [1, 0] }, 'an empty list after the option byte')
  t.strictSame(inBcs(1, 0x7f, ...items(3)), { ...head, counts: [1] }, 'one item, which is too short to be 127')
  t.strictSame(
    inBcs(1, 0x80, 0x80, 0x80, 0x80, 0x80, 0),
    { ...head, counts: [1] },
    'one item, which begins with no length'
  )
})

t.test('a block in BCS that is ambiguous or malformed is not read', async t => {
  for (const length of [0, 1, 63]) t.equal(readBlockSummary(Buffer.alloc(length), 'bcs'), undefined, `${length} bytes`)
  t.equal(readBlockSummary(bcsHead(7n, 103n, 102n), 'bcs'), undefined, 'a range that ends before it begins')
  const cases: [string, number[]][] = [
    ['items of which there are none', [0, 1]],
    ['a mark without a list', [1]],
    ['more items than bytes', [5, ...items(4)]],
    ['a length that runs off the end', [0x80, 0x80]],
    ['a length of six bytes', [0x80, 0x80, 0x80, 0x80, 0x80, 1, ...items(100)]],
    ['a length of billions', [0xff, 0xff, 0xff, 0xff, 0x7f, ...items(100)]],
    ['a length with a needless byte', [0x83, 0, ...items(100)]]
  ]
  for (const [title, list] of cases) t.equal(inBcs(...list), undefined, title)
})

interface Fields {
  version?: unknown
  guid?: unknown
  sequence_number?: unknown
}

const guid = { creation_number: '3', account_address: '0x1' }
const event = (sequence: number | bigint, version: number | bigint, change: Fields = {}): object => ({
  version: String(version),
  guid,
  sequence_number: String(sequence),
  type: '0x1::block::NewBlockEvent',
  data: { version: '0', guid: 1, text: '"sequence_number":"9"' },
  ...change
})
const page = (...events: unknown[]): PageSummary | undefined =>
  readEventPageSummary(Buffer.from(JSON.stringify(events)))

t.test('a page with a malformed event is not read', async t => {
  const numbers = [undefined, null, 5, '', '+5', '-5', '5.0', '18446744073709551616', ['5'], { a: '5' }]
  for (const value of numbers) {
    t.equal(
      page(event(4, 1), event(5, 1, { sequence_number: value })),
      undefined,
      `sequence number ${JSON.stringify(value)}`
    )
    t.equal(page(event(4, 1), event(5, 1, { version: value })), undefined, `version ${JSON.stringify(value)}`)
  }
  for (
    const value of [
      undefined,
      null,
      '0x1',
      3,
      [],
      ['3', '0x1'],
      {},
      { creation_number: '3' },
      { account_address: '0x1' },
      { ...guid, creation_number: 3 },
      { ...guid, account_address: null }
    ]
  ) {
    t.equal(page(event(5, 1, { guid: value })), undefined, `guid ${JSON.stringify(value)}`)
  }
  for (const item of [null, 1, 'a', [], [event(5, 1)], {}]) t.equal(page(item), undefined, JSON.stringify(item))
  const text = JSON.stringify(event(5, 1))
  for (
    const body of [
      '',
      'null',
      '{}',
      text,
      `[${text}`,
      `[${text}]]`,
      `[${text} ${text}]`,
      `[${text.replace('{', '{"version":"1",')}]`
    ]
  ) {
    t.equal(readEventPageSummary(Buffer.from(body)), undefined, body)
  }
})

t.test('the end of a block is read only from that block, whole and in numbers as nodes print them', async t => {
  const block = { block_height: '7', block_timestamp: '1000', last_version: '99' }
  const endOf = (change: object): unknown => readBlockEnd(Buffer.from(JSON.stringify({ ...block, ...change })), 7n)
  t.same(endOf({}), { version: 99n, timestampUsec: 1000n })
  for (
    const change of [
      { block_height: '8' },
      { block_timestamp: 1000 },
      { block_timestamp: 'x' },
      { last_version: 99 },
      { last_version: '-1' }
    ]
  ) t.equal(endOf(change), undefined, JSON.stringify(change))
  t.equal(readBlockEnd(Buffer.from('{"block_height"'), 7n), undefined, 'broken off')
})

t.test('the root of a transaction is read from that transaction alone', async t => {
  const [version, root] = ['7', `0x${'aB'.repeat(32)}`]
  const rows: ReadonlyArray<readonly [why: string, body: object, expected: string | undefined]> = [
    ['in lower case', { version, accumulator_root_hash: root }, root.toLowerCase()],
    ['of another version', { version: '8', accumulator_root_hash: root }, undefined],
    ['missing', { version }, undefined],
    ['no hash', { version, accumulator_root_hash: '0x1' }, undefined]
  ]
  for (const [why, body, expected] of rows) {
    t.equal(readAccumulatorRoot(Buffer.from(JSON.stringify(body)), 7n), expected, why)
  }
})
