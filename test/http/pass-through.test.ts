import { once } from 'node:events'
import { Agent, type IncomingMessage, METHODS, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { gunzipSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type PassThroughScope, passThroughScopes } from '../../src/api/pass-through-target.js'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { sendRaw, statusesIn } from '../support/raw.js'
import {
  listenRaw,
  respondOk,
  stamps,
  startEmptyUpstream,
  startHeldUpstream,
  startRawUpstream,
  startStubUpstream,
  type StubUpstream
} from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const spec = '/v1/spec.json'
// Posts may write, unless varve knows them as reads.
const posted = '/v1/transactions/simulate'
const viewBody = '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'
const status = 'cache-status'
const bypass = 'varve; fwd=bypass'
const shape = /^\{"message":".+","error_code":"[a-z_]+","vm_error_code":null\}$/
const stampLines = Object.entries(stamps()).map(line => line.join(': '))

/** Request as it reached the upstream. */
interface Reached {
  readonly method: string
  readonly target: string
  readonly headers: Record<string, string>
  readonly body: string
}

/** Starts an upstream that echoes requests, bodies in hex. */
async function echoNode (t: Test): Promise<StubUpstream> {
  return await startStubUpstream(t, (received, response) => {
    const chunks: Buffer[] = []
    received.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => {
      const body = JSON.stringify({
        method: received.method,
        target: received.url,
        headers: linesOf(received.rawHeaders),
        body: Buffer.concat(chunks).toString('hex')
      })
      respondOk(response, body, { 'content-length': String(Buffer.byteLength(body)) })
    })
  })
}

function linesOf (raw: readonly string[]): Record<string, string> {
  return Object.fromEntries(raw.flatMap((name, at) => at % 2 === 0 ? [[name.toLowerCase(), raw[at + 1] ?? '']] : []))
}

/** Sends raw bytes and returns the request that reached an echoing upstream. */
async function reached (url: string, bytes: string | Buffer): Promise<Reached> {
  const text = await sendRaw(url, bytes)
  return JSON.parse(text.slice(text.lastIndexOf('\r\n\r\n'))) as Reached
}

t.test('other requests under /v1 are forwarded as passThrough says', async t => {
  const stub = await echoNode(t)
  const forwards: [string, string, readonly PassThroughScope[]][] = [
    ['GET', spec, ['reads', 'transactions', 'all']],
    ['HEAD', spec, ['reads', 'transactions', 'all']],
    ['GET', '/v1//', ['reads', 'transactions', 'all']],
    ['GET', '/v1/no/such/thing?a=b', ['reads', 'transactions', 'all']],
    ['GET', '/v1/accounts/0x1/transactions', ['reads', 'transactions', 'all']],
    ['GET', '/v1/transactions/wait_by_hash/0x1', ['reads', 'transactions', 'all']],
    ['GET', '/v1/-/healthy', ['reads', 'transactions', 'all']],
    ['POST', '/v1/transactions', ['transactions', 'all']],
    ['POST', posted, ['transactions', 'all']],
    ['POST', '/v1/view/', ['all']],
    ['POST', '/v1/tables/0xab/raw_item/', ['all']],
    ['GET', '/v1/set_failpoint?name=a', []],
    ['GET', '/v1/set%5ffailpoint', []],
    ['GET', '/v1/%252Fset%255ffailpoint', []],
    ['GET', '/', []],
    ['GET', '/v1x', []],
    ['POST', '/v2/view', []],
    ['GET', '/metrics', []]
  ]
  for (const passThrough of passThroughScopes) {
    const varve = await varveAt(t, stub.url, { passThrough })
    for (const [method, target, policies] of forwards) {
      if (target.includes('failpoint') && passThrough === 'all') continue
      const before = stub.requests.length
      const got = await varve.get(target, { method, ...(method === 'POST' && { body: '{}' }) })
      if (policies.includes(passThrough)) {
        t.match(got, { status: 200, headers: { [status]: bypass } }, `${method} ${target} of ${passThrough}`)
        t.same(stub.requests.slice(before), [`${method} ${target}`])
      } else {
        t.match(got, {
          status: 404,
          body: method === 'HEAD' ? '' : shape,
          headers: { [status]: 'varve; detail=rejected', 'content-type': 'application/json' }
        }, `${method} ${target} of ${passThrough}`)
        t.equal(stub.requests.length, before)
      }
    }
    if (passThrough === 'reads') {
      t.equal(
        JSON.parse((await varve.get('/v1/transactions', { method: 'POST', body: '{}' })).body).message,
        'not forwarded: passThrough is reads, and this request needs passThrough: transactions'
      )
    }
    const [raw, before] = ['{"key":"0xab"}', stub.requests.length]
    for (
      const [target, body, code] of [['/v1/view', viewBody, 200], ['/v1/view', '{}', 400], [
        '/v1/tables/0xab/raw_item',
        raw,
        200
      ], ['/v1/tables/0xab/raw_item', '{}', 400]] as const
    ) {
      t.equal(
        (await varve.get(target, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).status,
        code,
        `${target} ${body} of ${passThrough}: a known read is parsed and always allowed`
      )
    }
    t.match(await varve.get('/v1/'), { status: 200, headers: { [status]: bypass } }, `the index of ${passThrough}`)
    t.match(stub.requests.slice(before), ['POST /v1/view', /^POST \/v1\/tables\/0x0+ab\/raw_item$/])
  }
})

t.test('CONNECT opens no tunnel, and TRACE and other methods are rejected on every path', async t => {
  const stub = await startEmptyUpstream(t)
  const varve = await varveAt(t, stub.url, { passThrough: 'all' })
  let tunnels = 0
  const secret = new URL(
    await listenRaw(t, socket => {
      tunnels++
      socket.destroy()
    })
  )
  const rest = METHODS.filter(method => !['GET', 'HEAD', 'POST'].includes(method))
  t.ok(rest.length > 25)
  for (const method of rest) {
    for (
      const body of ['\r\n', 'Content-Length: 2\r\n\r\nhi', 'Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n']
    ) {
      const target = method === 'CONNECT' ? secret.host : spec
      const text = await sendRaw(varve.url, `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${body}`)
      t.same(statusesIn(text), [405], `${method} ${body.slice(0, 20)}`)
      t.match(text, /\r\nallow: GET, HEAD, POST\r\n/i)
      t.match(text, /cache-status: varve; detail=rejected/i)
      t.match(text.split('\r\n\r\n')[1], shape)
    }
  }
  t.equal(tunnels, 0)
  t.equal(stub.requests.length, 0)
  t.equal(await varve.metric('varve_requests_total{endpoint="other",outcome="rejected",status="405"}'), 3 * rest.length)
  const due = await sendRaw(varve.url, `GET ${spec} HTTP/1.1\r\nHost: x\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n`)
  t.same(statusesIn(due), [200], 'a pending response is sent before the connection closes')
})

t.test('an Upgrade request is answered as a plain HTTP request', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, stub.url)
  for (
    const lines of [
      'Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ' +
      'dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13',
      'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA'
    ]
  ) {
    const got = await reached(varve.url, `GET ${spec} HTTP/1.1\r\nHost: x\r\n${lines}\r\n\r\n`)
    t.same(Object.keys(got.headers).sort(), [
      'accept-encoding',
      'connection',
      'host',
      'user-agent',
      'x-forwarded-for',
      'x-request-id'
    ])
  }
})

t.test('an upstream that fails in any way is tried once, and the client gets one error', async t => {
  const cases: [string, (socket: Socket) => void, number][] = [
    ['503', socket => socket.end('HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy'), 503],
    ['503 with a date', socket => socket.end('HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n'), 503],
    ['429', socket => socket.end('HTTP/1.1 429 Slow down\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n'), 429],
    ['reset', socket => socket.resetAndDestroy(), 503],
    ['closed', socket => socket.end(), 503],
    ['hang', () => {}, 503],
    ['nonsense', socket => socket.end('this is no HTTP\r\n\r\n'), 503]
  ]
  for (const [how, script, code] of cases) {
    const raw = await startRawUpstream(t, script)
    const varve = await varveAt(t, raw.url, {
      chainId: 4,
      upstream: { timeoutMs: how === 'hang' ? 100 : 4000 },
      passThrough: 'all'
    })
    for (const ways of [{}, { method: 'HEAD' }, { method: 'POST', body: '{}' }]) {
      const before = raw.connections()
      const got = await varve.get('body' in ways ? posted : spec, ways)
      t.match(
        got,
        { status: code, headers: how === '503' ? { 'retry-after': '0', [status]: bypass } : {} },
        `${how} ${ways.method ?? 'GET'}`
      )
      if (code === 503 && !/\d/.test(how)) {
        t.match(got.headers, { 'retry-after': '1', [status]: 'varve; detail=unavailable' })
      }
      t.equal(raw.connections() - before, 1)
    }
  }
})

t.test('a keep-alive connection that dies costs a read one retry; a possible write gets no retry', async t => {
  const raw = await startRawUpstream(t, socket => {
    socket.write(
      ['HTTP/1.1 200 OK', ...stampLines, 'content-type: application/json', 'content-length: 2', '', '[]'].join('\r\n')
    )
    socket.once('data', () => {
      socket.destroy()
    })
  })
  const varve = await varveAt(t, raw.url, { upstream: { maxConcurrent: 1 }, passThrough: 'all' })
  t.match(await varve.get('/v1/transactions', { method: 'POST', body: '{}' }), { status: 503 })
  t.equal(raw.connections(), 1)
  t.match(await varve.get(spec), { status: 200, body: '[]' })
  t.match(await varve.get(spec), { status: 200, body: '[]' })
  t.match(
    await varve.get('/v1/view', { method: 'POST', headers: { 'content-type': 'application/json' }, body: viewBody }),
    { status: 200, body: '[]' }
  )
  t.equal(raw.connections(), 4)
})

t.test('only negotiation and identification headers are forwarded, and the operator\'s headers win', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, `${stub.url}/key`, {
    passThrough: 'all',
    upstream: { headers: { Authorization: 'Bearer operator', 'X-Forwarded-For': '10.0.0.1', 'X-Api-Key': 'operator' } }
  })
  const plain = {
    accept: 'a/b',
    'accept-encoding': 'gzip',
    'user-agent': 'client/1',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'a=b',
    'x-aptos-client': 'sdk/1',
    'x-aptos-typescript-sdk-origin-method': 'view'
  }
  const theirs = [
    'Authorization: Bearer theirs',
    'Cookie: theirs=1',
    'X-Api-Key: theirs',
    'X-Request-Id: theirs',
    'Proxy-Authorization: theirs',
    'Proxy-Connection: keep-alive',
    'TE: trailers',
    'Trailer: X-Theirs',
    'Keep-Alive: timeout=5',
    'Upgrade: theirs',
    'Forwarded: for=theirs',
    'Via: 1.1 theirs',
    'X-Forwarded-For: 6.6.6.6',
    'X-Forwarded-Host: theirs',
    'X-Forwarded-Proto: theirs',
    'X-Forwarded-Client: theirs',
    'X-Forwarded-Client-Cert: theirs',
    'X-Real-IP: 6.6.6.6',
    'X-Original-URL: /theirs',
    'X-Rewrite-URL: /theirs',
    'X-HTTP-Method-Override: DELETE',
    'Range: bytes=0-0',
    'If-None-Match: "theirs"',
    'If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT',
    'Cache-Control: no-cache',
    'Origin: https://theirs.example',
    'Referer: https://theirs.example',
    'X-Theirs: 1',
    'Max-Forwards: 0',
    'Expect: 100-continue',
    'Connection: close, X-Hop-Client',
    'X-Hop-Client: theirs'
  ]
  const lines = [...Object.entries(plain).map(line => line.join(': ')), ...theirs].join('\r\n')
  const operators = {
    connection: 'keep-alive',
    authorization: 'Bearer operator',
    'x-forwarded-for': '10.0.0.1',
    'x-api-key': 'operator',
    host: new URL(stub.url).host
  }
  const got = await reached(varve.url, `GET ${spec} HTTP/1.1\r\nHost: theirs\r\n${lines}\r\n\r\n`)
  const { 'x-request-id': id, ...headers } = got.headers
  t.match(id, /^req-/)
  t.same(headers, { ...plain, ...operators })
  t.equal(got.target, `/key${spec}`)
  const sent = await reached(
    varve.url,
    `POST ${posted} HTTP/1.1\r\nHost: theirs\r\n${lines}\r\nContent-Type: ` +
      'application/json\r\nContent-Length: 2\r\n\r\n{}'
  )
  const { 'x-request-id': _id, ...sentHeaders } = sent.headers
  t.same(sentHeaders, { ...plain, ...operators, 'content-type': 'application/json', 'content-length': '2' })
})

t.test('a forwarded request carries the client\'s address in X-Forwarded-For; a known read does not', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, stub.url)
  for (
    const theirs of [
      '',
      'X-Forwarded-For: 6.6.6.6\r\n',
      'X-Forwarded-For: 127.0.0.1, 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\n'
    ]
  ) {
    const { headers } = await reached(
      varve.url,
      `GET ${spec} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${theirs}\r\n`
    )
    t.equal(headers['x-forwarded-for'], '127.0.0.1')
  }
  const knownRead = await reached(
    varve.url,
    'GET /v1/estimate_gas_price HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n'
  )
  t.equal(knownRead.headers['x-forwarded-for'], undefined)
})

t.test('headers that a client lists under Connection are not forwarded', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, stub.url)
  const { headers } = await reached(
    varve.url,
    `GET ${spec} HTTP/1.1\r\nHost: x\r\nConnection: close, Accept ,ACCEPT-ENCODING,x-aptos-client,, ` +
      'user-agent,host\r\nAccept: application/x-bcs\r\nAccept-Encoding: gzip\r\nX-Aptos-Client: ' +
      'sdk\r\nUser-Agent: me\r\n\r\n'
  )
  t.same({ ...headers, host: 'h', 'x-request-id': 'i' }, {
    host: 'h',
    connection: 'keep-alive',
    'user-agent': 'varve',
    'accept-encoding': 'identity',
    'x-forwarded-for': '127.0.0.1',
    'x-request-id': 'i'
  })
  t.equal(headers['host'], new URL(stub.url).host)
})

t.test('only listed upstream headers are forwarded: no cookies, hop-by-hop headers or Location', async t => {
  const forwardedHeaders = {
    'content-type': 'text/plain',
    'content-language': 'en',
    'content-disposition': 'inline',
    'cache-control': 'max-age=5',
    etag: '"a"',
    'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
    vary: 'Accept',
    allow: 'GET',
    traceparent: '00-1',
    'retry-after': '3',
    'www-authenticate': 'Bearer',
    'x-aptos-cursor': 'ab',
    'x-aptos-gas-used': '7'
  }
  let location = ''
  const dropped = {
    'set-cookie': 'AWSALB=1',
    connection: 'close, x-hop',
    'keep-alive': 'timeout=9',
    'x-hop': '1',
    trailer: 'x-late',
    upgrade: 'h2c',
    'proxy-authenticate': 'Basic',
    'proxy-connection': 'close',
    'transfer-encoding': 'chunked',
    'content-location': '/theirs',
    server: 'theirs',
    via: '1.1 theirs',
    'alt-svc': 'h3=":443"',
    'access-control-allow-origin': 'https://theirs.example',
    'strict-transport-security': 'max-age=1',
    'x-theirs': '1',
    'x-node-ledger-version': '1000'
  }
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(307, { ...forwardedHeaders, ...dropped, location, ...stamps() }).end('moved')
  })
  location = `${stub.url}/v1/elsewhere`
  const varve = await varveAt(t, stub.url)
  const { status: code, headers, body } = await varve.get(spec)
  t.equal(code, 307)
  t.equal(body, 'moved')
  const { date, connection, 'transfer-encoding': coding, 'x-request-id': _id, ...rest } = headers
  t.same([connection, coding], ['close', 'chunked'], 'varve\'s own')
  const positions = Object.entries(stamps()).flatMap((
    [name, value]
  ) => [[name, value], [name.replace('x-aptos', 'x-node'), value]])
  t.same(rest, {
    ...forwardedHeaders,
    vary: 'Accept, Origin',
    ...Object.fromEntries(positions),
    'x-node-cursor': 'ab',
    'x-node-gas-used': '7',
    [status]: bypass
  })
  t.notMatch(JSON.stringify(headers), new RegExp(new URL(stub.url).host), 'the upstream\'s address stays hidden')
})

t.test('of a repeated single-value header the first is forwarded, and lists are forwarded whole', async t => {
  const twice = [
    ...[['content-type', 'text/plain'], ['content-type', 'text/html']],
    ...[['etag', '"a"'], ['etag', '"b"']],
    ...[['last-modified', 'a'], ['last-modified', 'b']],
    ...[['vary', 'Accept'], ['vary', 'Origin']],
    ...[['x-aptos-cursor', 'aa'], ...Object.entries(stamps())]
  ].flat()
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(200, twice).end('hi')
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get(spec), {
    status: 200,
    body: 'hi',
    headers: { 'content-type': 'text/plain', etag: '"a"', 'last-modified': 'a', vary: 'Accept, Origin' }
  })
})

t.test('an odd or malformed upstream response harms neither varve nor the next client', async t => {
  let payload = ''
  const raw = await startRawUpstream(t, socket => {
    socket.end(Buffer.from(payload, 'latin1'))
  })
  const varve = await varveAt(t, raw.url, { chainId: 4, upstream: { timeoutMs: 500 } })
  const head = (first: string, ...lines: string[]): string => [first, ...stampLines, ...lines, '', ''].join('\r\n')
  const cases: [string, number][] = [
    [head('HTTP/1.1 200 OK', 'trailer: x-late', 'content-length: 2') + 'hi', 200],
    [
      head('HTTP/1.1 200 OK', 'trailer: x-late', 'transfer-encoding: chunked') +
      '2\r\nhi\r\n0\r\nx-late: 1\r\nset-cookie: a=b\r\n\r\n',
      200
    ],
    [head('HTTP/1.1 200 OK', 'etag: "caf\xe9"', 'content-length: 2') + 'hi', 200],
    [head('HTTP/1.1 200 caf\xe9 \xff', 'content-length: 2') + 'hi', 200],
    [head('HTTP/1.1 200 OK', 'etag: a', 'etag: b', 'content-length: 2') + 'hi', 200],
    [head('HTTP/1.1 200 OK', '__proto__: a', 'constructor: b', 'content-length: 2') + 'hi', 200],
    [head('HTTP/1.0 200 OK', 'content-length: 2') + 'hi', 200],
    [head('HTTP/1.1 200 OK') + 'hi', 200],
    [head('HTTP/1.1 103 Early Hints', 'link: </x>') + head('HTTP/1.1 200 OK', 'content-length: 2') + 'hi', 200],
    ...[299, 418, 599, 600, 999].map((
      code
    ): [string, number] => [head(`HTTP/1.1 ${code} Odd`, 'content-length: 2') + 'hi', code]),
    ...['\x00', '\x01', '\x07', '\x7f', '\r', '\n x'].map((
      bad
    ): [string, number] => [head('HTTP/1.1 200 OK', `etag: "${bad}"`, 'content-length: 2') + 'hi', 503]),
    ...['000', '099', '20', 'abc'].map((
      code
    ): [string, number] => [head(`HTTP/1.1 ${code} Odd`, 'content-length: 2') + 'hi', 503]),
    [head('HTTP/1.1 101 Switching Protocols', 'upgrade: websocket', 'connection: upgrade'), 503],
    [head('HTTP/1.1 200 OK', 'content-length: 2', 'transfer-encoding: chunked') + '2\r\nhi\r\n0\r\n\r\n', 503],
    [head('HTTP/1.1 200 OK', 'content-length: 2', 'content-length: 3') + 'hi', 503],
    [head('HTTP/1.1 200 OK', `etag: ${'x'.repeat(70_000)}`, 'content-length: 2') + 'hi', 503],
    // An unrequested 100 is an error to undici.
    [head('HTTP/1.1 100 Continue') + head('HTTP/1.1 200 OK', 'content-length: 2') + 'hi', 503],
    ['', 503]
  ]
  for (const [bytes, code] of cases) {
    payload = bytes
    for (const method of ['GET', 'HEAD']) {
      const sent = method === 'HEAD' ? bytes.replace(/hi$|2\r\nhi\r\n0[^]*/, '') : bytes
      payload = sent
      const got = await varve.get(spec, { method })
      t.match(
        got,
        { status: code, headers: { 'set-cookie': undefined, trailer: undefined } },
        `${method} ${JSON.stringify(bytes.replace(stampLines.join('\r\n'), '').slice(0, 60))}`
      )
      if (method === 'GET') t.match(got.body, code === 503 ? shape : 'hi')
    }
  }
})

t.test('204 and 304 have no body, and an upstream\'s redirect is neither followed nor forwarded', async t => {
  const stub = await startStubUpstream(t, (received, response) => {
    const code = Number(received.url?.slice(-3))
    response.writeHead(code, {
      ...stamps(),
      etag: '"a"',
      ...(code >= 300 && code !== 304 && { location: `${stub.url}/x` })
    }).end()
  })
  const varve = await varveAt(t, stub.url)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => {
    agent.destroy()
  })
  for (const code of [204, 205, 301, 302, 303, 304, 307, 308, 204, 304]) {
    const got = await sendRequest(varve.url, `/v1/x/${code}`, { agent })
    t.match(got, {
      status: code,
      body: '',
      headers: { location: undefined, 'x-node-ledger-version': '1000', [status]: bypass, etag: '"a"' }
    })
  }
  t.equal(stub.requests.length, 10, 'no redirect is followed')
})

t.test('request targets are forwarded byte for byte, however long', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, `${stub.url}/key`)
  const tag = `0x1::coin::CoinStore<${'0xcafe::very_long_module_name::VeryLongStructName<'.repeat(60)}u8${
    '>'.repeat(60)
  }>`
  const once = encodeURIComponent(tag)
  const targets = [
    '/v1//',
    '/v1//?',
    `/v1/accounts/0x1/other/${once}`,
    `/v1/accounts/0x1/other/${encodeURIComponent(once)}?ledger_version=5`,
    '/v1/accounts/0x1/other/0x1::a::B%3cu8%3E',
    `${spec}?a=1&a=2&b=+%2B%2F%2f;c=%20&&=&d`,
    `${spec}??`,
    `${spec}?a?b=c/../d`,
    `${spec}?%`,
    `${spec}?%zz&\`{|}^~[]\\`,
    '/v1/x;y=z,w:@!$&\'()*+="{|}^',
    '/v1/a%2Fb%2fc',
    '/v1/%20%00%7f',
    `/v1/${'x'.repeat(8000)}`,
    `${spec}?${'y=1&'.repeat(2000)}`,
    '/v1/xaB0//::,\'|~@\\x..x%C3%A9',
    `${spec}?../..;'@::,/../`
  ]
  for (const target of targets) {
    t.equal((JSON.parse((await varve.get(target)).body) as Reached).target, `/key${target}`, target.slice(0, 80))
  }
})

t.test('a target that leaves /v1 or names another host never reaches the upstream', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, stub.url, { passThrough: 'all' })
  for (
    const dots of ['..', '.', '%2e%2e', '%2E.', '%252e%252e', '..%2f', '..%252Fx', '..\\', 'x\\..', '..%5cx', '..;x']
  ) {
    for (const target of [`/v1/${dots}/admin`, `/v1/x/${dots}`, `http://evil.example/v1/${dots}/admin`]) {
      for (const method of ['GET', 'POST']) {
        t.match(await varve.get(target, { method }), {
          status: 400,
          body: shape,
          headers: { [status]: 'varve; detail=rejected' }
        }, `${method} ${target}`)
      }
    }
  }
  for (
    const target of [
      '//evil.example/v1/x',
      'http://evil.example/v1x',
      'http://evil.example',
      'http://evil.example//other/v1/x',
      'ftp://evil.example/v1/x',
      '*'
    ]
  ) t.match(await varve.get(target), { status: 404, body: shape }, target)
  for (const target of [`${spec}#x`, '/v1/<', '/v1/%', '/v1/%c0%af']) {
    t.match(await varve.get(target), { status: 400, body: shape }, target)
  }
  t.equal(stub.requests.length, 0)
  t.match(JSON.parse((await varve.get('http://evil.example/v1/x?y=http://evil.example/v1')).body), {
    target: '/v1/x?y=http://evil.example/v1',
    headers: { host: new URL(stub.url).host }
  })
})

t.test('a request body is forwarded byte for byte with its type and length, however it was framed', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, stub.url, { passThrough: 'all' })
  const bodies = [
    '{"a" : 18446744073709551615, "a":1.0e0,"__proto__":\t{}}\n',
    '\ufeff[]',
    'not json',
    Buffer.from(Uint8Array.from({ length: 256 }, (_, at) => at)),
    Buffer.alloc(1024 * 1024, 'x'),
    ''
  ]
  for (const body of bodies) {
    for (
      const type of [
        'application/json',
        'application/json; charset=UTF-8',
        'application/x.aptos.view_function+bcs',
        'Text/Plain;a="b"'
      ]
    ) {
      const got = JSON.parse(
        (await varve.get(posted, { method: 'POST', headers: { 'content-type': type }, body })).body
      ) as Reached
      t.ok(Buffer.from(got.body, 'hex').equals(Buffer.from(body)))
      t.match(got.headers, {
        'content-type': type,
        'content-length': String(Buffer.byteLength(body)),
        'transfer-encoding': undefined
      })
    }
  }
  const send = async (lines: string, body: string): Promise<Reached> =>
    await reached(varve.url, `POST ${posted} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}\r\n\r\n${body}`)
  const chunked = await send(
    'Content-Type: a/b\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Late',
    '2;x=y\r\nhi\r\n3\r\n ho\r\n0\r\nX-Late: 1\r\n\r\n'
  )
  t.match(chunked, {
    body: Buffer.from('hi ho').toString('hex'),
    headers: {
      'content-type': 'a/b',
      'content-length': '5',
      'transfer-encoding': undefined,
      trailer: undefined,
      'x-late': undefined
    }
  })
  for (const lines of ['X: y', 'Content-Length: 0', 'Keep-Alive: timeout=5']) {
    t.match(await send(lines, ''), { body: '', headers: { 'content-length': '0', 'content-type': undefined } }, lines)
  }
  t.match(
    await send('Content-Length: 2\r\nExpect: 100-Continue\r\nKeep-Alive: 300', 'hi'.slice(0, 2)).catch((
      error: unknown
    ) => error),
    { body: '6869', headers: { expect: undefined, 'keep-alive': undefined } }
  )
  t.match(
    await reached(varve.url, `GET ${spec} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nGET `),
    { method: 'GET', body: '', headers: { 'content-length': undefined } },
    'a GET has none'
  )
})

t.test('100-continue is sent before the body is read, and an unacceptable body is rejected instead', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, stub.url, { passThrough: 'all', limits: { bodyKb: 1 } })
  const { hostname, port } = new URL(varve.url)
  const socket = connect(Number(port), hostname)
  socket.write(
    `POST ${posted} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`
  )
  const [first] = await once(socket, 'data') as [Buffer]
  t.equal(first.toString(), 'HTTP/1.1 100 Continue\r\n\r\n')
  t.equal(stub.requests.length, 0)
  socket.write('hi')
  const [second] = await once(socket, 'data') as [Buffer]
  t.match(second.toString(), /^HTTP\/1\.1 200 OK[^]*"body":"6869"/)
  const rejected: [number, Record<string, string>, string | Buffer][] = [
    [417, { expect: 'the-spanish-inquisition' }, 'hi'],
    [415, { 'content-encoding': 'gzip' }, gzipSync('hi')],
    [415, { 'content-encoding': 'identity, br' }, 'hi'],
    [413, {}, 'x'.repeat(1025)],
    [413, { 'transfer-encoding': 'chunked' }, 'x'.repeat(1025)],
    [415, { 'transfer-encoding': 'gzip, chunked' }, '']
  ]
  for (const [code, headers, body] of rejected) {
    for (const target of [posted, '/v1/view', '/v1/tables/0x1/raw_item']) {
      const got = await varve.get(target, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body
      })
      t.match(
        got,
        { status: code, body: shape, headers: { [status]: 'varve; detail=rejected' } },
        `${target} ${JSON.stringify(headers)}`
      )
    }
  }
  t.equal(stub.requests.length, 1)
  t.match(
    await varve.get(posted, { method: 'POST', headers: { 'content-encoding': 'identity' }, body: 'x'.repeat(1024) }),
    { status: 200 }
  )
})

t.test('a compressed response reaches only clients that accept it, unchanged', async t => {
  const text = 'x'.repeat(5000)
  const stub = await startStubUpstream(t, (received, response) => {
    const isCoded = received.headers['accept-encoding'] === 'gzip;q=0.5'
    response.writeHead(200, {
      ...stamps(),
      'content-type': 'text/plain',
      vary: 'Accept-Encoding',
      ...(isCoded && { 'content-encoding': 'gzip' })
    }).end(isCoded ? gzipSync(text) : text)
  })
  const varve = await varveAt(t, stub.url)
  const coded = await varve.get(spec, { headers: { 'accept-encoding': 'gzip;q=0.5' } })
  t.match(coded.headers, { 'content-encoding': 'gzip', vary: 'Accept-Encoding' })
  t.equal(gunzipSync(coded.bytes).toString(), text)
  t.match(await varve.get(spec), { body: text, headers: { 'content-encoding': undefined } })
  t.match(await varve.get(spec, { method: 'HEAD' }), {
    status: 200,
    body: '',
    headers: { 'content-type': 'text/plain', [status]: bypass }
  })
})

t.test('a client that disconnects cancels its upstream request, before or within the response', async t => {
  const { stub, next } = await startHeldUpstream(t)
  const varve = await varveAt(t, stub.url, { passThrough: 'all', upstream: { timeoutMs: 60_000, maxConcurrent: 1 } })
  const { hostname, port } = new URL(varve.url)
  for (const [method, target] of [['GET', spec], ['POST', posted]] as const) {
    for (const hasBegun of [false, true]) {
      // Repeats more often than there are slots, so a leaked slot shows.
      for (let round = 0; round < 9; round++) {
        const sent = request({ hostname, port, method, path: target, agent: new Agent() }).end(
          method === 'POST' ? '{}' : undefined
        )
        sent.on('error', () => {})
        const response = await next()
        const closed = once(response, 'close')
        if (hasBegun) {
          const responded = once(sent, 'response') as Promise<[IncomingMessage]>
          response.writeHead(200, stamps()).write('begun')
          const [clientResponse] = await responded
          clientResponse.on('error', () => {})
          await once(clientResponse, 'data')
        }
        sent.destroy()
        await closed
        t.notOk(response.writableFinished)
      }
    }
  }
  t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 1, 'a disconnect says nothing about the upstream')
  t.equal(await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="other",status="cancelled"}'), 18)
  const last = varve.get(spec)
  respondOk(await next(), 'ok')
  t.match(await last, { status: 200, body: 'ok' })
})

t.test('a forwarded response is never stored, counts as other and updates the position', async t => {
  const further = stamps({
    'x-aptos-ledger-version': '2000',
    'x-aptos-ledger-timestampusec': '2000000',
    'x-aptos-block-height': '200'
  })
  const stub = await startStubUpstream(t, (received, response, nth) => {
    respondOk(response, `[${nth}]`, received.url === spec ? further : {})
  })
  const varve = await varveAt(t, stub.url)
  t.match((await varve.get('/v1/accounts/0x1/modules?ledger_version=500')).headers, { 'x-node-ledger-version': '1000' })
  for (const body of ['[2]', '[3]']) {
    const got = await varve.get(spec)
    t.match(got, {
      status: 200,
      body,
      headers: {
        [status]: bypass,
        'cache-control': 'no-store',
        etag: undefined,
        'x-node-ledger-version': '2000',
        'x-aptos-ledger-version': '2000',
        'x-node-block-height': '200'
      }
    })
    t.ok(got.rawNames.includes('X-NODE-LEDGER-VERSION') && got.rawNames.includes('x-aptos-ledger-version'))
  }
  t.match((await varve.get('/v1/accounts/0x1/modules?ledger_version=500')).headers, {
    [status]: /hit/,
    'x-node-ledger-version': '2000'
  }, 'a hit on another read shows it')
  t.equal(await varve.metric('varve_ledger_version'), 2000)
  t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 1)
  t.equal(await varve.metric('varve_requests_total{endpoint="other",outcome="forwarded",status="200"}'), 2)
  t.equal(await varve.metric('varve_request_duration_seconds_count{endpoint="other",outcome="forwarded"}'), 2)
  t.equal(
    await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="other",status="200"}'),
    3,
    'two requests and the poll'
  )
  const only = await varveAt(t, stub.url, { headers: { emit: ['node'] } })
  t.match((await only.get(spec)).headers, { 'x-node-ledger-version': '2000', 'x-aptos-ledger-version': undefined })
  t.match(
    (await varve.get('/v1/behind')).headers,
    { 'x-node-ledger-version': '1000' },
    'the position is that response\'s own'
  )
  t.equal(await varve.metric('varve_ledger_version'), 2000, 'the served head does not go back')
})

t.test('a response from another chain is discarded', async t => {
  const stub = await startStubUpstream(t, (received, response) => {
    // Never ends the response of another chain, so only its cancellation frees the slot.
    if (received.url === spec) response.writeHead(200, stamps({ 'x-aptos-chain-id': '5' })).write('x'.repeat(100_000))
    else respondOk(response, '[]')
  })
  const varve = await varveAt(t, stub.url, { upstream: { maxConcurrent: 1, timeoutMs: 60_000 } })
  for (let round = 0; round < 20; round++) {
    t.match(await varve.get(spec), {
      status: 503,
      body: shape,
      headers: { [status]: 'varve; detail=unavailable', 'x-node-chain-id': undefined }
    })
  }
  await until(async () => (await varve.get('/v1/valid')).status === 200, 'the upstream is used again')
  t.match(await varve.get('/v1/valid'), { headers: { 'x-node-chain-id': '4' } })
})

t.test('a transaction is sent once, to one upstream, never repeated, and no log line has its body', async t => {
  const received: string[] = []
  const stubs = await Promise.all(['a', 'b'].map(async () =>
    await startStubUpstream(t, (request, response) => {
      request.resume()
      received.push(request.url ?? '')
      response.writeHead(503).end()
    })
  ))
  const varve = await varveAt(t, '', {
    passThrough: 'transactions',
    log: { level: 'trace', access: true },
    upstreams: configSchema.parse({ upstreams: stubs.map(({ url }, at) => ({ name: `n${at}`, url })) }).upstreams
  })
  received.length = 0
  const options = { method: 'POST', body: '{"sender":"s3cret"}', headers: { 'content-type': 'application/json' } }
  t.match(await varve.get('/v1/transactions', options), { status: 503, headers: { [status]: bypass } })
  t.same(received.filter(target => target === '/v1/transactions'), ['/v1/transactions'], 'a failure is not repeated')
  await varve.get('/v1/transactions', options)
  t.equal(received.filter(target => target === '/v1/transactions').length, 2, 'nothing is cached')
  t.notMatch(JSON.stringify(varve.log), /s3cret/)
})
