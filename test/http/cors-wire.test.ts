import t, { type Test } from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { type TestRequest, type TestResponse, tableItemLookup } from '../support/client.js'
import { sendRaw, statusesIn } from '../support/raw.js'
import { stamps, startEmptyUpstream, startGatedUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const explorer = 'https://explorer.example'
const modules = '/v1/accounts/0x1/modules?ledger_version=2000'
const latest = '/v1/accounts/0x1/modules'
const stream = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const table = '/v1/tables/0x5eed/item?ledger_version=2000'
const stubbed = '/v1/accounts/0x1/modules?ledger_version=500'
const shape = /^\{"message":".+","error_code":"web_framework_error","vm_error_code":null\}$/

const from = (origin: string, options: TestRequest = {}): TestRequest => ({
  ...options,
  headers: { ...options.headers, origin }
})
const corsNames = ({ headers }: TestResponse): string[] =>
  Object.keys(headers).filter(name => name.startsWith('access-control-'))
const varies = ({ headers }: TestResponse): string[] =>
  (headers.vary ?? '').split(',').map(name => name.trim().toLowerCase()).filter(name => name !== '')

function preflightFrom (origin: string, method: string, names?: string): TestRequest {
  return {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      ...(names !== undefined && { 'access-control-request-headers': names })
    }
  }
}

/** Checks that a response lets a page of an origin read it. */
function letsRead (t: Test, got: TestResponse, origin: string, name: string): void {
  t.same(corsNames(got), [
    'access-control-allow-origin',
    'access-control-allow-credentials',
    'access-control-expose-headers'
  ], name)
  t.match(got.headers, { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' }, name)
  t.ok(varies(got).includes('origin'), name)
  t.equal(got.rawNames.filter(each => each.toLowerCase() === 'access-control-allow-origin').length, 1, name)
  // Headers that a page may read by default (Fetch, section 3.3.3) or has no use for.
  const seen = new Set([
    'cache-control',
    'content-language',
    'content-length',
    'content-type',
    'expires',
    'last-modified',
    'pragma',
    'vary',
    'date',
    'connection',
    'keep-alive',
    'transfer-encoding',
    'content-encoding',
    'allow',
    ...corsNames(got),
    ...String(got.headers['access-control-expose-headers']).split(', ')
  ])
  t.same(Object.keys(got.headers).filter(each => !seen.has(each)), [], `${name}: a page can read every header`)
}

/** Checks that pages can read a response, and that every response varies by Origin, in one header. */
async function isReadable (
  t: Test,
  varve: TestVarve,
  target: string,
  options: TestRequest,
  code: number
): Promise<TestResponse> {
  const name = `${options.method ?? ''} ${target} ${code}`
  const got = await varve.get(target, from(explorer, options))
  t.equal(got.status, code, name)
  letsRead(t, got, explorer, name)
  const without = await varve.get(target, options)
  t.same([without.status, corsNames(without)], [code, []], `${name} without an Origin`)
  for (const { headers, rawNames } of [got, without]) {
    t.equal(headers.vary, got.headers.vary, `${name}: the same with and without an Origin`)
    t.equal(rawNames.filter(each => each.toLowerCase() === 'vary').length, 1, `${name}: in one header`)
  }
  t.equal(varies(without).filter(each => each === 'origin').length, 1, name)
  return got
}

t.test('every response varies by Origin, and a page of another origin can read it', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { limits: { bodyKb: 1 }, latest: { infoMs: 3_600_000 } })
  const cells = tableItemLookup('u64', '"8"', 'vector<0x42::game::Cell>')
  const known: ReadonlyArray<readonly [string, TestRequest, number, string | RegExp]> = [
    [`${modules}&limit=3`, {}, 200, /stored/],
    [`${modules}&limit=3`, {}, 200, /hit/],
    [`${modules}&limit=3`, { headers: { 'if-none-match': '*' } }, 304, /hit/],
    [`${modules}&limit=3`, { method: 'HEAD' }, 200, /hit/],
    [`${modules}&limit=3`, { headers: { 'accept-encoding': 'br' } }, 200, /hit/],
    [table, cells, 200, /stored/],
    [table, cells, 200, /hit/],
    ['/v1/blocks/by_version/2000', {}, 200, /stored/],
    ['/v1/blocks/by_version/2001', {}, 200, /hit|stored/],
    [latest, {}, 200, /bypass/],
    ['/v1/info', {}, 200, /bypass/],
    ['/v1/info', {}, 200, /hit/],
    [`${stream}?limit=5`, {}, 200, /bypass/],
    [`${stream}?start=300&limit=5`, {}, 200, /stored/],
    ['/v1/accounts/0x1/modules?ledger_version=99999999', {}, 404, /status/],
    ['/v1/accounts/0x1/modules?ledger_version=1', {}, 410, /gone/],
    [`${stream}?start=1`, {}, 500, /status/],
    ['/v1/accounts/xyz/modules', {}, 400, /rejected/],
    [modules, { method: 'DELETE' }, 405, /rejected/],
    [table, { body: '{}' }, 415, /rejected/],
    [table, { ...cells, body: 'x'.repeat(2000) }, 413, /rejected/],
    [modules, { headers: { expect: 'x' } }, 417, /rejected/],
    [modules, { headers: { referer: `${explorer}/page`, 'access-control-request-method': 'GET' } }, 200, /stored|hit/]
  ]
  for (const [target, options, code, outcome] of known) {
    const name = `${options.method ?? ''} ${target} ${code}`
    const got = await isReadable(t, varve, target, options, code)
    t.match(got.headers['cache-status'], outcome, name)
    t.same(varies(got), ['accept', 'accept-encoding', 'origin'], name)
    if (target.includes('limit=3')) {
      t.ok(got.headers['x-node-cursor'] && got.headers['x-aptos-cursor'], 'the response has a cursor')
    }
  }
  for (
    const [target, options, code] of [
      ['/v1', {}, 200],
      ['/v1', { method: 'HEAD' }, 200],
      ['/v1/-/healthy', {}, 200],
      ['/v1/transactions/simulate', { body: '{}', headers: { 'content-type': 'application/json' } }, 404],
      ['/v1/view', { body: '{}', headers: { 'content-type': 'application/json' } }, 400],
      ['/v1/nowhere', {}, 404],
      ['/v2', {}, 404],
      ['/', { method: 'PUT' }, 404],
      ['/v1/x', { method: 'PUT' }, 405],
      ['/v1/%2e%2e/x', {}, 400],
      ['/v1/%', {}, 400]
    ] as const
  ) await isReadable(t, varve, target, options, code)
  t.ok(varies(await varve.get(modules, { method: 'OPTIONS' })).includes('origin'), 'no preflight')
  for (const bytes of ['nonsense\r\n\r\n', 'CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n']) {
    t.match(await sendRaw(varve.url, bytes), /\r\nVary: Origin\r\n/, bytes.slice(0, 20))
  }
  for (const kind of ['rateLimited', 'html', 'reset', 'garbage'] as const) {
    sandbox.faults.add({ kind, times: 3 })
    for (
      const target of [
        '/v1/accounts/0x2/modules?ledger_version=2000',
        latest,
        '/v1/accounts/0x2',
        '/v1/-/healthy'
      ]
    ) letsRead(t, await varve.get(target, from(explorer)), explorer, `${kind} ${target}`)
    sandbox.faults.clear()
  }
})

t.test('an upstream\'s Vary is merged with varve\'s, in one header and each name once', async t => {
  const cases = [
    [undefined, 'Origin'],
    ['Accept', 'Accept, Origin'],
    ['origin, Accept', 'origin, Accept'],
    ['*', '*'],
    [['Accept', 'Origin, accept', 'Origin'], 'Accept, Origin'],
    ['x-origin', 'x-origin, Origin'],
    [' , ', 'Origin']
  ] as const
  for (const [vary, wanted] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => {
      const lines = [vary ?? []].flat().flatMap(value => ['vary', value])
      response.writeHead(200, ['content-type', 'application/json', ...Object.entries(stamps()).flat(), ...lines]).end(
        '{}'
      )
    })
    const varve = await varveAt(t, stub.url)
    for (const options of [{}, from(explorer)]) {
      const got = await varve.get('/v1/nowhere', options)
      t.equal(got.headers.vary, wanted, String(vary))
      t.equal(got.rawNames.filter(name => name.toLowerCase() === 'vary').length, 1, String(vary))
    }
  }
})

t.test('a reload that allows or disallows origins changes the Vary of every response', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, {}, { cors: { origins: [] } })
  const variesByOrigin = async (): Promise<boolean[]> => [
    ...await Promise.all([modules, '/v2'].map(async target => varies(await varve.get(target)).includes('origin'))),
    /vary: origin/i.test(await sendRaw(varve.url, 'nonsense\r\n\r\n'))
  ]
  await varve.get(modules)
  t.same(await variesByOrigin(), [false, false, false])
  const upstreams = [{ name: 'node', url: sandbox.url }]
  const open = configSchema.parse({ upstreams, cors: { origins: [explorer] } })
  await varve.reload(open)
  t.same(await variesByOrigin(), [true, true, true])
  await varve.reload({ ...open, cors: { origins: [] } })
  t.same(await variesByOrigin(), [false, false, false])
})

t.test('only headers that are sent are exposed, of a hit too', async t => {
  const { varve } = await varveAtSandbox(t, {}, { headers: { emit: ['node'] } })
  const other = await varveAtSandbox(t, { family: 'x-other-' })
  const page = `${modules}&limit=1`
  for (const each of [varve, other.varve]) {
    for (const target of [modules, modules, modules, page, page]) {
      const { headers } = await each.get(target, from(explorer))
      const exposed = headers['access-control-expose-headers']?.split(', ') ?? []
      t.same(exposed.filter(name => !(name in headers)), [], target)
      t.equal(exposed.includes('x-node-cursor'), target === page)
      t.equal(exposed.some(name => name.startsWith('x-other-')), each === other.varve)
    }
  }
})

t.test('if origins are listed, a page of any other gets a response but may not read it', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { cors: { origins: [explorer, 'null'] } })
  for (const target of [modules, modules, latest, '/v1', '/v1/accounts/xyz/modules']) {
    for (const origin of [explorer, 'null']) {
      letsRead(t, await varve.get(target, from(origin)), origin, `${origin} ${target}`)
    }
    for (
      const origin of [
        'https://other.example',
        `${explorer}:8443`,
        `${explorer}.evil.example`,
        'http://explorer.example',
        'NULL',
        '*'
      ]
    ) {
      const got = await varve.get(target, from(origin))
      t.same(corsNames(got), [], `${origin} ${target}`)
      t.equal(got.status, target.includes('xyz') ? 400 : 200)
    }
  }
  sandbox.requests.reset()
  for (const origin of [explorer, 'null']) {
    t.match(await varve.get(modules, preflightFrom(origin, 'GET')), {
      status: 200,
      headers: { 'access-control-allow-origin': origin }
    })
  }
  t.match(await varve.get(modules, preflightFrom('https://other.example', 'GET')), {
    status: 403,
    body: shape,
    headers: { 'access-control-allow-origin': undefined, 'access-control-allow-methods': undefined }
  })
  const closedVarve = await varveAt(t, sandbox.url, { cors: { origins: [] } })
  t.same(corsNames(await closedVarve.get(modules, from(explorer))), [])
  t.equal((await closedVarve.get(modules, preflightFrom(explorer, 'GET'))).status, 403)
})

t.test('varve itself answers preflights: GET and POST on any path with any headers', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const grant = {
    status: 200,
    body: '',
    headers: {
      'access-control-allow-origin': explorer,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'GET,POST',
      'access-control-max-age': '86400',
      'content-length': '0',
      'cache-status': 'varve; detail=preflight'
    }
  }
  const paths = [
    modules,
    table,
    '/v1',
    '/v1/view',
    '/v1/transactions',
    '/v1/nowhere',
    '/v1/accounts/xyz/modules',
    '/v1/%2e%2e/x',
    '/?',
    '*',
    `/v1/${'x'.repeat(8000)}`,
    `http://evil.example${modules}`
  ]
  for (const target of paths) {
    for (const method of ['GET', 'POST']) {
      const got = await varve.get(target, preflightFrom(explorer, method, 'content-type, x-aptos-client'))
      t.match(got, grant, target)
      t.equal(got.headers['access-control-allow-headers'], 'content-type, x-aptos-client')
      t.same(varies(got), ['origin', 'access-control-request-method', 'access-control-request-headers'])
    }
  }
  const many = Array.from({ length: 200 }, (_, at) => `x-header-${at}`).join(',')
  for (
    const names of [
      'authorization',
      'X-Api-Key,Content-Type',
      'a , b,\tc',
      'if-none-match, range',
      'x-aptos-client,x-aptos-typescript-sdk-origin-method,content-type',
      '!#$%&\'*+.^_`|~-',
      many
    ]
  ) {
    t.equal(
      (await varve.get(modules, preflightFrom(explorer, 'POST', names))).headers['access-control-allow-headers'],
      names
    )
  }
  t.equal((await varve.get(modules, preflightFrom(explorer, 'GET'))).headers['access-control-allow-headers'], '*')
  t.equal(sandbox.requests.total, 0, 'no upstream receives a preflight')
})

t.test('a preflight for another method or an invalid header is rejected in the full node\'s format', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { passThrough: 'all' })
  for (const target of [modules, table, '/v1', '/v1/nowhere', '/v2']) {
    for (const method of ['PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'get', 'GET,POST', '*']) {
      const got = await varve.get(target, preflightFrom(explorer, method))
      t.match(got, {
        status: 403,
        body: shape,
        headers: { 'content-type': 'application/json', 'cache-status': 'varve; detail=rejected' }
      }, `${method} ${target}`)
      t.equal(JSON.parse(got.body).message, 'request-method not allowed', 'in the full node\'s own words')
      t.notOk(got.headers['access-control-allow-methods'])
    }
    t.match(await varve.get(target, preflightFrom(explorer, 'GET', 'x-a; x-b')), { status: 403, body: shape })
  }
  for (const headers of [{}, { origin: explorer }, { 'access-control-request-method': 'GET' }]) {
    for (const [target, code] of [[modules, 405], ['/v1/nowhere', 405], ['/v2', 404]] as const) {
      t.match(
        await varve.get(target, { method: 'OPTIONS', headers }),
        { status: code, body: shape },
        'not a preflight'
      )
    }
  }
  t.equal(sandbox.requests.total, 0)
})

t.test('pages that share a cache entry or a coalesced fetch each see their own origin only', async t => {
  const stub = await startGatedUpstream(t)
  const varve = await varveAt(t, stub.url)
  const origins = [undefined, ...Array.from({ length: 30 }, (_, at) => `https://page-${at}.example`)]
  const all = async (target: string): Promise<Array<string | undefined>> => {
    const got = await Promise.all(
      origins.map(async origin => await varve.get(target, origin === undefined ? {} : from(origin)))
    )
    return got.map(({ headers }) => headers['access-control-allow-origin'])
  }
  const first = [all(stubbed), all(latest)]
  await until(() => stub.requests.length === 2, 'both reads wait for the upstream')
  stub.release()
  for (const allowed of await Promise.all(first)) t.same(allowed, origins, 'misses and coalesced requests')
  const requestCount = stub.requests.length
  for (let round = 0; round < 3; round++) t.same(await all(stubbed), origins, 'hits')
  t.equal(stub.requests.length, requestCount)
  for (const target of ['/v1/accounts/0x9', '/v1/-/healthy', '/v1/accounts/xyz/modules']) {
    t.same(await all(target), origins, target)
  }
  const requests = origins.map(origin =>
    `GET ${stubbed} HTTP/1.1\r\nHost: x\r\n${origin === undefined ? '' : `Origin: ${origin}\r\n`}\r\n`
  )
  const text = await sendRaw(
    varve.url,
    requests.join(''),
    so => statusesIn(so).length === origins.length && so.endsWith('[]')
  )
  const responses = text.split('HTTP/1.1 200 OK').slice(1)
  t.same(
    responses.map(part => /access-control-allow-origin: (\S+)/i.exec(part)?.[1]),
    origins,
    'on one connection too'
  )
})

t.test('a value that is not one origin is not echoed and adds no header to the response', async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url)
  const odd = [
    'Origin: https://a.example\r\nOrigin: https://b.example',
    'Origin:',
    'Origin: https://a.example https://b.example',
    'Origin: https://a.example, https://b.example',
    `Origin: https://${'a'.repeat(600)}.example`,
    'Origin: https://\u00e9.example',
    'Origin: https://a.example\tx'
  ]
  for (const line of odd) {
    for (const method of ['GET', 'OPTIONS']) {
      const text = await sendRaw(
        varve.url,
        `${method} ${stubbed} HTTP/1.1\r\nHost: x\r\nConnection: ` +
          `close\r\n${line}\r\nAccess-Control-Request-Method: GET\r\n\r\n`
      )
      t.same(statusesIn(text), [method === 'GET' ? 200 : 405], line.slice(0, 60))
      t.notMatch(text, /access-control/i, line.slice(0, 60))
    }
  }
})
