import { Agent } from 'node:http'
import { createRequire } from 'node:module'
import t from 'tap'
import { sendRequest, tableItemLookup } from '../support/client.js'
import { openDeaf, openRaw, sendRaw, statusesIn } from '../support/raw.js'
import {
  respondOk,
  startEmptyUpstream,
  startGatedUpstream,
  startHeldUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const table = '/v1/tables/0xab/item?ledger_version=500'
const shape = /^\{"message":".+","error_code":"[a-z_]+","vm_error_code":null\}$/

t.test('an error by varve has the full node\'s format and a code of its specification, and counts', async t => {
  const stub = await startEmptyUpstream(t)
  const varve = await varveAt(t, stub.url, { limits: { bodyKb: 1 } })
  const cases: [string, Parameters<typeof varve.get>[1], number, string][] = [
    ['/v1/accounts/0X1/modules', {}, 400, 'invalid_input'],
    ['/v1/accounts/%c0%af/modules', {}, 400, 'invalid_input'],
    ['/v1/accounts/%/modules', {}, 400, 'invalid_input'],
    [`${modules}&ledger_version=500`, {}, 400, 'invalid_input'],
    [table, { ...tableItemLookup('u64', '{"a":1,"a":2}') }, 400, 'invalid_input'],
    [table, { body: '{}', headers: { 'content-type': 'text/plain' } }, 415, 'web_framework_error'],
    [table, { body: '{}', headers: {} }, 415, 'web_framework_error'],
    [table, { body: '{}', headers: { 'content-type': 'not a type' } }, 415, 'web_framework_error'],
    [
      table,
      { ...tableItemLookup('u64', '"1"'), headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' } },
      415,
      'web_framework_error'
    ],
    [table, tableItemLookup('0x1::string::String', JSON.stringify('x'.repeat(2000))), 413, 'web_framework_error'],
    [modules, { method: 'POST', body: '' }, 405, 'web_framework_error'],
    [modules, { method: 'DELETE' }, 405, 'web_framework_error'],
    [modules, { method: 'PROPFIND' }, 405, 'web_framework_error'],
    ['/v1/nowhere', { method: 'DELETE' }, 405, 'web_framework_error'],
    ['/v1nowhere', {}, 404, 'web_framework_error'],
    ['/v2/info', { method: 'POST', body: 'x' }, 404, 'web_framework_error'],
    ['/', {}, 404, 'web_framework_error']
  ]
  for (const [target, options, status, code] of cases) {
    const got = await varve.get(target, options)
    t.match(got, {
      status,
      body: shape,
      headers: {
        'cache-status': 'varve; detail=rejected',
        'content-type': 'application/json',
        'cache-control': 'no-store'
      }
    }, `${options?.method ?? ''} ${target}`)
    t.equal(JSON.parse(got.body).error_code, code)
  }
  t.equal(stub.requests.length, 0, 'none of it reached the upstream')
  t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="rejected",status="405"}'), 3)
  t.equal(await varve.metric('varve_requests_total{endpoint="table_item",outcome="rejected",status="415"}'), 4)
  t.equal(await varve.metric('varve_requests_total{endpoint="table_item",outcome="rejected",status="413"}'), 1)
  for (const target of ['/v1/accounts/0X1/modules', '/v1/accounts/%/modules']) {
    t.match(
      (await varve.get(target)).headers,
      { 'x-node-ledger-version': '1000', vary: /Accept/ },
      'a known read carries the position even if rejected'
    )
  }
  t.equal((await varve.get('/v2/nowhere')).headers['x-node-ledger-version'], undefined)
})

t.test('bytes that are no HTTP request are rejected, and the connection is closed', async t => {
  const stub = await startEmptyUpstream(t)
  const varve = await varveAt(t, stub.url)
  const bad: [string, number][] = [
    ['get /v1/info HTTP/1.1\r\nHost: x\r\n\r\n', 400],
    ['GET /v1/info HTTP/1.1\nHost: x\n\n', 400],
    ['GET /v1/info HTTP/1.1\r\n\r\n', 400],
    ['GET /v1/info HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 400],
    [`GET /v1/info HTTP/1.1\r\nHost: x\r\nX-Big: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['CONNECT 127.0.0.1:6379 HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\n', 405]
  ]
  for (const [bytes, status] of bad) {
    const text = await sendRaw(varve.url, bytes)
    t.same(statusesIn(text), [status], bytes.slice(0, 60))
    t.match(text.split('\r\n\r\n')[1], shape)
  }
  t.equal(
    await varve.metric('varve_requests_total{endpoint="other",outcome="rejected",status="431"}'),
    1,
    'it is counted'
  )
  t.equal(stub.requests.length, 0)
})

t.test('a request with more headers than are read is rejected, rather than dropping some silently', async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url)
  for (let round = 0; round < 3; round++) await varve.get(modules)
  const statusesOf = async (lines: number, last: string): Promise<number[]> =>
    statusesIn(
      await sendRaw(
        varve.url,
        `GET ${modules} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${'a:\r\n'.repeat(lines - 3)}${last}\r\n\r\n`
      )
    )
  t.same(await statusesOf(1000, 'Content-Encoding: gzip'), [415], 'the thousandth header is read')
  t.same(await statusesOf(1001, 'Content-Encoding: gzip'), [431], 'the next one is not')
  t.same(await statusesOf(1001, 'b:'), [431], 'whatever it contains, for a hit too')
  t.same(await statusesOf(1000, 'b:'), [200])
})

t.test('an HTTP/1.0 client without a Host is served, and its connection closed', async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url)
  t.match(await sendRaw(varve.url, `GET ${modules} HTTP/1.0\r\n\r\n`), /^HTTP\/1\.1 200 OK[^]*\[\]$/)
})

t.test('bytes after an invalid request are not even read while a response is pending', async t => {
  const warnings: string[] = []
  const warn = (warning: Error): unknown => warnings.push(warning.message)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  const stub = await startHeldUpstream(t)
  const { next } = stub
  const varve = await varveAt(t, stub.url)
  const client = openRaw(t, varve.url, `GET ${modules} HTTP/1.1\r\nHost: x\r\n\r\n\0\0`)
  client.socket.setNoDelay(true)
  await until(() => stub.requests.length === 1, 'the fetch has started')
  for (let nth = 0; nth < 40; nth++) {
    await new Promise(resolve => client.socket.write('x', resolve))
    await varve.get('/v2/nowhere')
  }
  respondOk(await next(), '["due"]')
  await client.closed
  t.same(statusesIn(client.text), [200, 400], 'the pending response, and no error in its place')
  t.match(client.text, /\["due"\]HTTP\/1\.1 400 /)
  t.same(warnings, [])
})

t.test('a client that disconnects within its body counts as rejected', async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url)
  const socket = await openDeaf(
    t,
    varve.url,
    `POST ${table} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n{`
  )
  await varve.get(modules)
  socket.destroy()
  const series = 'varve_requests_total{endpoint="table_item",outcome="rejected",status="400"}'
  await t.resolves(until(async () => await varve.metric(series) === 1, 'the request is counted'))
})

t.test('a method that an endpoint lacks is rejected with the list of its methods', async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url)
  t.match(await varve.get(modules, { method: 'PUT' }), { status: 405, headers: { allow: 'GET, HEAD' } })
  t.match(await varve.get(table), { status: 405, headers: { allow: 'POST' } })
})

t.test('nothing that a client sends reaches the upstream unless it is in the cache key', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { 'set-cookie': 'a=b', 'access-control-allow-origin': 'https://evil.example' })
  })
  const varve = await varveAt(t, stub.url)
  const sneaky = {
    cookie: 'session=1',
    authorization: 'Bearer mine',
    origin: 'https://evil.example',
    'x-forwarded-for': '6.6.6.6',
    range: 'bytes=0-0',
    'if-none-match': '"x"',
    'cache-control': 'no-cache',
    'proxy-authorization': 'x',
    connection: 'close, x-node-chain-id',
    'x-evil': '1',
    'accept-encoding': 'br',
    te: 'trailers'
  }
  const got = await varve.get(`http://evil.example${modules}&evil=1`, { headers: sneaky })
  t.match(got, { status: 200, headers: { 'x-node-chain-id': '4', 'set-cookie': undefined } })
  t.equal(
    (await varve.get(modules)).headers['access-control-allow-origin'],
    undefined,
    'the upstream\'s CORS headers are not forwarded'
  )
  t.notMatch(
    [...stub.requests, ...stub.rawHeaders.flat()].join('\n'),
    /evil|session|mine|6\.6\.6\.6|bytes|no-cache|x-forwarded|proxy-|trailers/i
  )
  t.match(await varve.get(modules, { headers: { 'cache-control': 'no-cache', pragma: 'no-cache' } }), {
    headers: { 'cache-status': /hit/ }
  }, 'a client cannot bypass the cache')
  t.match(await varve.get(modules, { headers: { range: 'bytes=0-0' } }), { status: 200, body: '[]' })
  t.match(await varve.get(modules, { headers: { 'x-meta': 'caf\u00e9', 'keep-alive': 'timeout=5' } }), { status: 200 })
})

t.test('a drain loses no request: it finishes, still answers new ones, then closes connections', async t => {
  const stub = await startGatedUpstream(t, /500/)
  const varve = await varveAt(t, stub.url)
  const slow = varve.get(modules)
  await until(() => stub.requests.length > 0, 'a read waits for the upstream')
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  await Promise.all(Array.from({ length: 4 }, async () => await sendRequest(varve.url, '/v1/info', { agent })))
  const stopping = varve.stop({ drainMs: 1000 })
  t.match(
    await sendRequest(varve.adminUrl, '/readyz'),
    { status: 503, body: /draining/ },
    'it is no longer ready'
  )
  // Uses four idle connections again while varve drains.
  const duringDrain = await Promise.all(
    Array.from({ length: 40 }, async () => await sendRequest(varve.url, '/v1/info', { agent }))
  )
  t.ok(duringDrain.every(({ status, headers }) => status === 200 && headers.connection === 'close'))
  t.match(await sendRequest(varve.url, '/-/healthz', { agent }), { status: 503, body: '{"status":"draining"}' })
  stub.release()
  t.match(await slow, { status: 200, body: '[]' })
  await stopping
  await t.rejects(varve.get('/v1/info'), { code: 'ECONNREFUSED' })
  agent.destroy()
})

t.test('a drain ends in time although an upstream hangs, and waiting clients get an error', async t => {
  const stub = await startHeldUpstream(t)
  const { next } = stub
  const varve = await varveAt(t, stub.url, { upstream: { timeoutMs: 60_000 } })
  const pending = [modules, modules, '/v1/accounts/0x1/modules'].map(async target => await varve.get(target))
  await next()
  const [responses] = await Promise.all([Promise.all(pending), varve.stop({ drainMs: 20, graceMs: 50 })])
  t.same(responses.map(({ status }) => status), [503, 503, 503])
})

t.test('access logs are written only if configured, and never contain credentials', async t => {
  const stub = await startEmptyUpstream(t)
  const varve = await varveAt(t, stub.url, { log: { access: true } })
  await varve.get(modules, { headers: { authorization: 'Bearer mine' } })
  const line = varve.log.find(({ msg }) => msg === 'request completed')
  t.match(line, { method: 'GET', url: modules, endpoint: 'account_modules', outcome: 'miss', status: 200 })
  t.notMatch(JSON.stringify(varve.log), /mine/)
  const quiet = await varveAt(t, stub.url)
  await quiet.get(modules)
  t.notOk(quiet.log.some(({ msg }) => msg === 'request completed'))
})

t.test('the duration of a request includes its upstream fetch', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    setTimeout(() => respondOk(response, '[]'), 120)
  })
  const varve = await varveAt(t, stub.url, { log: { access: true } })
  await varve.get(modules)
  await varve.get('/v1/spec.json')
  for (const series of ['{endpoint="account_modules",outcome="miss"}', '{endpoint="other",outcome="forwarded"}']) {
    const seconds = await varve.metric(`varve_request_duration_seconds_sum${series}`) ?? 0
    t.ok(seconds > 0.1 && seconds < 5, `${series} ${seconds}`)
  }
  t.ok(varve.log.filter(({ msg }) => msg === 'request completed').every(({ tookMs }) => Number(tookMs) > 100))
})

t.test('neither listener loads compilers of schemas, which would delay each start', async t => {
  const varve = await varveAt(t, 'http://127.0.0.1:1')
  t.equal((await varve.get('/-/healthz')).status, 200)
  const loaded = Object.keys(createRequire(import.meta.url).cache)
  t.ok(loaded.some(file => file.includes('/fastify/lib/')))
  t.notOk(loaded.some(file => /ajv-compiler|json-stringify-compiler/.test(file)))
})
