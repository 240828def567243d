import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { ParsedRequestCache } from '../../src/cache/parsed-request-cache.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { ParsedRequest, type RequestVariantCache } from '../../src/proxy/parsed-request.js'
import { type ProxyContext } from '../../src/proxy/proxy-context.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { variantKeyOf } from '../../src/api/request-variant-key.js'
import { installFastPath } from '../../src/http/fast-path.js'
import { sendRequest, type TestRequest, type TestResponse, tableItemLookup } from '../support/client.js'
import { contextAt } from '../support/proxy-context.js'
import { listenerContextOf } from '../support/listener-context.js'
import { sendRaw, statusesIn } from '../support/raw.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const table = '/v1/tables/0xab/item?ledger_version=500'

/** Starts a fast path before a router that records each request it receives, with its body. */
async function front (
  t: Test
): Promise<
  {
    url: string,
    parts: ProxyContext,
    metrics: Metrics,
    routed: string[],
    learn: (target: string, options?: TestRequest) => Promise<void>
  }
> {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const { context } = contextAt(t, stub.url)
  const parsedRequests: RequestVariantCache = new ParsedRequestCache(1e6)
  const metrics = new Metrics()
  const routed: string[] = []
  const server = createServer((request: IncomingMessage, response) => {
    let body = ''
    request.setEncoding('latin1').on('data', (chunk: string) => {
      body += chunk
    }).on('end', () => {
      routed.push(`${request.method} ${request.url} ${body}`.trim())
      response.end('routed')
    })
  })
  installFastPath(server, listenerContextOf(context, { parsedRequests, metrics }), () => 'req-1')
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    parts: context,
    metrics,
    routed,
    learn: async (target, { body = '', headers = {} } = {}) => {
      const match = matchEndpoint(target, 'GET')
      const variant = {
        method: body === '' ? 'GET' : 'POST',
        target,
        accept: undefined,
        contentType: headers['content-type'] as string | undefined,
        body: Buffer.from(body)
      }
      const variantKey = variantKeyOf(variant)
      if (match === undefined || variantKey === undefined) throw new Error('no read')
      const read = readRequest(match, variant, { eventsDefault: 25 })
      await serveRead(context, read)
      parsedRequests.put(variantKey, new ParsedRequest(read))
    }
  }
}

t.test('a hit with a known request variant is served without the router', async t => {
  const { url, routed, metrics, learn } = await front(t)
  const lookup = tableItemLookup('u64', '"1"')
  await learn(modules)
  await learn(table, lookup)
  const hit = { status: 200, headers: { 'cache-status': 'varve; hit; detail=memory', 'x-node-ledger-version': '1000' } }
  t.match(await sendRequest(url, modules), { ...hit, body: '[]' })
  t.match(await sendRequest(url, modules, { method: 'HEAD' }), { ...hit, body: '' })
  t.match(await sendRequest(url, table, lookup), { ...hit, body: '[]' })
  const { etag = '' } = (await sendRequest(url, modules)).headers
  t.match(await sendRequest(url, modules, { headers: { 'if-none-match': etag } }), { status: 304, body: '' })
  t.same(routed, [])
  t.match(
    await metrics.registry.metrics(),
    /varve_requests_total\{endpoint="account_modules",outcome="hit_memory",status="200"\} 3\n/
  )
  t.match(
    await metrics.registry.metrics(),
    /varve_requests_total\{endpoint="table_item",outcome="hit_memory",status="200"\} 1\n/
  )
})

t.test('every other request reaches the router unchanged', async t => {
  const { url, routed, metrics, learn } = await front(t)
  const lookup = tableItemLookup('u64', '"1"')
  await learn(modules)
  await learn(table, lookup)
  const bytes = `${lookup.body as string}`
  const head = (more: string): string =>
    `POST ${table} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${more}\r\n`
  const cases: [title: string, raw: string, routed: string][] = [
    ['another method', `DELETE ${modules} HTTP/1.1\r\nHost: x\r\n\r\n`, `DELETE ${modules}`],
    ['another request variant', `GET ${modules}&limit=5 HTTP/1.1\r\nHost: x\r\n\r\n`, `GET ${modules}&limit=5`],
    [
      'another representation',
      `GET ${modules} HTTP/1.1\r\nHost: x\r\nAccept: application/x-bcs\r\n\r\n`,
      `GET ${modules}`
    ],
    ['two hosts', `GET ${modules} HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n`, `GET ${modules}`],
    ['a coded body', `GET ${modules} HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n\r\n`, `GET ${modules}`],
    ['another body', `${head('Content-Length: 2\r\n')}{}`, `POST ${table} {}`],
    ['no body', head('Content-Length: 0\r\n'), `POST ${table}`],
    [
      'another type of body',
      `${head(`Content-Length: ${bytes.length}\r\n`).replace('application/json', 'application/json;x')}${bytes}`,
      `POST ${table} ${bytes}`
    ],
    [
      'a body that is not plain',
      `${head(`Content-Encoding: gzip\r\nContent-Length: ${bytes.length}\r\n`)}${bytes}`,
      `POST ${table} ${bytes}`
    ],
    ['a long body', `${head('Content-Length: 5000\r\n')}${'x'.repeat(5000)}`, `POST ${table} ${'x'.repeat(5000)}`]
  ]
  for (const [title, raw, expected] of cases) {
    routed.length = 0
    t.match(await sendRaw(url, raw, text => text.endsWith('routed')), /routed$/, title)
    t.same(routed, [expected], title)
  }
  t.notMatch(await metrics.registry.metrics(), /varve_requests_total\{/, 'none of them is counted here')
})

t.test('a body that arrives after its header is read by the router, whole', async t => {
  const { url, routed, learn } = await front(t)
  const lookup = tableItemLookup('u64', '"1"')
  await learn(table, lookup)
  const body = String(lookup.body)
  const { hostname, port } = new URL(url)
  for (const cut of [0, 10]) {
    const socket = connect(Number(port), hostname).setNoDelay()
    await once(socket, 'connect')
    const arrived = once(socket, 'data')
    socket.write(
      `POST ${table} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n${
        body.slice(0, cut)
      }`
    )
    // Node.js sends 100 once it has read the header.
    t.match(String((await arrived)[0]), /^HTTP\/1.1 100/)
    const received = once(socket, 'data')
    socket.end(body.slice(cut))
    t.match(String((await received)[0]), /routed/)
    socket.destroy()
  }
  t.same(routed, Array(2).fill(`POST ${table} ${body}`))
})

t.test('pipelined requests are answered in order, from the fast path or the router', async t => {
  const { url, learn, routed } = await front(t)
  await learn(modules)
  const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`
  const text = await sendRaw(
    url,
    get(modules) + get('/a') + get(modules) + get('/b'),
    so => so.endsWith('routed') && statusesIn(so).length === 4
  )
  t.match(text.replace(/HTTP[^]*?\r\n\r\n/g, ' '), /^ \[\] routed .* routed$/)
  t.same(routed.filter(line => !line.endsWith(modules)), ['GET /a', 'GET /b'])
})

t.test('a read that is no longer a hit goes to the router: evicted, chain unknown or failing', async t => {
  const { url, parts, routed, learn } = await front(t)
  const spoil: [string, (parts: ProxyContext) => void][] = [
    ['invalidated', parts => {
      parts.memory.clear()
    }],
    ['observed', parts => {
      Object.assign(parts.settings, { isObserving: true })
      for (const holder of parts.memory.memoHolders) holder.dropMemo()
    }],
    ['failing', parts => {
      parts.memory.get = () => {
        throw new Error('broken')
      }
      for (const holder of parts.memory.memoHolders) holder.dropMemo()
    }],
    ['an unknown chain', parts => {
      parts.tracker.clearChain()
    }]
  ]
  const original = { ...parts, get: parts.memory.get }
  for (const [title, apply] of spoil) {
    await learn(modules)
    t.equal((await sendRequest(url, modules)).body, '[]')
    apply(parts)
    t.equal((await sendRequest(url, modules)).body, 'routed', title)
    Object.assign(parts.settings, { isObserving: false })
    parts.memory.get = original.get
  }
  t.equal(routed.length, spoil.length)
})

t.test('a response is the same from the router and the fast path, in every form a client may want', async t => {
  const { varve } = await varveAtSandbox(t, {}, { log: { access: true } })
  // Leading zeros make another request variant of the same read, unknown to the fast path.
  const targets: [target: (zeros: string) => string, how: TestRequest][] = [
    [zeros => `/v1/accounts/0x1/modules?ledger_version=${zeros}2000&limit=1`, {}],
    [zeros => `/v1/blocks/by_version/${zeros}2000`, {}],
    [zeros => `/v1/blocks/by_version/${zeros}2000?with_transactions=true`, {}],
    [zeros => `/v1/tables/0x5eed/item?ledger_version=${zeros}2000`, tableItemLookup('u64', '"7"')]
  ]
  const wishes: Record<string, string>[] = [
    {},
    { accept: 'application/x-bcs' },
    { 'accept-encoding': 'gzip, deflate, br' },
    { 'if-none-match': '*' },
    { 'if-none-match': '"other"' },
    { origin: 'https://app.example' },
    { range: 'bytes=0-3' },
    { 'if-modified-since': 'Sat, 21 Nov 2026 00:00:00 GMT' },
    { 'cache-control': 'no-cache' }
  ]
  let requestCount = 0
  for (const [target, options] of targets) {
    for (const method of options.body === undefined ? ['GET', 'HEAD'] : ['POST']) {
      for (const [at, wish] of wishes.entries()) {
        const responseTo = async (zeros: string): Promise<TestResponse> => {
          requestCount++
          const got = await varve.get(target(zeros), { ...options, method, headers: { ...options.headers, ...wish } })
          return { ...got, headers: { ...got.headers, date: '', 'x-request-id': '' } }
        }
        const isReady = ({ headers }: TestResponse): boolean =>
          String(headers['cache-status']).includes('hit') &&
          (wish['accept-encoding'] === undefined || headers['content-encoding'] !== undefined ||
            Number(headers['content-length']) < 256)
        await until(async () => isReady(await responseTo('0')), 'every form is there')
        const zeros = '0'.repeat(2 + at + (method === 'HEAD' ? wishes.length : 0))
        const routed = await responseTo(zeros)
        for (const how of ['at hand', 'once more']) {
          t.same(await responseTo(zeros), routed, `${how}: ${method} ${target(zeros)} ${JSON.stringify(wish)}`)
        }
      }
    }
  }
  const logged = varve.log.filter(({ msg }) => msg === 'request completed')
  t.equal(logged.length, requestCount)
  t.equal(new Set(logged.map(({ id }) => id)).size, requestCount, 'each has its own request id in the log')
})
