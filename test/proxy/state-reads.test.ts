import t from 'tap'
import { type TestRequest, type TestResponse, sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import { untilWritten } from '../support/replicas.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'

const bypass = 'varve; fwd=bypass'
const version_ = 'x-node-ledger-version'
const coins = '0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E'
const post = (body: string | Buffer, type = 'application/json'): TestRequest => ({
  method: 'POST',
  headers: { 'content-type': type },
  body
})
const inBcs = (options: TestRequest): TestRequest => ({
  ...options,
  headers: { ...options.headers, accept: 'application/x-bcs' }
})

// The same call in JSON and in BCS: address, module, function, no types, no arguments.
const height = '{"function":"0x1::block::get_current_block_height","type_arguments":[],"arguments":[]}'
const named = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)])
const heightInBcs = Buffer.concat([
  Buffer.from('1'.padStart(64, '0'), 'hex'),
  named('block'),
  named('get_current_block_height'),
  Buffer.from([0, 0])
])
const viewBcs = 'application/x.aptos.view_function+bcs'

/** A read of state, in two variants; a view is a POST of each text. */
interface StateRead {
  readonly name: string
  readonly path: string
  readonly options: TestRequest
  readonly other: readonly [path: string, how: TestRequest]
  readonly status: number
}

const get = (name: string, path: string, other: string, status = 200): StateRead => ({
  name,
  path: `/v1/accounts/${path}`,
  options: {},
  other: [`/v1/accounts/${other}`, {}],
  status
})
const call = (one: TestRequest, other: TestRequest): StateRead => ({
  name: 'view',
  path: '/v1/view',
  options: one,
  other: ['/v1/view', other],
  status: 200
})
const spacedCoins = coins.replaceAll('0x1', '%200X01').replaceAll('::', '%20::')

const reads: readonly StateRead[] = [
  get('account', '0xcafe', '00CAFE'),
  get('account_resources', '0xcafe/resources', 'cafe/resources'),
  get('account_resource', `0xcafe/resource/${coins}`, `0x0cafe/resource/${spacedCoins}`),
  get('account_resource', '0xcafe/resource/0x1::none::None', '0xcafe/resource/0x1::none%20::None', 404),
  get('account_balance', '0xcafe/balance/0x1::aptos_coin::AptosCoin', 'cafe/balance/0x01::aptos_coin::AptosCoin'),
  get('account_module', '0x1/module/coin', '0001/module/%63oin'),
  get('account_module', '0x1/module/none', '1/module/none', 404),
  call(post(height), post(height.replaceAll(',', ' , ').replace('0x1', '0x0001'))),
  call(post(heightInBcs, viewBcs), post(heightInBcs, viewBcs.toUpperCase()))
]

const at = (path: string, version: bigint | string): string => `${path}?ledger_version=${version}`
const gas = ({ headers }: TestResponse): unknown[] => [headers['x-aptos-gas-used'], headers['x-node-gas-used']]

t.test('each state at a version is read once per form, and served to every variant byte for byte', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const version = sandbox.ledger.head.version - 3000n
  for (const { name, path, options, other: [otherPath, otherHow], status: expected } of reads) {
    for (const form of [(options: TestRequest) => options, inBcs]) {
      const what = `${path} ${JSON.stringify(form(options))}`
      const direct = await sendRequest(sandbox.url, at(path, version), form(options))
      t.equal(direct.status, expected, what)
      t.match((await varve.get(at(path, version), form(options))).headers, {
        [cacheStatusHeader]: storedMissStatus.replace('200', String(expected))
      }, what)
      sandbox.ledger.grow()
      await varve.get('/v1/accounts/0x42/modules')
      sandbox.requests.reset()
      const hit = await varve.get(at(otherPath, `0${version}`), form(otherHow))
      t.equal(sandbox.requests.countFor(name as 'view'), 0, what)
      t.match(hit, {
        status: expected,
        headers: {
          [cacheStatusHeader]: memoryHitStatus,
          'content-type': direct.headers['content-type'],
          [version_]: String(sandbox.ledger.head.version)
        }
      }, what)
      t.ok(hit.bytes.equals(direct.bytes), what)
      if (name === 'view') {
        t.same(
          gas(hit),
          [direct.headers['x-aptos-gas-used'], direct.headers['x-aptos-gas-used']],
          'the gas belongs to the response'
        )
      }
    }
  }
})

t.test('each latest state is fetched each time, and stored at its version', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  for (const { path, options, status: expected } of reads) {
    const latest = await varve.get(path, options)
    t.match(latest, {
      status: expected,
      headers: {
        [cacheStatusHeader]: bypass,
        [version_]: String(sandbox.ledger.head.version),
        'cache-control': 'no-store'
      }
    }, path)
    const again = await varve.get(at(path, sandbox.ledger.head.version), options)
    t.match(again, { status: expected, body: latest.body, headers: { [cacheStatusHeader]: memoryHitStatus } }, path)
    sandbox.ledger.grow()
    t.match(
      (await varve.get(path, options)).headers,
      { [cacheStatusHeader]: bypass, [version_]: String(sandbox.ledger.head.version) },
      path
    )
  }
})

t.test('views whose arguments differ in any letter are different reads', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, `[${stub.requests.length}]`)
  })
  const varve = await varveAt(t, stub.url)
  for (const [argument, body] of [['a', '[1]'], ['A', '[2]'], ['a ', '[3]'], ['a', '[1]']] as const) {
    const view = post(height.replace('[]}', `["${argument}"]}`))
    t.equal((await varve.get('/v1/view?ledger_version=500', view)).body, body, argument)
  }
})

t.test('under immutable caching a view is cacheable for a day only, since a release computes it', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { downstream: { cacheControl: 'immutable' } })
  const version = sandbox.ledger.head.version - 3000n
  t.match((await varve.get(at('/v1/view', version), post(height))).headers, {
    'cache-control': 'public, max-age=86400'
  })
  t.match(
    (await varve.get(at('/v1/tables/0x5eed/raw_item', version), inBcs(post('{"key":"0x0700000000000000"}')))).headers,
    { 'cache-control': 'public, max-age=31536000, immutable' }
  )
})

t.test('a state value is shared by all variants of its key, and its not-found by equal text only', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const value = (key: string): TestRequest => inBcs(post(JSON.stringify({ key })))
  const target = at('/v1/experimental/state_values/raw', sandbox.ledger.head.version - 3000n)
  const key = `01${'5eed'.padStart(64, '0')}080700000000000000`
  const first = await varve.get(target, value(key))
  t.match(first, {
    status: 200,
    headers: { [cacheStatusHeader]: storedMissStatus, 'content-type': 'application/x-bcs' }
  })
  const item = await varve.get(
    target.replace('experimental/state_values/raw', 'tables/0x5eed/raw_item'),
    value('0700000000000000')
  )
  t.ok(first.bytes.includes(item.bytes) && first.bytes.length > item.bytes.length, 'the value and its metadata')
  const hit = await varve.get(target, value(`0x${key.toUpperCase()}`))
  t.match(hit.headers, { [cacheStatusHeader]: memoryHitStatus })
  t.ok(hit.bytes.equals(first.bytes))
  for (
    const [sent, status] of [['0202abcd', storedMissStatus.replace('200', '404')], ['0202abcd', memoryHitStatus], [
      '0x0202abcd',
      storedMissStatus.replace('200', '404')
    ]] as const
  ) {
    t.match(await varve.get(target, value(sent)), {
      status: 404,
      body: /Raw State Value not found by StateKey\(0x0202abcd\) and Ledger version/,
      headers: { [cacheStatusHeader]: status }
    })
  }
  t.match(await varve.get(target, post('{"key":"0202abcd"}')), { status: 403, body: /api_disabled/ })
})

t.test('a raw table item is shared by all variants of its key, a not-found by equal text only', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const version = sandbox.ledger.head.version - 3000n
  const raw = (key: string): TestRequest => inBcs(post(JSON.stringify({ key })))
  const target = at('/v1/tables/0x5eed/raw_item', version)
  let there = ''
  let missing = ''
  for (let nth = 0; nth < 128 && (there === '' || missing === ''); nth++) {
    const key = `${nth.toString(16).padStart(2, '0')}00000000000000`
    const { status } = await sendRequest(sandbox.url, target, raw(`0x${key}`))
    if (status === 200) there = key
    else missing = key
  }
  const value = await varve.get(target, raw(`0x${there}`))
  t.match(value, {
    status: 200,
    headers: { [cacheStatusHeader]: storedMissStatus, 'content-type': 'application/x-bcs' }
  })
  for (const spelled of [there, `0x${there.toUpperCase()}`]) {
    const hit = await varve.get(target, raw(spelled))
    t.match(hit.headers, { [cacheStatusHeader]: memoryHitStatus })
    t.ok(hit.bytes.equals(value.bytes))
  }
  for (const spelled of [`0x${missing}`, missing]) {
    t.match(
      await varve.get(target, raw(spelled)),
      { status: 404, headers: { [cacheStatusHeader]: storedMissStatus.replace('200', '404') } },
      spelled
    )
    t.match((await varve.get(target, raw(spelled))).body, (await sendRequest(sandbox.url, target, raw(spelled))).body)
  }
  t.match(
    await varve.get(target, post(`{"key":"0x${there}"}`)),
    { status: 403, body: /api_disabled/ },
    'upstreams have it in BCS only'
  )
})

t.test('replicas share states through Redis, and a purge by request removes each everywhere', async t => {
  const redis = await startRedis(t)
  const shared = { cache: { redis: { url: redis.url } }, admin: { listen: '127.0.0.1:0', token: 't' } }
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, shared)
  const b = await varveAt(t, sandbox.url, shared)
  const version = sandbox.ledger.head.version - 3000n
  for (const [nth, { path, options, status: expected }] of reads.entries()) {
    const first = await a.get(at(path, version), options)
    await untilWritten(a, nth * 2 + 1)
    const second = await b.get(at(path, version), options)
    t.match(second, { status: expected, headers: { [cacheStatusHeader]: redisHitStatus } }, path)
    t.ok(second.bytes.equals(first.bytes))
    t.same(gas(second), gas(first))
    const body = Buffer.isBuffer(options.body) ? `${viewBcs} 0x${options.body.toString('hex')}` : options.body
    const purge = JSON.stringify({ method: options.method ?? 'GET', url: at(path, version), body })
    t.match(
      await sendRequest(a.adminUrl, '/purge', { method: 'POST', headers: { authorization: 'Bearer t' }, body: purge }),
      {
        status: 200
      },
      purge
    )
    t.match((await a.get(at(path, version), options)).headers, {
      [cacheStatusHeader]: storedMissStatus.replace('200', String(expected))
    }, path)
    await untilWritten(a, nth * 2 + 2)
  }
})

t.test('an aborted view and an unknown account are fetched each time', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const version = sandbox.ledger.head.version - 3000n
  for (
    const options of [
      post(height.replace('get_current_block_height', 'none')),
      post('{"function":"0x1::none::f","type_arguments":[],"arguments":[]}')
    ]
  ) {
    for (let nth = 1; nth <= 2; nth++) {
      t.match(await varve.get(at('/v1/view', version), options), {
        status: 400,
        body: /invalid_input/,
        headers: { [cacheStatusHeader]: 'varve; fwd=uri-miss; fwd-status=400; detail=status' }
      })
    }
  }
  t.match(await varve.get(at('/v1/accounts/0x1', 1n)), { status: 410, body: /version_pruned/ })
  t.match(await varve.get(at('/v1/accounts/0x1', sandbox.ledger.head.version + 1000n)), {
    status: 404,
    body: /version_not_found/
  })
})

t.test('a not-found of an old release is fetched again in BCS as in JSON', async t => {
  let release = 'aaaa'
  const upstream = await startStubUpstream(t, (request, response) => {
    if (release === 'bbbb') return respondOk(response, '{}', { 'content-type': String(request.headers.accept) })
    response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
      '{"message":"not there","error_code":"resource_not_found","vm_error_code":null}'
    )
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end(`{"git_hash":"${release}"}`)
  })
  const varve = await varveAt(t, upstream.url, { head: { pollMs: 100 } })
  const target = '/v1/accounts/0x1/resource/0x1::coin::CoinStore%3C0x1::a::B%3E?ledger_version=900'
  const forms = ['application/json', 'application/x-bcs'].map(accept => ({ headers: { accept } }))
  for (const form of forms) t.equal((await varve.get(target, form)).status, 404)
  release = 'bbbb'
  await until(async () => (await varve.get(target, forms[0])).status === 200, 'in JSON')
  t.equal((await varve.get(target, forms[1])).status, 200, 'in BCS')
})
