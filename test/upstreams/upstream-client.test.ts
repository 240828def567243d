import { once } from 'node:events'
import { type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type Socket } from 'node:net'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { type UpstreamClientOptions } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { startDelayedServer, blockLoop } from '../support/blocked-loop.js'
import { testRequest, upstreamClientAt } from '../support/upstream-client.js'
import { respondOk, startRawUpstream, stamps, startStubUpstream } from '../support/stub-upstream.js'

function clientAt (t: Test, url: string, change: Partial<UpstreamClientOptions> = {}) {
  const fetches: string[] = []
  return { client: upstreamClientAt(t, url, change, line => fetches.push(line)), fetches }
}

async function reasonOf (fetching: Promise<unknown>): Promise<string> {
  try {
    await fetching
    return 'responded'
  } catch (error) {
    return error instanceof UpstreamFailure ? error.reason : String(error)
  }
}

const head = (status: string, lines: string[]): string =>
  [
    `HTTP/1.1 ${status}`,
    'content-type: application/json',
    ...Object.entries(stamps()).map(line => line.join(': ')),
    ...lines,
    '',
    ''
  ].join('\r\n')

t.test('a request carries the operator\'s headers, one media type, no coding and nothing else', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const { client, fetches } = clientAt(t, `${stub.url}/key/`, {
    headers: { Authorization: 'Bearer secret', Accept: 'text/html' }
  })
  const upstreamResponse = await client.fetch(testRequest)
  t.same(stub.requests, ['GET /key/v1/accounts/0x1/modules'])
  const [lines = []] = stub.rawHeaders
  const sent = Object.fromEntries(
    lines.flatMap((name, at) => at % 2 === 0 ? [[name.toLowerCase(), lines[at + 1]]] : [])
  )
  t.same(Object.keys(sent).sort(), ['accept', 'accept-encoding', 'authorization', 'connection', 'host', 'user-agent'])
  t.match(sent, { accept: 'application/json', 'accept-encoding': 'identity', authorization: 'Bearer secret' })
  t.equal(upstreamResponse.body.toString(), '[]')
  t.equal(upstreamResponse.stamped?.position.head.version, 1000n)
  t.same(fetches, ['n account_modules 200'])
  t.ok(client.lastFetchSucceeded)
  t.equal(client.position?.head.version, 1000n)
})

t.test('an incomplete or malformed response is a failure with its reason', async t => {
  const cases: [string, (socket: Socket) => void][] = [
    ['truncated', socket => socket.end(head('200 OK', ['content-length: 10']) + '[]')],
    ['truncated', socket => socket.end(head('200 OK', ['transfer-encoding: chunked']) + '2\r\n[]\r\n')],
    ['truncated', socket => socket.destroy()],
    ['truncated', socket => socket.resetAndDestroy()],
    ['invalid_response', socket => socket.end('this is no HTTP\r\n\r\n')],
    [
      'invalid_response',
      socket => socket.end(head('200 OK', [`x-long: ${'x'.repeat(70_000)}`, 'content-length: 2']) + '[]')
    ],
    ...['gzip, chunked', 'chunked, chunked', 'xchunked', 'identity'].map((
      coding
    ): [string, (socket: Socket) => void] => [
      'invalid_response',
      socket => socket.end(head('200 OK', [`transfer-encoding: ${coding}`]) + '2\r\n[]\r\n0\r\n\r\n')
    ]),
    [
      'invalid_response',
      socket =>
        socket.end(
          head('200 OK', ['transfer-encoding: gzip, chunked']) + `100000\r\n${'x'.repeat(0x100000)}\r\n0\r\n\r\n`
        )
    ],
    ['timeout', socket => socket.write('HTTP/1.1 200 OK\r\n')],
    ['timeout', socket => socket.write(head('200 OK', ['content-length: 10']) + 'x')]
  ]
  for (const [reason, bytes] of cases) {
    const raw = await startRawUpstream(t, bytes)
    const { client, fetches } = clientAt(t, raw.url, { timeoutMs: reason === 'timeout' ? 200 : 3000 })
    t.equal(await reasonOf(client.fetch(testRequest)), reason)
    t.equal(raw.connections(), 1, 'requested once')
    t.notOk(client.lastFetchSucceeded)
    t.same(fetches, [`n account_modules ${reason}`])
  }
})

t.test('an unreachable upstream is a failure with its reason', async t => {
  t.equal(await reasonOf(clientAt(t, 'http://127.0.0.1:1').client.fetch(testRequest)), 'refused')
  t.equal(await reasonOf(clientAt(t, 'http://nowhere.invalid').client.fetch(testRequest)), 'unresolved')
})

t.test('requests beyond an upstream\'s queue are rejected at once, so the queue is bounded', async t => {
  const stub = await startStubUpstream(t, () => {})
  const { client, fetches } = clientAt(t, stub.url, { maxConcurrent: 1 })
  const queued = Array.from({ length: 8 }, async () => await reasonOf(client.fetch(testRequest)))
  t.equal(await reasonOf(client.fetch(testRequest)), 'no_slot')
  t.same(fetches, ['n account_modules no_slot'])
  await client.close()
  t.notOk((await Promise.all(queued)).includes('responded'), 'closing the upstream rejects all queued requests')
})

t.test('a 503 without a position counts as a failure; an error of the full node itself does not', async t => {
  const cases: Array<[why: string, status: number, headers: Record<string, string>, hasSucceeded: boolean]> = [
    ['a 503 of a gateway', 503, {}, false],
    ['a 500 of a full node', 500, stamps(), true],
    ['a framework error has no position', 400, {}, true]
  ]
  for (const [why, status, headers, hasSucceeded] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => response.writeHead(status, headers).end())
    const { client } = clientAt(t, stub.url)
    await client.fetch(testRequest)
    t.equal(client.lastFetchSucceeded, hasSucceeded, why)
  }
})

t.test('a keep-alive connection that closes under a read causes one retry and no error', async t => {
  const raw = await startRawUpstream(t, (socket, nth) => {
    socket.write(head('200 OK', ['content-length: 1']) + String(nth))
    socket.once('data', () => {
      socket.end()
    })
  })
  const { client } = clientAt(t, raw.url, { maxConcurrent: 1 })
  t.equal((await client.fetch(testRequest)).body.toString(), '1')
  t.equal((await client.fetch(testRequest)).body.toString(), '2')
  t.equal(raw.connections(), 2)
})

t.test('a response carries the release that was running before its request', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    client.setRelease('new')
    respondOk(response, '[]')
  })
  const { client } = clientAt(t, stub.url)
  t.equal((await client.fetch(testRequest)).release, undefined)
  t.equal(client.release, 'new')
})

const other: UpstreamRequest = { ...testRequest, endpoint: 'other', target: '/v1/spec.json', headers: {} }
const posted: UpstreamRequest = {
  ...other,
  method: 'POST',
  target: '/v1/view',
  body: Buffer.from('{}'),
  isIdempotent: false
}
const notCancelled = (): AbortSignal => new AbortController().signal

async function read ({ body, rest }: UpstreamResponse): Promise<string> {
  const chunks: Uint8Array[] = [body]
  for await (const chunk of rest ?? []) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

t.test('cancelling a request aborts it upstream and does not count against the upstream', async t => {
  let arrived: (response: ServerResponse) => void = () => {}
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url === '/v1/spec.json') arrived(response)
    else respondOk(response, '[]')
  })
  const { client, fetches } = clientAt(t, stub.url)
  await client.fetch(testRequest)
  const here = new Promise<ServerResponse>(resolve => {
    arrived = resolve
  })
  const before = new AbortController()
  const fetching = reasonOf(client.forward(other, before.signal))
  const pendingResponse = await here
  const closed = once(pendingResponse, 'close')
  before.abort()
  t.equal(await fetching, 'cancelled')
  await closed
  const started = new Promise<ServerResponse>(resolve => {
    arrived = resolve
  })
  const during = new AbortController()
  const passing = client.forward(other, during.signal)
  const response = await started
  response.writeHead(200, stamps()).write('a')
  const responseClosed = once(response, 'close')
  const upstreamResponse = await passing
  during.abort()
  await responseClosed
  await t.rejects(read(upstreamResponse))
  const requestCount = stub.requests.length
  t.equal(await reasonOf(client.forward(other, AbortSignal.abort())), 'cancelled')
  t.equal(stub.requests.length, requestCount, 'a request that is cancelled first is never sent')
  t.ok(client.lastFetchSucceeded)
  t.same(fetches, ['n account_modules 200', 'n other cancelled', 'n other 200', 'n other cancelled'])
})

t.test('a forwarded response occupies its slot exactly until its body ends', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    response.writeHead(200, {
      ...stamps(),
      ...(request.url?.includes('declared') === true && { 'content-length': '6' })
    })
    if (request.url?.includes('whole') === true) response.end('abcdef')
    else if (request.method === 'HEAD') response.end()
    else response.write('abc')
    if (request.url?.includes('cut') === true) {
      setImmediate(() => {
        response.destroy()
      })
    }
  })
  const { client, fetches } = clientAt(t, stub.url, { maxConcurrent: 1 })
  const ends: [string, string, (upstreamResponse: UpstreamResponse, controller: AbortController) => unknown][] = [
    ['GET', 'whole', read],
    ['GET', 'whole', ({ rest }) => {
      rest?.destroy()
    }],
    ['GET', 'open', ({ rest }) => {
      rest?.destroy()
    }],
    ['GET', 'open', (_response, controller) => {
      controller.abort()
    }],
    ['GET', 'cut', async upstreamResponse => {
      await t.rejects(read(upstreamResponse))
    }],
    ['HEAD', 'open', ({ rest }) => {
      rest?.destroy()
    }],
    ['HEAD', 'open', read]
  ]
  for (const [method, how, end] of ends) {
    for (const declared of ['', '&declared']) {
      // Repeats more often than there are slots, so a leaked slot shows.
      for (let round = 0; round < 10; round++) {
        const controller = new AbortController()
        await end(
          await client.forward({ ...other, method, target: `/v1/x?${how}${declared}` }, controller.signal),
          controller
        )
      }
    }
  }
  t.same(new Set(fetches), new Set(['n other 200']))
  const slots = await Promise.all(
    Array.from(
      { length: 8 },
      async (_, at) => at === 0 ? await client.forward({ ...other, target: '/v1/x?open' }, notCancelled()) : undefined
    )
  )
  const queued = Array.from({ length: 7 }, async () => await reasonOf(client.fetch(testRequest)))
  t.equal(await reasonOf(client.forward(other, notCancelled())), 'no_slot', 'a streaming response counts as in flight')
  slots[0]?.rest?.destroy()
  await client.close()
  await Promise.all(queued)
})

t.test('an upstream that goes silent within a forwarded body times out', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(200, stamps()).write('a')
  })
  const { client } = clientAt(t, stub.url, { timeoutMs: 200 })
  await t.rejects(read(await client.forward(other, notCancelled())), { code: 'UND_ERR_BODY_TIMEOUT' })
})

t.test('a request that is not idempotent is sent once, even if its keep-alive connection dies', async t => {
  const raw = await startRawUpstream(t, socket => {
    socket.write(head('200 OK', ['content-length: 2']) + '[]')
    socket.once('data', () => {
      socket.destroy()
    })
  })
  const { client, fetches } = clientAt(t, raw.url, { maxConcurrent: 1 })
  t.equal((await client.fetch(testRequest)).status, 200)
  t.equal(await reasonOf(client.forward(posted, notCancelled())), 'truncated')
  t.equal(raw.connections(), 1)
  t.same(fetches, ['n account_modules 200', 'n other truncated'])
  for (const begun of ['', 'HTTP/1.1 200 OK\r\ncontent-', 'HTTP/1.1 103 Early Hints\r\n\r\n']) {
    const dying = await startRawUpstream(t, socket => {
      socket.end(begun)
    })
    t.equal(await reasonOf(clientAt(t, dying.url).client.forward(posted, notCancelled())), 'truncated')
    t.equal(dying.connections(), 1, begun)
  }
})

t.test('operator headers win over a client\'s, except for Accept and Accept-Encoding', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const { client } = clientAt(t, stub.url, {
    headers: { 'User-Agent': 'operator', 'X-Key': 'mine', Accept: 'text/html', 'Accept-Encoding': 'deflate' }
  })
  const sentBy = async (sentRequest: UpstreamRequest): Promise<Record<string, string>> => {
    await read(await client.forward(sentRequest, notCancelled()))
    const lines = stub.rawHeaders.at(-1) ?? []
    return Object.fromEntries(
      lines.flatMap((name, at) => at % 2 === 0 ? [[name.toLowerCase(), lines[at + 1] ?? '']] : [])
    )
  }
  t.match(
    await sentBy({
      ...other,
      headers: { accept: 'a/b', 'accept-encoding': 'gzip' },
      callerHeaders: { 'user-agent': 'client', 'x-key': 'theirs', 'x-aptos-client': 'sdk' }
    }),
    { 'user-agent': 'operator', 'x-key': 'mine', 'x-aptos-client': 'sdk', accept: 'a/b', 'accept-encoding': 'gzip' }
  )
  t.match(await sentBy(other), { 'user-agent': 'operator', accept: 'text/html', 'accept-encoding': 'identity' })
})

t.test('a timeout does not count against an upstream that has responded in the meantime', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url?.endsWith('/lost') !== true) respondOk(response, '[]')
  })
  const { client } = clientAt(t, stub.url, { timeoutMs: 1000 })
  const lost = reasonOf(client.fetch({ ...testRequest, target: '/v1/lost' }))
  await client.fetch(testRequest)
  t.equal(await lost, 'timeout')
  t.ok(client.lastFetchSucceeded)
  t.equal(await reasonOf(client.fetch({ ...testRequest, target: '/v1/lost' })), 'timeout')
  t.notOk(client.lastFetchSucceeded, 'a timeout of a request sent later does')
})

t.test('a response that arrived while varve\'s event loop was blocked is no upstream failure', async t => {
  const port = await startDelayedServer(t, 300, `${head('200 OK', ['content-length: 2'])}[]`)
  const lost: string[] = []
  const { client, fetches } = clientAt(t, `http://127.0.0.1:${port}`, {
    timeoutMs: 1000,
    onConnectionLost: () => {
      lost.push('lost')
    }
  })
  await client.fetch(testRequest)
  const fetching = reasonOf(client.fetch(testRequest))
  // Lets the request leave first; its response comes much later.
  await new Promise(resolve => {
    setTimeout(resolve, 50)
  })
  // Continues in the check phase, after which timers run before sockets.
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  blockLoop(2500)
  t.equal(await fetching, 'responded')
  t.same([client.lastFetchSucceeded, fetches, lost], [true, ['n account_modules 200', 'n account_modules 200'], []])
})

t.test('running out of local resources is no failure of the upstream: the request was never sent', async t => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']) {
    t.equal(UpstreamFailure.of('n', Object.assign(new Error('connect'), { code })).reason, 'exhausted', code)
  }
  t.equal(UpstreamFailure.of('n', Object.assign(new Error('connect'), { code: 'EHOSTUNREACH' })).reason, 'unreachable')
})
