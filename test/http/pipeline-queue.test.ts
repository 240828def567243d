import { setTimeout as pause } from 'node:timers/promises'
import { once } from 'node:events'
import { type Server, type ServerResponse } from 'node:http'
import { type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { ConnectionLimiter } from '../../src/http/connection-limiter.js'
import { sendRequest } from '../support/client.js'
import { openDeaf, openRaw, sendRaw, statusesIn, tlsOf } from '../support/raw.js'
import { type StubUpstream, respondOk, stamps, startHeldUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { Deferred } from '../../src/peers/deferred.js'

const mega = 1024 * 1024
const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`

/** Changes the public listener of every varve started after this. */
function onListener (t: Test, change: (server: Server) => void): void {
  const { attach } = ConnectionLimiter.prototype
  t.intercept(ConnectionLimiter.prototype, 'attach', {
    value: function (this: ConnectionLimiter, server: Server) {
      attach.call(this, server)
      change(server)
    }
  })
}

/** Starts an upstream that delays its response to one read and responds to others with their body's length. */
async function nodeWithOneHeldRead (t: Test): Promise<{ stub: StubUpstream, release: () => void }> {
  const released = new Deferred<void>()
  const stub = await startStubUpstream(t, (request, response) => {
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
    }).once('end', () => {
      if (request.url?.includes('/modules') === true) {
        released.promise.then(() => respondOk(response, '"released"'), () => {})
      } else respondOk(response, `"${length}"`)
    })
  })
  return {
    stub,
    release: () => released.resolve()
  }
}

function post (length: number): string {
  const body = JSON.stringify({ key_type: '0x1::string::String', value_type: 'u64', key: '' })
  const padded = body.replace('"key":"', `"key":"${'x'.repeat(length - body.length)}`)
  return 'POST /v1/tables/0xab/item?ledger_version=500 HTTP/1.1\r\nHost: x\r\nContent-Type: ' +
    `application/json\r\nContent-Length: ${length}\r\n\r\n${padded}`
}

function bodiesIn (text: string): string[] {
  return [...text.matchAll(/\r\n("\w+")/g)].map(([, body = '']) => body)
}

/** Waits until a number stops changing. */
async function unchanged (number: () => number): Promise<void> {
  for (let before = -1; before !== number();) {
    before = number()
    await pause(300)
  }
}

t.test('a pipelining client occupies one upstream connection at a time, and none once it has left', async t => {
  const open = new Set<ServerResponse>()
  let most = 0
  let [arrived, emptied] = [new Deferred<void>(), new Deferred<void>()]
  const stub = await startStubUpstream(t, (_request, response) => {
    open.add(response)
    most = Math.max(most, open.size)
    response.on('close', () => {
      open.delete(response)
      if (open.size === 0) emptied.resolve()
    })
    response.writeHead(200, { 'content-type': 'application/json', ...stamps(), 'content-length': String(64 * mega) })
    const pour = (): void => {
      while (response.write(Buffer.alloc(mega)));
    }
    response.on('drain', pour)
    pour()
    arrived.resolve()
  })
  const varve = await varveAt(t, stub.url, {
    cache: { maxEntryMb: 1 },
    upstream: { maxConcurrent: 2, timeoutMs: 60_000 }
  })
  for (const target of [modules, '/v1/accounts/0x1']) {
    ;[arrived, emptied] = [new Deferred<void>(), new Deferred<void>()]
    const client = await openDeaf(t, varve.url, get(target).repeat(50))
    await arrived.promise
    client.destroy()
    await emptied.promise
  }
  t.equal(most, 1)
  t.match(await sendRequest(varve.url, '/v1'), { status: 200 }, 'the upstream is free for other clients')
})

t.test('pipelined requests are answered in order, each as if it were alone', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(response, JSON.stringify(request.url?.slice(0, 20)))
  })
  const varve = await varveAt(t, stub.url)
  const targets = [modules, '/v1/spec', modules, '/nowhere', '/v1/accounts/0X1/modules', modules]
  const text = await sendRaw(varve.url, targets.map(get).join(''), so => statusesIn(so).length === targets.length)
  t.same(statusesIn(text), [200, 200, 200, 404, 400, 200])
  t.equal(stub.requests.length, 2)
})

for (const isSecure of [false, true]) {
  t.test(`bodies of pipelined requests are left unread until their turn${isSecure ? ', over TLS' : ''}`, async t => {
    const accepted: Socket[] = []
    onListener(t, server => server.on('connection', socket => accepted.push(socket)))
    const { stub, release } = await nodeWithOneHeldRead(t)
    const varve = await varveAt(t, stub.url, { upstream: { timeoutMs: 60_000 }, ...(isSecure && tlsOf(t)) })
    const lengths = Array.from({ length: 5 }, (_, at) => 900 * 1024 + at)
    const clients = Array.from({ length: 3 }, () => openRaw(t, varve.url, get(modules) + lengths.map(post).join('')))
    await until(
      () => stub.requests.length > 0 && accepted.length === clients.length,
      'a read of each connection is under way'
    )
    const bytesRead = (): number => accepted.reduce((sum, socket) => sum + socket.bytesRead, 0)
    await unchanged(bytesRead)
    t.ok(bytesRead() < clients.length * mega, `${bytesRead()} bytes were read ahead on ${clients.length} connections`)
    release()
    for (const client of clients) {
      await until(() => statusesIn(client.text).length === lengths.length + 1, 'each request has a response')
      t.same(bodiesIn(client.text), ['"released"', ...lengths.map(length => `"${length}"`)], 'in order')
    }
  })
}

for (const isSecure of [false, true]) {
  t.test(`requests pipelined beyond one read buffer are answered in order${isSecure ? ', over TLS' : ''}`, async t => {
    const stub = await startStubUpstream(t, (request, response) => {
      respondOk(response, `"${request.url?.split('=').at(-1)}"`)
    })
    const varve = await varveAt(t, stub.url, isSecure ? tlsOf(t) : {})
    const versions = Array.from({ length: 300 }, (_, at) => String(500 + at % 100))
    const padded = (version: string): string =>
      get(modules.replace('500', version)).replace('Host: x', `Host: x\r\nX: ${'y'.repeat(1000)}`)
    const client = openRaw(t, varve.url, versions.map(padded).join(''))
    await until(() => statusesIn(client.text).length === versions.length, 'each request has a response')
    t.same(bodiesIn(client.text), versions.map(version => `"${version}"`))
  })
}

t.test('a client that leaves while requests are queued is noticed once the current one times out', async t => {
  const { stub } = await nodeWithOneHeldRead(t)
  const varve = await varveAt(t, stub.url, { upstream: { timeoutMs: 300 } })
  const client = await openDeaf(t, varve.url, get(modules) + get('/v1/spec'))
  await until(() => stub.requests.length > 0, 'the upstream got the first request')
  client.destroy()
  await t.resolves(until(async () => await varve.metric('varve_connections') === 0, 'the connection has ended'))
})

t.test('complete pipelined requests are answered before an incomplete one times out', async t => {
  onListener(t, server => Object.assign(server, { requestTimeout: 300, headersTimeout: 300 }))
  const { stub, release } = await nodeWithOneHeldRead(t)
  const varve = await varveAt(t, stub.url, { upstream: { timeoutMs: 60_000 } })
  const client = openRaw(t, varve.url, get(modules) + get('/v1/spec') + post(100).slice(0, -50))
  const isTimedOut = async (): Promise<boolean> =>
    await varve.metric('varve_connections_cut_total{reason="head"}') === 1
  await until(isTimedOut, 'the time-out of the third request is over')
  release()
  await client.closed
  t.same(bodiesIn(client.text), ['"released"', '"0"'])
})

t.test('a client that pipelines without end is cut', async t => {
  const stub = await startHeldUpstream(t)
  const { next } = stub
  const varve = await varveAt(t, stub.url, { upstream: { timeoutMs: 60_000 } })
  const client = await openDeaf(t, varve.url, get(modules))
  await next()
  const closed = once(client.resume(), 'close')
  client.write(get(modules).repeat(400))
  await closed
  t.equal(stub.requests.length, 1)
  t.equal(await varve.metric('varve_connections_cut_total{reason="pipelining"}'), 1)
})

t.test('a read queued for an upstream connection times out too and releases its place', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url?.includes('500') === true) {
      response.writeHead(200, { 'content-type': 'application/json', ...stamps(), 'content-length': String(64 * mega) })
      response.write(Buffer.alloc(4 * mega))
    } else respondOk(response, '[]')
  })
  const varve = await varveAt(t, stub.url, { cache: { maxEntryMb: 1 }, upstream: { maxConcurrent: 1, timeoutMs: 300 } })
  const client = await openDeaf(t, varve.url, get(modules))
  await until(() => stub.requests.length > 0, 'the upstream got the request')
  const started = performance.now()
  const responses = await Promise.all(
    Array.from({ length: 5 }, async (_, at) => await varve.get(`/v1/accounts/0x${at + 2}/modules?ledger_version=600`))
  )
  t.same(responses.map(({ status }) => status), Array(5).fill(503))
  t.ok(performance.now() - started < 5000)
  client.destroy()
  await t.resolves(until(
    async () => (await varve.get('/v1/accounts/0x1/modules?ledger_version=600')).status === 200,
    'the place is free again'
  ))
})

t.test('a forwarded 410 counts as pruned, and other responses do not', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    response.writeHead(request.url === '/v1/gone' ? 410 : 404, { 'content-type': 'application/json', ...stamps() }).end(
      '{}'
    )
  })
  const varve = await varveAt(t, stub.url)
  for (const target of ['/v1/gone', '/v1/nowhere']) await varve.get(target)
  t.equal(await varve.metric('varve_pruned_requests_total{endpoint="other",answer="upstream"}'), 1)
})
