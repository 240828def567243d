import { gunzipSync, gzipSync } from 'node:zlib'
import { Agent } from 'node:http'
import { type Socket } from 'node:net'
import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { reset } from '../support/reset.js'
import { respondOk, stamps, startRawUpstream, startStubUpstream } from '../support/stub-upstream.js'
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

t.test('an upstream that fails in any way is tried once, and the client gets one error', async t => {
  const cases: [string, (socket: Socket) => void, number][] = [
    ['503', socket => socket.end('HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy'), 503],
    ['503 with a date', socket => socket.end('HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n'), 503],
    ['429', socket => socket.end('HTTP/1.1 429 Slow down\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n'), 429],
    ['reset', reset, 503],
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
      const before = raw.reads()
      const got = await varve.get('body' in ways ? posted : spec, ways)
      t.match(
        got,
        { status: code, headers: how === '503' ? { 'retry-after': '0', [status]: bypass } : {} },
        `${how} ${ways.method ?? 'GET'}`
      )
      if (code === 503 && !/\d/.test(how)) {
        t.match(got.headers, { 'retry-after': '1', [status]: 'varve; detail=unavailable' })
      }
      t.equal(raw.reads() - before, 1)
    }
  }
})

t.test('a keep-alive connection that dies costs a read one retry; a possible write gets no retry', async t => {
  const upstream = await startStubUpstream(t, (request, response) => {
    request.resume()
    if (request.socket.bytesWritten > 0) request.socket.destroy()
    else respondOk(response, '[]')
  })
  const varve = await varveAt(t, upstream.url, { upstream: { maxConcurrent: 1 }, passThrough: 'all' })
  const write = '/v1/transactions'
  t.match(await varve.get(write, { method: 'POST', body: '{}' }), { status: 503 })
  t.same(upstream.requests, [`POST ${write}`])
  // Leaves a connection that has had its response.
  await varve.get(spec)
  const before = upstream.requests.length
  t.match(await varve.get(spec), { status: 200, body: '[]' })
  t.match(
    await varve.get('/v1/view', { method: 'POST', headers: { 'content-type': 'application/json' }, body: viewBody }),
    { status: 200, body: '[]' }
  )
  t.same(upstream.requests.slice(before), [`GET ${spec}`, `GET ${spec}`, 'POST /v1/view', 'POST /v1/view'])
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
  const stub = await startStubUpstream(t, (_request, response) => response.writeHead(200, twice).end('hi'))
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get(spec), {
    status: 200,
    body: 'hi',
    headers: { 'content-type': 'text/plain', etag: '"a"', 'last-modified': 'a', vary: 'Accept, Origin' }
  })
})

t.test('an odd or malformed upstream response harms neither varve nor the next client', async t => {
  let payload = ''
  const raw = await startRawUpstream(t, socket => socket.end(Buffer.from(payload, 'latin1')))
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
  t.teardown(() => agent.destroy())
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
