import { once } from 'node:events'
import { Agent, type IncomingMessage, METHODS, request } from 'node:http'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { type PassThroughScope, passThroughScopes } from '../../src/api/pass-through-target.js'
import { sendRaw, statusesIn } from '../support/raw.js'
import {
  type StubUpstream,
  listenRaw,
  respondOk,
  stamps,
  startEmptyUpstream,
  startHeldUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { TcpGate } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const spec = '/v1/spec.json'
// Posts may write, unless varve knows them as reads.
const posted = '/v1/transactions/simulate'
const viewBody = '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'
const status = 'cache-status'
const bypass = 'varve; fwd=bypass'
const shape = /^\{"message":".+","error_code":"[a-z_]+","vm_error_code":null\}$/

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
    ['GET', '/v1/no/such/thing?a=b', ['reads', 'transactions', 'all']],
    ['POST', '/v1/transactions', ['transactions', 'all']],
    ['POST', posted, ['transactions', 'all']],
    ['POST', '/v1/view/', ['all']],
    ['GET', '/v1/set_failpoint?name=a', []],
    ['GET', '/v1/%252Fset%255ffailpoint', []],
    ['GET', '/', []],
    ['POST', '/v2/view', []]
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
  t.same(statusesIn(due), [200, 405], 'a pending response is sent before the rejection')
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

t.test('only negotiation and identification headers are forwarded, and the operator\'s headers win', async t => {
  const stub = await echoNode(t)
  const varve = await varveAt(t, `${stub.url}/key`, {
    passThrough: 'all',
    upstream: {
      headers: {
        Authorization: 'Bearer operator',
        'X-Forwarded-For': '10.0.0.1',
        'X-Api-Key': 'operator',
        Accept: 'text/html',
        'Accept-Encoding': 'deflate'
      }
    }
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

t.test('a client that disconnects cancels its upstream request, before or within the response', async t => {
  const stub = await startHeldUpstream(t)
  const { next } = stub
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

t.test('a forwarded response needs no second slot to prove its chain after a lost connection', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  const gate = new TcpGate(sandbox.url)
  await gate.open()
  t.teardown(async () => {
    await gate.close()
    await sandbox.close()
  })
  const varve = await varveAt(t, gate.url, { passThrough: 'all', upstream: { maxConcurrent: 1, timeoutMs: 2000 } })
  const target = '/v1/-/healthy?limit=1'
  await until(() => sandbox.requests.countFor('transaction_by_version') > 0, 'the root of the head is known')
  // A poll would prove the chain before.
  sandbox.faults.add({ kind: 'error', code: 'internal_error', match: 'index' })
  gate.dropConnections()
  t.match(await varve.get(target), { status: 200, headers: { 'cache-status': bypass } })
})

t.test('an unknown route is 503, not the 404 of a node that denies a served version', async t => {
  const denial = JSON.stringify({ message: 'not yet', error_code: 'version_not_found', vm_error_code: null })
  const upstream = await startStubUpstream(t, (request, response) => {
    if (request.url?.startsWith('/v1/nowhere') !== true) return respondOk(response, '[]')
    response.writeHead(404, { 'content-type': 'application/json; charset=utf-8', ...stamps() }).end(denial)
  })
  const { get } = await varveAt(t, upstream.url)
  t.match(await get('/v1/nowhere?ledger_version=5000'), { status: 404, body: denial }, 'a version above the head')
  t.match(await get('/v1/nowhere?ledger_version=500'), { status: 503, body: /no upstream could answer/ })
})
