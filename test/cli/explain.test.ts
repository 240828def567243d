import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { type Environment } from '../../src/config/load.js'
import { pinCursor } from '../../src/api/pinned-cursor.js'
import { tableItemLookup } from '../support/client.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'
import { runCommand } from './command.js'

const one = `0x${'1'.padStart(64, '0')}`
const modules = `/v1/accounts/${one}/modules`

async function explained (
  t: Test,
  argv: readonly string[],
  environment: Environment = {}
): Promise<Record<string, string | string[] | null>> {
  const { code, out, err } = await runCommand(t, ['explain', ...argv], environment)
  t.same([code, err], [0, ''])
  return parse(out) as Record<string, string | string[] | null>
}

type Row = readonly [argv: readonly string[], explanation: Readonly<Record<string, unknown>>]
const bcs = ['--accept', 'application/x-bcs']
const hash = 'aB'.repeat(32)
const view = '{"function":"0x01::a::f","type_arguments":["0x01::b::T"],"arguments":[ "1" ]}'
const sentView = '{"function":"0x1::a::f","type_arguments":["0x1::b::T"],"arguments":["1"]}'
const rendered = /refreshed when the node's release changes$/
const finalBlock = /^a block never changes.*follows$/
const neverOlder = /never older than the request; what it reads is stored/

const rows: readonly Row[] = [
  [['get', 'https://node.example/v1/blocks/by_version/5?with_transactions=false', ...bcs], {
    endpoint: 'block_by_version',
    upstream: 'GET /v1/blocks/by_version/5',
    accept: 'application/x-bcs',
    key: 'SPACE bcs blocks HEIGHT',
    class: 'immutable',
    why: finalBlock
  }],
  [['GET', '/v1/blocks/by_height/05'], {
    endpoint: 'block_by_height',
    upstream: 'GET /v1/blocks/by_height/5',
    key: 'SPACE json blocks 5',
    class: 'immutable',
    why: finalBlock
  }],
  [['GET', '/v1/accounts/1/events/0X1::a::B%3C0x01::c::D%3E/f?start=3'], {
    upstream: `GET /v1/accounts/${one}/events/0x1%3A%3Aa%3A%3AB%3C0x1%3A%3Ac%3A%3AD%3E/f?start=3&limit=25`,
    class: 'page',
    why: /stored for 3600 s/
  }],
  [['GET', '/v1/accounts/1/events/0x1::a::B/f'], { key: null, class: 'moving', why: /without a start/ }],
  [['GET', '/v1/accounts/1/events/0x1::a::B/f?start=1', ...bcs], { class: 'moving', why: /BCS/ }],
  [['GET', '/v1/info', ...bcs], {
    endpoint: 'info',
    accept: 'application/json',
    key: 'moving SPACE json /v1/info',
    class: 'moving',
    why: /1000 ms/
  }],
  ...['/v1', '/v1/'].map((path): Row => [['GET', path], {
    endpoint: 'index',
    upstream: 'GET /v1',
    key: 'moving SPACE json /v1',
    class: 'moving',
    why: /reused for 250 ms/
  }]),
  [['HEAD', modules], { upstream: `GET ${modules}`, key: null, class: 'moving', why: neverOlder }],
  [['POST', '/v1/view', '--data', view], { key: null, class: 'moving', why: neverOlder }],
  [['POST', '/v1/view?ledger_version=7', '--data', view], {
    endpoint: 'view',
    upstream: 'POST /v1/view?ledger_version=7',
    body: sentView,
    key: `SPACE json /v1/view?ledger_version=7 ${sentView}`,
    class: 'immutable',
    why: /the state at a ledger version alone.*stored until evicted$/
  }],
  [['POST', '/v1/view?ledger_version=7', '--data', '0x00aB'], {
    body: 'application/x.aptos.view_function+bcs 0x00ab',
    key: /application\/x\.aptos\.view_function\+bcs 0x00ab$/,
    class: 'immutable'
  }],
  [['POST', '/v1/tables/5eed/raw_item?ledger_version=7', '--data', '{"key":"0xAB"}', ...bcs], {
    endpoint: 'raw_table_item',
    accept: 'application/x-bcs',
    body: '{"key":"0xAB"}',
    key: /\{"key":"0xab"\}$/,
    'key of a not-found': /\{"key":"0xAB"\}$/,
    class: 'immutable'
  }],
  [['POST', '/v1/experimental/state_values/raw?ledger_version=7', '--data', '{"key":"0202ABCD"}', ...bcs], {
    endpoint: 'raw_state_value',
    body: '{"key":"0202ABCD"}',
    key: /state_values\/raw\?ledger_version=7 \{"key":"0x0202abcd"\}$/,
    'key of a not-found': /\{"key":"0202ABCD"\}$/,
    class: 'immutable'
  }],
  [[
    'POST',
    '/v1/tables/5eed/item?ledger_version=7',
    '--data',
    '{ "key": "007", "key_type": "u64", "value_type": "u64", "more": 1 }'
  ], {
    body: '{"key_type":"u64","value_type":"u64","key":"007"}',
    key: /"key":"7"\}$/,
    'key of a not-found': /"key":"007"\}$/,
    class: 'immutable'
  }],
  [['GET', '/v1/transactions/by_version/05'], {
    endpoint: 'transaction_by_version',
    upstream: 'GET /v1/transactions/by_version/5',
    class: 'immutable',
    why: /never changes: stored until evicted/
  }],
  [['GET', `/v1/transactions/by_hash/${hash}`], {
    endpoint: 'transaction_by_hash',
    upstream: `GET /v1/transactions/by_hash/0x${hash.toLowerCase()}`,
    class: 'immutable',
    why: /stored once it is committed, moving before/
  }],
  [['GET', `/v1/transactions/by_hash/${hash}`, ...bcs], { key: null, class: 'moving' }],
  [['GET', '/v1/accounts/5eed/transactions?start=05'], {
    endpoint: 'account_transactions',
    upstream: /GET \/v1\/accounts\/0x0+5eed\/transactions\?start=5&limit=25$/,
    class: 'page',
    why: /stored while the page is full and has no gap/
  }],
  [['GET', '/v1/accounts/5eed/transactions'], {
    key: null,
    class: 'moving',
    why: /without a start they are the newest/
  }],
  [['GET', '/v1/accounts/5eed/transaction_summaries?end_version=09&start_version=05'], {
    upstream: /transaction_summaries\?start_version=5&end_version=9$/,
    class: 'page',
    why: /stored while the page is full, or its range ends below the head/
  }],
  [['GET', '/v1/transactions/auxiliary_info?start_version=05'], {
    upstream: 'GET /v1/transactions/auxiliary_info?start_version=5&limit=25',
    class: 'page'
  }],
  [['GET', '/v1/transactions?start=05&limit=7'], {
    endpoint: 'transactions',
    upstream: 'GET /v1/transactions?start=5&limit=7',
    class: 'page',
    why: /moving where it ends with the ledger/
  }],
  [['GET', '/v1/transactions?limit=5'], { key: null, class: 'moving', why: /without a start they are the newest/ }],
  [['GET', '/v1/transactions?start=5', ...bcs], {
    key: null,
    class: 'moving',
    why: /in BCS the transactions cannot be identified/
  }],
  ...Object.entries({
    '': 'account',
    '/resources': 'account_resources',
    '/resource/0x1::a::B': 'account_resource',
    '/balance/0x1::a::B': 'account_balance',
    '/balance/0xa': 'account_balance',
    '/module/a': 'account_module'
  }).map(([path, endpoint]): Row => [
    ['GET', `/v1/accounts/1${path}?ledger_version=7`],
    { endpoint, class: 'immutable', why: rendered }
  ])
]

t.test('explain prints endpoint, canonical upstream request, both keys, class and reason', async t => {
  t.same(await explained(t, ['GET', '/v1/accounts/0001/modules?limit=05&x=y&ledger_version=%2B7']), {
    endpoint: 'account_modules',
    upstream: `GET ${modules}?ledger_version=7&limit=5`,
    accept: 'application/json',
    key: `SPACE json ${modules}?ledger_version=7&limit=5`,
    class: 'immutable',
    why: 'the state at a ledger version never changes: stored until evicted; its JSON is rendered by the ' +
      'node, so it is refreshed when the node\'s release changes',
    'depends on': [`all modules of ${one}`]
  })
  for (const [argv, explanation] of rows) t.match(await explained(t, argv), explanation, argv.join(' '))
})

t.test('explain prints rejected and forwarded requests with status and reason, and ends with 0', async t => {
  for (
    const [argv, why] of [
      [['GET', '/v1/accounts/0X1/modules'], /^400 invalid_input: failed to parse path `address`$/],
      [['POST', modules], /^405 web_framework_error/],
      [['POST', '/v1/tables/0x1/item', '--data', '{"a":1,"a":1}'], /^400 invalid_input/],
      [['POST', '/v1/view', '--data', '{}'], /^400 invalid_input/],
      [['GET', '/v1/view'], /^405 web_framework_error/],
      [['GET', '/v1/transactions/by_hash/0x1'], /^400 invalid_input: failed to parse path `txn_hash`$/],
      [['POST', '/v1/tables/0x1/item', '--data', 'x'.repeat(2_000_000)], /^413/],
      [['GET', '/v2'], /^404 web_framework_error/],
      [['POST', '/v1/transactions', '--data', '{}'], /^404/],
      [['GET', '/v1/a/../b'], /^400/],
      [['TRACE', '/v1'], /^405/]
    ] as const
  ) t.match(await explained(t, argv), { upstream: null, key: null, class: 'refused', why }, argv.join(' ').slice(0, 60))
  t.match(await explained(t, ['GET', 'http://h/v1/-/healthy?b=2&a=1', '--accept', 'x/y']), {
    endpoint: 'other',
    upstream: 'GET /v1/-/healthy?b=2&a=1',
    accept: 'x/y',
    key: null,
    class: 'pass-through'
  })
  const all = join(t.testdir({ 'v.yaml': 'passThrough: all' }), 'v.yaml')
  t.match(await explained(t, ['POST', '/v1/transactions/simulate', '--data', '{}', '--config', all]), {
    upstream: 'POST /v1/transactions/simulate',
    body: '{}',
    class: 'pass-through'
  })
})

t.test('explain prints a pinned cursor as the read at its version', async t => {
  const explanation = await explained(t, ['GET', `${modules}?start=${pinCursor(500n, '00ab')}&limit=1`])
  t.same(explanation, await explained(t, ['GET', `${modules}?ledger_version=500&start=00ab&limit=1`]))
  t.match(explanation, { class: 'immutable', upstream: /ledger_version=500&start=00ab&limit=1$/ })
})

t.test('explain applies the given configuration', async t => {
  const config = join(
    t.testdir({
      'v.yaml': 'chainId: 4\npassThrough: none\npages: { eventsTtlSeconds: 5 }\nlatest: { stateMs: ' +
        '50, infoMs: 0, indexMs: 40, promote: false }\nlimits: { bodyKb: 1 }'
    }),
    'v.yaml'
  )
  const configured: ReadonlyArray<readonly [target: string, explanation: object]> = [
    ['/v1/-/healthy', { class: 'refused', why: /^404/ }],
    ['/v1/accounts/0x1', { endpoint: 'account', class: 'moving' }],
    ['/v1', { key: /^moving SPACE/, why: 'moving: a response is reused for 40 ms' }],
    ['/v1/accounts/1/events/0x1::a::B/f?start=3', {
      why: /stored for 5 s/,
      key: `SPACE json /v1/accounts/${one}/events/0x1%3A%3Aa%3A%3AB/f?start=3&limit=25`,
      class: 'page'
    }],
    ['/v1/accounts/1/events/07?start=3', {
      endpoint: 'events_by_creation_number',
      key: `SPACE json /v1/accounts/${one}/events/7?start=3&limit=25`,
      class: 'page'
    }],
    ['/v1/info', { key: null }]
  ]
  for (const [target, explanation] of configured) {
    t.match(await explained(t, ['GET', target, '--config', config]), explanation, target)
  }
  t.match(await explained(t, ['GET', modules], { VARVE_CONFIG: config }), {
    key: /^moving SPACE/,
    why: 'moving: a response is reused for 50 ms'
  })
  t.match(await runCommand(t, ['explain', 'GET', '/v1/info', '--config', '/nowhere.yaml']), { code: 2, out: '' })
})

t.test('explain lists every key that a followed response depends on, and none for other reads', async t => {
  const dependsOn = async (...argv: string[]): Promise<unknown> => (await explained(t, argv))['depends on']
  const features = `resource 0x1::features::Features at ${one}`
  t.same(await dependsOn('GET', '/v1/accounts/0x01'), [`resource 0x1::account::Account at ${one}`, features])
  t.same(await dependsOn('GET', `${modules}?ledger_version=7`), [`all modules of ${one}`])
  t.same(await dependsOn('GET', '/v1/accounts/1/module/coin'), [`module ${one}::coin`])
  const item = { key_type: 'u64', value_type: 'u64', key: '7' }
  const table = ['POST', `/v1/tables/${one}/item`, '--data']
  t.same(await dependsOn(...table, JSON.stringify(item)), [`item 0x0700000000000000 of table ${one}`])
  t.same(await dependsOn(...table, JSON.stringify({ ...item, key_type: '0x1::a::B', key: {} }), ...bcs), [
    `all items of ${one}`
  ])
  t.same((await dependsOn('GET', '/v1/accounts/1/resource/0x1::a::B') as string[]).slice(0, 3), [
    `resource 0x1::a::B at ${one}`,
    `all groups of ${one}`,
    `module ${one}::a`
  ])
  t.equal(await dependsOn('POST', '/v1/view', '--data', view), undefined)
  for (const path of ['/v1/info', '/v1/blocks/by_height/5', '/v1/transactions/by_version/5', '/v1/unknown']) {
    t.equal(await dependsOn('GET', path), undefined, path)
  }
})

t.test('explain says at which head a latest read is served while the ledger is followed', async t => {
  const config = join(t.testdir({ 'v.yaml': 'follow: { mode: on, maxAgeMs: 400 }' }), 'v.yaml')
  const why = async (...argv: string[]): Promise<unknown> => (await explained(t, [...argv, '--config', config]))['why']
  t.match(await why('GET', modules), /served at the followed head, at most 400 ms before the request; fetched there if/)
  t.match(await why('POST', '/v1/view', '--data', view), /^moving: fetched once at the followed head, at most 400 ms/)
  t.match(await why('GET', '/v1/info'), /reused for 1000 ms/)
  const observing = join(t.testdir({ 'v.yaml': 'follow: { mode: observe }' }), 'v.yaml')
  t.match(await explained(t, ['GET', modules, '--config', observing]), { why: /fetched each time/ })
})

t.test('varve handles a request as explain says: same upstream request, same class', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    request.resume().on('end', () => respondOk(response, '[]'))
  })
  const varve = await varveAt(t, stub.url, { latest: { infoMs: 0 } })
  const table = tableItemLookup('u64', '"07"')
  for (
    const [target, how] of [
      [`${modules}?ledger_version=0500`, {}],
      ['/v1/accounts/1/modules', {}],
      ['/v1/tables/0xAB/item?ledger_version=500', table],
      ['/v1/accounts/0x1?x=%20', {}],
      ['/v1/-/healthy?x=%20', {}],
      ['/v1/accounts/1/resource/0x01::a::B?ledger_version=0500', {}],
      ['/v1/info?x', {}],
      ['/v1/accounts/0X1/modules', {}]
    ] as const
  ) {
    const explanation = await explained(t, [
      how === table ? 'POST' : 'GET',
      target,
      ...(how === table ? ['--data', String(table.body)] : [])
    ])
    const before = stub.requests.length
    const first = await varve.get(target, how)
    t.same(stub.requests.slice(before), explanation['upstream'] === null ? [] : [explanation['upstream']], target)
    t.equal(
      String((await varve.get(target, how)).headers['cache-status']).includes('hit'),
      explanation['class'] === 'immutable',
      target
    )
    t.equal(first.status === 400, explanation['class'] === 'refused')
  }
})

t.test('too few or too many arguments of explain end with 2 and a hint to its help', async t => {
  for (const argv of [[], ['GET'], ['GET', '/v1', '/v2'], ['GET', '/v1', '--colour', 'red']]) {
    t.match(
      await runCommand(t, ['explain', ...argv]),
      { code: 2, out: '', err: /see varve explain --help\n$/ },
      argv.join(' ')
    )
  }
  t.match(await runCommand(t, ['explain', '--help']), { code: 0, out: /varve explain METHOD PATH/ })
})
