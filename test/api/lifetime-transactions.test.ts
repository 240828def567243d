import t from 'tap'
import { readPosition } from '../../src/api/position.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { judge, type StoreVerdict } from '../../src/api/store-verdict.js'
import { type Read } from '../../src/api/read.js'
import { readOfTarget } from '../support/proxy-context.js'

const stamps = {
  'x-aptos-chain-id': '4',
  'x-aptos-ledger-version': '90',
  'x-aptos-ledger-oldest-version': '10',
  'x-aptos-ledger-timestampusec': '1000',
  'x-aptos-block-height': '9',
  'x-aptos-oldest-block-height': '1'
}

function verdictOn (read: Read, body: unknown, change: Record<string, string> = {}): StoreVerdict {
  const headers = { 'content-type': 'application/json', ...stamps, ...change }
  const response: UpstreamResponse = {
    status: 200,
    headers,
    body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    rest: undefined,
    isFramed: true,
    stamped: readPosition(headers),
    release: undefined
  }
  return judge(read, response, { eventsTtlMs: 1000 })
}

const whyNot = (read: Read, body: unknown, change?: Record<string, string>): string | undefined =>
  verdictOn(read, body, change).notStored

const hash = `0x${'ab'.repeat(32)}`
const byHash = readOfTarget(`/v1/transactions/by_hash/${hash}`)
const byVersion = readOfTarget('/v1/transactions/by_version/50')
const user = (version: number | string = 50, more: object = {}): object => ({
  version: String(version),
  hash,
  type: 'user_transaction',
  success: true,
  accumulator_root_hash: hash,
  ...more
})
// Nodes were seen to send a committed shape without these two for a moment.
const unsettled = [{ success: undefined }, { accumulator_root_hash: undefined }, { success: null }]

t.test('a committed transaction within the window is stored, by version and by hash', async t => {
  for (const read of [byHash, byVersion]) {
    t.strictSame(verdictOn(read, user()).lifetime, {
      ttlMs: undefined,
      block: undefined,
      lowestVersion: 50n,
      page: undefined
    })
    t.equal(whyNot(read, JSON.stringify(user()).replace('ab', 'AB')), undefined, 'a hash is a number')
  }
  t.equal(whyNot(byHash, user(10)), undefined)
  t.equal(whyNot(byHash, user(90)), undefined)
})

t.test('a pending transaction, or another than the requested one, is not stored', async t => {
  t.equal(whyNot(byHash, { hash, type: 'pending_transaction' }), 'pending_transaction')
  t.equal(whyNot(byVersion, { hash, type: 'pending_transaction' }), 'wrong_transaction')
  t.equal(whyNot(byVersion, user(51)), 'wrong_transaction')
  t.equal(whyNot(byHash, user(50, { hash: `0x${'ac'.repeat(32)}` })), 'wrong_transaction')
  for (const version of [9, 91]) t.equal(whyNot(byHash, user(version)), 'outside_window')
})

t.test('a body that is not certainly a transaction is not stored', async t => {
  const wrong = [
    '[]',
    '',
    '{}',
    '"x"',
    user('x'),
    user(50, { type: 7 }),
    user(50, { hash: null }),
    { hash, type: 'user_transaction' },
    { hash, version: '50' },
    user(50, { type: 'pending_transaction' }),
    JSON.stringify(user()).replace('{', '{"version":"51",')
  ]
  for (const body of wrong) {
    for (const read of [byHash, byVersion]) t.equal(whyNot(read, body), 'unreadable', JSON.stringify(body))
  }
})

const listing = (query: string): Read => readOfTarget(`/v1/transactions?${query}`)
const run = (first: number, count: number): object[] => Array.from({ length: count }, (_, at) => user(first + at))

t.test('a list from a version on is stored if full, or if cut by the node\'s limit before the head', async t => {
  t.strictSame(verdictOn(listing('start=50&limit=3'), run(50, 3)).lifetime, {
    ttlMs: undefined,
    block: undefined,
    lowestVersion: 50n,
    page: undefined
  })
  t.equal(whyNot(listing('start=50'), run(50, 25)), undefined)
  t.equal(whyNot(listing('start=50&limit=1000'), run(50, 10)), undefined, 'an upstream lists at most so many')
  t.equal(whyNot(listing('start=88&limit=3'), run(88, 3)), undefined, 'it ends at the head and is full')
})

t.test('a list that may still grow, or is not the requested one, is not stored', async t => {
  t.equal(whyNot(listing('start=88&limit=4'), run(88, 3)), 'short_page')
  t.equal(whyNot(listing('start=88'), run(88, 3)), 'short_page', 'the upstream chooses the default limit')
  t.equal(whyNot(listing('start=50&limit=3'), []), 'empty_page')
  t.equal(whyNot(listing('start=50&limit=3'), run(51, 3)), 'pruned_page')
  t.equal(whyNot(listing('start=50&limit=3'), run(49, 3)), 'gapped_page')
  t.equal(whyNot(listing('start=50&limit=3'), run(50, 4)), 'gapped_page')
  t.equal(whyNot(listing('start=50&limit=3'), [...run(50, 2), user(53)]), 'gapped_page')
  t.equal(whyNot(listing('start=89&limit=3'), run(89, 3)), 'outside_window')
  t.equal(whyNot(listing('start=9&limit=3'), run(9, 3)), 'outside_window')
  for (const body of ['{}', '[{}]', [...run(50, 2), { hash, type: 'pending_transaction' }], '[1,2,3]']) {
    t.equal(whyNot(listing('start=50&limit=3'), body), 'unreadable', JSON.stringify(body))
  }
  t.equal(whyNot(listing('limit=3'), run(50, 3)), 'outside_window', 'the newest transactions change')
})

const block = {
  block_height: '5',
  block_hash: '0xab',
  block_timestamp: '5',
  first_version: '50',
  last_version: '59',
  transactions: null
}
const byHeight = readOfTarget('/v1/blocks/by_height/5')

t.test('a block by height is judged like a block by version', async t => {
  t.strictSame(verdictOn(byHeight, block).lifetime, {
    ttlMs: undefined,
    block: { height: 5n, first: 50n, last: 59n, counts: [], isSettled: true },
    lowestVersion: undefined,
    page: undefined
  })
  t.equal(whyNot(readOfTarget('/v1/blocks/by_height/6'), block), 'wrong_block')
  t.equal(whyNot(byHeight, { ...block, last_version: '90' }), 'newest_block')
  t.equal(whyNot(byHeight, block, { 'x-aptos-block-height': '5' }), 'newest_block')
  t.equal(
    whyNot(byHeight, { ...block, first_version: '91', last_version: '92' }),
    'wrong_block',
    'no upstream knows blocks above its head'
  )
  t.equal(whyNot(byHeight, { ...block, first_version: '5', last_version: '9' }), 'outside_window')
  t.equal(
    whyNot(readOfTarget('/v1/blocks/by_height/5?with_transactions=true'), { ...block, transactions: [{}] }),
    'truncated_block'
  )
  t.equal(whyNot(byHeight, '{}'), 'unreadable')
})

t.test('a transaction without success or root is no history: alone, in a list or in a block', async t => {
  const list = readOfTarget('/v1/transactions?start=50&limit=3')
  const withTransactions = readOfTarget('/v1/blocks/by_height/5?with_transactions=true')
  for (const change of unsettled) {
    for (const read of [byHash, byVersion]) t.equal(whyNot(read, user(50, change)), 'pending_transaction')
    const three = [user(50), user(51, change), user(52)]
    t.equal(whyNot(list, three), 'pending_transaction')
    t.equal(whyNot(withTransactions, { ...block, last_version: '52', transactions: three }), 'pending_transaction')
  }
  const nested = user(51, { success: undefined, payload: { success: true } })
  t.equal(whyNot(list, [user(50), nested, user(52)]), 'pending_transaction', 'members of its payload are not its own')
  t.equal(
    whyNot(withTransactions, { ...block, last_version: '51', transactions: [user(50), nested] }),
    'pending_transaction'
  )
  t.equal(whyNot(withTransactions, { ...block, last_version: '51', transactions: [user(50), user(51)] }), undefined)
})
