import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import t, { type Test } from 'tap'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { type UpstreamOptions } from '../../src/upstreams/upstream.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { startDelayedServer, blockLoop } from '../support/blocked-loop.js'
import { testRequest, upstreamAt } from '../support/upstream.js'
import { respondOk, stamps, startEmptyUpstream, startStubUpstream } from '../support/stub-upstream.js'

function clientAt (t: Test, url: string, change: Partial<UpstreamOptions> = {}) {
  const fetches: string[] = []
  return { client: upstreamAt(t, url, change, line => fetches.push(line)), fetches }
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
  const stub = await startEmptyUpstream(t)
  const { client } = clientAt(t, `${stub.url}/key/`, {
    headers: { Authorization: 'Bearer secret', Accept: 'text/html' }
  })
  const { body } = await client.send(testRequest)
  t.same(stub.requests, ['GET /key/v1/accounts/0x1/modules'])
  const [lines = []] = stub.rawHeaders
  const sent = Object.fromEntries(
    lines.flatMap((name, at) => at % 2 === 0 ? [[name.toLowerCase(), lines[at + 1]]] : [])
  )
  t.same(Object.keys(sent).sort(), ['accept', 'accept-encoding', 'authorization', 'connection', 'host', 'user-agent'])
  t.match(sent, { accept: 'application/json', 'accept-encoding': 'identity', authorization: 'Bearer secret' })
  t.equal(body.toString(), '[]')
})

t.test('an unreachable upstream is a failure with its reason', async t => {
  t.equal(await reasonOf(clientAt(t, 'http://127.0.0.1:1').client.send(testRequest)), 'refused')
  t.equal(await reasonOf(clientAt(t, 'http://nowhere.invalid').client.send(testRequest)), 'unresolved')
})

t.test('a failure says what stands behind the port instead of a full node', async t => {
  const described = async (url: string): Promise<unknown> => {
    const failure: unknown = await clientAt(t, url).client.send(testRequest).catch((error: unknown) => error)
    return failure instanceof UpstreamFailure ? failure.description : failure
  }
  const listening = async (server: Server): Promise<string> => {
    t.teardown(() => server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return `127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  const answering = (bytes: Buffer): Server =>
    createServer(socket => {
      socket.on('error', () => {}).once('data', () => socket.end(bytes))
    })
  const redis = answering(Buffer.from('-ERR wrong number of arguments for \'get\' command\r\n'))
  // A fatal alert: unexpected message.
  const secure = answering(Buffer.from('15030100020246', 'hex'))
  t.equal(await described('http://127.0.0.1:1'), 'connection refused')
  t.equal(new UpstreamFailure('n', 'invalid_response', undefined).description, 'invalid_response', 'a useless response')
  t.equal(await described(`http://${await listening(redis)}`), 'a response of Redis, not HTTP')
  t.equal(await described(`http://${await listening(secure)}`), 'plain HTTP on a TLS port; use https://')
  const plain = await startEmptyUpstream(t)
  t.equal(await described(plain.url.replace('http:', 'https:')), 'TLS error: no TLS on this port; use http://')
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
    await client.send(testRequest)
    t.equal(client.lastFetchSucceeded, hasSucceeded, why)
  }
})

t.test('a response carries the release that was running before its request', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    client.release = 'new'
    respondOk(response, '[]')
  })
  const { client } = clientAt(t, stub.url)
  t.equal((await client.send(testRequest)).release, undefined)
  t.equal(client.release, 'new')
})

const streamed: UpstreamRequest = { ...testRequest, endpoint: 'other', target: '/v1/spec.json', isStreamed: true }

async function read ({ body, rest }: UpstreamResponse): Promise<string> {
  const chunks: Uint8Array[] = [body]
  for await (const chunk of rest ?? []) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

t.test('an upstream that goes silent within a forwarded body times out', async t => {
  const stub = await startStubUpstream(t, (_request, response) => response.writeHead(200, stamps()).write('a'))
  const { client } = clientAt(t, stub.url, { timeoutMs: 200 })
  await t.rejects(read(await client.send(streamed)), { code: 'UND_ERR_BODY_TIMEOUT' })
})

t.test('a timeout does not count against an upstream that has responded in the meantime', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url?.endsWith('/lost') !== true) respondOk(response, '[]')
  })
  const { client } = clientAt(t, stub.url, { timeoutMs: 1000 })
  const lost = reasonOf(client.send({ ...testRequest, target: '/v1/lost' }))
  await client.send(testRequest)
  t.equal(await lost, 'timeout')
  t.ok(client.lastFetchSucceeded)
  t.equal(await reasonOf(client.send({ ...testRequest, target: '/v1/lost' })), 'timeout')
  t.notOk(client.lastFetchSucceeded, 'a timeout of a request sent later does')
})

t.test('a response that arrived while varve\'s event loop was blocked is no upstream failure', async t => {
  const port = await startDelayedServer(t, 300, `${head('200 OK', ['content-length: 2'])}[]`)
  const lost: string[] = []
  const { client, fetches } = clientAt(t, `http://127.0.0.1:${port}`, {
    timeoutMs: 1000,
    onConnectionLost: () => lost.push('lost')
  })
  await client.send(testRequest)
  const fetching = reasonOf(client.send(testRequest))
  // Lets the request leave first; its response comes much later.
  await new Promise(resolve => setTimeout(resolve, 50))
  // Continues in the check phase, after which timers run before sockets.
  await new Promise(resolve => setImmediate(resolve))
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
