import t from 'tap'
import { readPosition } from '../../src/api/position.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { type LifetimeOptions, judge, impossibleReason } from '../../src/api/store-verdict.js'
import { type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'

const bounds: LifetimeOptions = { eventsTtlMs: 1000 }

const whyNotStored = (read: Read, response: UpstreamResponse, options: LifetimeOptions): string | undefined =>
  impossibleReason(read, response) ?? judge(read, response, options).notStored

function read (target: string, accept?: string): Read {
  const match = matchEndpoint(target, 'GET')
  if (match === undefined) throw new Error(target)
  const { endpoint: { method } } = match
  return readRequest(match, {
    method,
    accept,
    contentType: 'application/json',
    body: Buffer.from('{"key":"0xab","key_type":"address","value_type":"u8"}')
  }, { eventsDefault: 25 })
}

const modules = read('/v1/accounts/0x1/modules?ledger_version=50')
const item = read('/v1/tables/0x1/item?ledger_version=50')

const stamps = {
  'x-aptos-chain-id': '4',
  'x-aptos-ledger-version': '90',
  'x-aptos-ledger-oldest-version': '10',
  'x-aptos-ledger-timestampusec': '1000',
  'x-aptos-epoch': '2',
  'x-aptos-block-height': '9',
  'x-aptos-oldest-block-height': '1'
}

function responseOf (
  change: { status?: number, headers?: Record<string, string | string[] | undefined>, body?: string } = {}
): UpstreamResponse {
  const headers = { 'content-type': 'application/json; charset=utf-8', ...stamps, ...change.headers }
  return {
    status: change.status ?? 200,
    headers,
    body: Buffer.from(change.body ?? '[]'),
    rest: undefined,
    isFramed: true,
    stamped: readPosition(headers),
    release: undefined
  }
}

const missing = (code: string): string => JSON.stringify({ message: 'gone', error_code: code, vm_error_code: null })

t.test('a complete 200 with a position, within its window, of our chain and type, is stored', async t => {
  t.equal(whyNotStored(modules, responseOf(), bounds), undefined)
  t.equal(
    whyNotStored(read('/v1/accounts/0x1/modules?ledger_version=10'), responseOf(), bounds),
    undefined,
    'at the oldest version'
  )
  t.equal(
    whyNotStored(read('/v1/accounts/0x1/modules?ledger_version=90'), responseOf(), bounds),
    undefined,
    'at the head'
  )
  t.equal(
    whyNotStored(modules, responseOf({ headers: { 'x-aptos-epoch': undefined } }), bounds),
    undefined,
    'only the epoch is optional'
  )
  t.equal(
    whyNotStored(modules, responseOf({ headers: { 'content-encoding': 'identity', vary: 'Origin, Accept' } }), bounds),
    undefined
  )
  t.equal(
    whyNotStored(
      read('/v1/accounts/0x1/modules?ledger_version=50', 'application/x-bcs'),
      responseOf({ headers: { 'content-type': 'application/x-bcs' } }),
      bounds
    ),
    undefined
  )
})

t.test('a not-found of an item, resource or module at a version is stored', async t => {
  const known: Array<[target: string, code: string]> = [
    ['/v1/tables/0x1/item', 'table_item_not_found'],
    ['/v1/tables/0x1/raw_item', 'table_item_not_found'],
    ['/v1/accounts/0x1/resource/0x1::a::B', 'resource_not_found'],
    ['/v1/accounts/0x1/module/a', 'module_not_found']
  ]
  for (const [target, code] of known) {
    for (const accept of ['application/json', 'application/x-bcs']) {
      const requested = read(`${target}?ledger_version=50`, accept)
      t.equal(
        whyNotStored(requested, responseOf({ status: 404, body: missing(code) }), bounds),
        undefined,
        `${target}: errors are JSON for any Accept`
      )
      for (
        const other of [
          'account_not_found',
          'version_not_found',
          ...known.map(([, code]) => code).filter(its => its !== code)
        ]
      ) {
        t.equal(
          whyNotStored(requested, responseOf({ status: 404, body: missing(other) }), bounds),
          'status',
          `${target}: ${other}`
        )
      }
    }
  }
  for (const target of ['/v1/accounts/0x1/modules', '/v1/accounts/0x1', '/v1/accounts/0x1/balance/0xa']) {
    t.equal(
      whyNotStored(
        read(`${target}?ledger_version=50`),
        responseOf({ status: 404, body: missing('table_item_not_found') }),
        bounds
      ),
      'status',
      target
    )
  }
})

t.test('any other response is not stored, each with its reason', async t => {
  const cases: [string, UpstreamResponse][] = [
    ...[500, 503, 429, 403, 400, 206, 204, 304, 301, 410].map((
      status
    ): [string, UpstreamResponse] => ['status', responseOf({ status })]),
    ...['version_not_found', 'resource_not_found', 'block_not_found', ''].map((
      code
    ): [string, UpstreamResponse] => ['status', responseOf({ status: 404, body: missing(code) })]),
    ['status', responseOf({ status: 404, body: 'not json' })],
    ['status', responseOf({ status: 404, body: 'null' })],
    [
      'status',
      responseOf({ status: 404, body: missing('table_item_not_found'), headers: { 'content-type': 'text/html' } })
    ],
    [
      'status',
      responseOf({ status: 404, body: missing('table_item_not_found').replace('{', '{"error_code":"internal_error",') })
    ],
    [
      'status',
      responseOf({
        status: 404,
        body: missing('table_item_not_found'),
        headers: { 'content-type': ['application/json', 'text/html'] }
      })
    ],
    [
      'wrong_coding',
      responseOf({ status: 404, body: missing('table_item_not_found'), headers: { 'content-encoding': 'gzip' } })
    ],
    ['wrong_type', responseOf({ headers: { 'content-type': 'application/json; a=b, text/html' } })],
    ['wrong_type', responseOf({ headers: { 'content-type': ['application/json; a=b', 'text/html'] } })],
    ['no_position', responseOf({ headers: { 'x-aptos-block-height': undefined } })],
    [
      'no_position',
      responseOf({ status: 404, body: missing('table_item_not_found'), headers: { 'x-aptos-block-height': undefined } })
    ],
    ['no_position', responseOf({ headers: { 'x-aptos-ledger-version': ['90', '91'] } })],
    ['incomplete', { ...responseOf(), isFramed: false }],
    ['wrong_type', responseOf({ headers: { 'content-type': 'text/html' } })],
    ['wrong_type', responseOf({ headers: { 'content-type': 'application/x-bcs' } })],
    ['wrong_type', responseOf({ headers: { 'content-type': undefined } })],
    ['wrong_coding', responseOf({ headers: { 'content-encoding': 'gzip' } })],
    ...['no-store', 'private', 'No-Cache', 'max-age=5, no-store', 'private="x"'].map((
      value
    ): [string, UpstreamResponse] => ['vetoed', responseOf({ headers: { 'cache-control': value } })]),
    ...['*', 'Accept, X-Api-Key', 'Cookie'].map((
      vary
    ): [string, UpstreamResponse] => ['vetoed', responseOf({ headers: { vary } })]),
    ['vetoed', responseOf({ headers: { vary: ['Accept', 'Cookie'] } })],
    ['outside_window', responseOf({ headers: { 'x-aptos-ledger-version': '49' } })],
    ['outside_window', responseOf({ headers: { 'x-aptos-ledger-oldest-version': '51' } })],
    ['too_large', { ...responseOf(), rest: Object.assign((async function* () {})(), { destroy: () => {} }) }]
  ]
  for (const [reason, response] of cases) {
    t.equal(
      whyNotStored(item, response, bounds),
      reason,
      `${reason}: ${response.status} ${JSON.stringify(response.headers).slice(0, 40)}`
    )
  }
  t.equal(
    whyNotStored(read('/v1/accounts/0x1/modules'), responseOf(), bounds),
    'outside_window',
    'a latest read has no version for its key'
  )
})

t.test('Cache-Control of an upstream with ignoreCacheControl is ignored', async t => {
  t.equal(
    whyNotStored(
      modules,
      { ...responseOf({ headers: { 'cache-control': 'no-store', vary: '*' } }), ignoresCacheControl: true },
      bounds
    ),
    undefined
  )
})

t.test('an impossible 200 is distinguished from one that is only not stored', async t => {
  t.equal(impossibleReason(modules, responseOf()), undefined)
  t.equal(impossibleReason(modules, responseOf({ headers: { 'x-aptos-chain-id': undefined } })), 'no_position')
  t.equal(impossibleReason(modules, responseOf({ headers: { 'content-type': 'text/html' } })), 'wrong_type')
  t.equal(impossibleReason(modules, responseOf({ headers: { 'content-encoding': 'br' } })), 'wrong_coding')
  t.equal(
    impossibleReason(modules, { ...responseOf(), isFramed: false }),
    'incomplete',
    'a body without a length may be truncated'
  )
  for (const status of [204, 206, 302, 304]) {
    t.equal(impossibleReason(modules, responseOf({ status })), 'status', `no request allows a ${status}`)
  }
  t.equal(impossibleReason(modules, responseOf({ headers: { 'cache-control': 'no-store' } })), undefined)
  t.equal(
    impossibleReason(
      modules,
      responseOf({ status: 503, headers: { 'content-type': 'text/html', 'x-aptos-chain-id': undefined } })
    ),
    undefined,
    'errors are forwarded'
  )
})

t.test('a node info response needs no position, and is JSON for any Accept', async t => {
  const info = read('/v1/info', 'application/x-bcs')
  t.equal(impossibleReason(info, responseOf({ headers: { 'x-aptos-chain-id': undefined } })), undefined)
})

// A block of ten versions below the head of 90.
const block = {
  block_height: '5',
  block_hash: '0xab',
  block_timestamp: '5',
  first_version: '50',
  last_version: '59',
  transactions: null
}
const headOf = read('/v1/blocks/by_version/55')
const wholeOf = read('/v1/blocks/by_version/55?with_transactions=true')
const withTransactions = (count: number): object => ({
  transactions: Array(count).fill({ success: true, accumulator_root_hash: '0x1' })
})

function verdictOn (change: object, blockRead = headOf, stamped: Record<string, string> = {}): string | undefined {
  return whyNotStored(
    blockRead,
    responseOf({ body: JSON.stringify({ ...block, ...change }), headers: stamped }),
    bounds
  )
}

t.test('a final block with the requested version is stored without expiry for all its versions', async t => {
  const { lifetime } = judge(headOf, responseOf({ body: JSON.stringify(block) }), bounds)
  t.strictSame(lifetime, {
    ttlMs: undefined,
    block: { height: 5n, first: 50n, last: 59n, counts: [], isSettled: true },
    lowestVersion: undefined,
    page: undefined
  })
  t.equal(
    judge(wholeOf, responseOf({ body: JSON.stringify({ ...block, ...withTransactions(10) }) }), bounds).lifetime?.block
      ?.last,
    59n
  )
  for (const version of [50, 59]) {
    t.equal(verdictOn({}, read(`/v1/blocks/by_version/${version}`)), undefined, `by version ${version}`)
  }
  t.equal(
    verdictOn({ block_height: '0', first_version: '0', last_version: '0' }, read('/v1/blocks/by_version/0'), {
      'x-aptos-ledger-oldest-version': '0'
    }),
    undefined,
    'the first block of a chain'
  )
})

t.test('a block is final once its last version is below the head, and not before', async t => {
  const at = (head: string): Record<string, string> => ({ 'x-aptos-ledger-version': head })
  t.same(['58', '59', '60'].map(head => verdictOn({}, headOf, at(head))), ['newest_block', 'newest_block', undefined])
  t.same(['59', '60'].map(head => verdictOn(withTransactions(10), wholeOf, at(head))), ['newest_block', undefined])
  t.equal(
    verdictOn({ block_height: '9' }, headOf, at('90')),
    'newest_block',
    'its height means that no block follows'
  )
  t.equal(verdictOn({}, headOf, at('54')), 'outside_window', 'the version is above this upstream\'s head')
})

t.test('a partly pruned block is stored for a version that the upstream still has', async t => {
  const from = (oldest: string): Record<string, string> => ({ 'x-aptos-ledger-oldest-version': oldest })
  t.same(['54', '55', '56'].map(oldest => verdictOn({}, headOf, from(oldest))), [
    undefined,
    undefined,
    'outside_window'
  ])
})

t.test('a block that misses the requested version by one is reported as the wrong block', async t => {
  t.same(
    [['56', '59'], ['50', '54'], ['55', '55'], ['54', '56']].map(([first, last]) =>
      verdictOn({ first_version: first, last_version: last })
    ),
    ['wrong_block', 'wrong_block', undefined, undefined]
  )
  t.equal(
    verdictOn({ last_version: '54', first_version: '50', transactions: [{}] }, wholeOf),
    'wrong_block',
    'whatever else is wrong'
  )
})

t.test('a block with transactions has as many as its range says; without, it has none', async t => {
  t.same([9, 10, 11, 0].map(count => verdictOn(withTransactions(count), wholeOf)), [
    'truncated_block',
    undefined,
    'truncated_block',
    'truncated_block'
  ])
  t.same([verdictOn({}, wholeOf), verdictOn({ transactions: undefined }, wholeOf)], [
    'truncated_block',
    'truncated_block'
  ], 'no transactions')
  t.same([verdictOn(withTransactions(10)), verdictOn(withTransactions(0)), verdictOn({ transactions: undefined })], [
    'unreadable',
    'unreadable',
    undefined
  ])
  t.equal(verdictOn({ transactions: '[]' }, wholeOf), 'unreadable')
})

t.test('a block in BCS is judged alike, with either list encoding and above 2^53', async t => {
  const high = 2n ** 63n
  const blockReadOf = (query = ''): Read => read(`/v1/blocks/by_version/${high + 1n}${query}`, 'application/x-bcs')
  const inBcs = (first: bigint, last: bigint, list: number[], head = high + 9n): UpstreamResponse => {
    const bytes = Buffer.alloc(64)
    for (const [value, offset] of [[5n, 0], [first, 48], [last, 56]] as const) bytes.writeBigUInt64LE(value, offset)
    return {
      ...responseOf({ headers: { 'content-type': 'application/x-bcs', 'x-aptos-ledger-version': String(head) } }),
      body: Buffer.concat([bytes, Buffer.from(list)])
    }
  }
  const verdict = (query: string, response: UpstreamResponse): string | undefined =>
    whyNotStored(blockReadOf(query), response, bounds)
  const whole = '?with_transactions=true'
  for (const list of [[], [0]]) {
    t.equal(verdict('', inBcs(high, high + 2n, list)), undefined, 'a bare head, or an empty option after it')
  }
  for (const list of [[3, 7, 7, 7], [1, 3, 7, 7, 7]]) {
    t.equal(verdict(whole, inBcs(high, high + 2n, list)), undefined)
    t.equal(verdict(whole, inBcs(high, high + 3n, list)), 'truncated_block')
    t.equal(verdict('', inBcs(high, high + 2n, list)), 'unreadable', 'transactions were not requested')
    t.equal(verdict(whole, inBcs(high + 2n, high + 4n, list)), 'wrong_block', 'one version off')
    t.equal(verdict(whole, inBcs(high, high + 2n, list, high + 2n)), 'newest_block')
  }
  t.equal(verdict(whole, inBcs(high, high + 2n, [])), 'truncated_block')
  t.equal(verdict('', { ...inBcs(high, high + 2n, []), body: Buffer.alloc(63) }), 'unreadable')
})
