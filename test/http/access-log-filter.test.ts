import { Agent, type IncomingMessage, type ServerResponse } from 'node:http'
import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'
import { runWireSession } from '../support/wire/wire-session.js'

const read = '/v1/accounts/0x1/modules?ledger_version=500'

t.test('an access line has the chosen fields, in their order', async t => {
  const { varve } = await varveAtSandbox(t, {}, { log: { access: true, accessFields: ['tookMs', 'status', 'url'] } })
  await varve.get(read)
  const [line = {}] = varve.log.filter(({ msg }) => msg === 'request completed')
  t.same(Object.keys(line), ['level', 'time', 'pid', 'hostname', 'url', 'status', 'tookMs', 'msg'])
})

t.test('accessSample: 0 logs errors and slow responses only', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { log: { access: true, accessSample: 0 } })
  sandbox.faults.add({ kind: 'slow', ms: 1000, match: 'info' })
  await varve.get(read)
  await varve.get(read)
  await varve.get('/v1/accounts/xyz/modules')
  await varve.get('/v1/info')
  t.match(varve.log.filter(({ msg }) => msg === 'request completed'), [{ status: 400 }, {
    status: 200,
    url: '/v1/info'
  }])
})

t.test('an access line has the upstream, the attempts until it responded, and the body\'s bytes', async t => {
  const later = (body: string) => (_request: IncomingMessage, response: ServerResponse) => {
    setTimeout(() => respondOk(response, body), 100)
  }
  // The faster upstream is asked first.
  const good = await startStubUpstream(t, later('[{"a":1}]'), later('{}'))
  const bad = await startStubUpstream(t, (_request, response) => response.writeHead(500).end())
  const varve = await varveAt(t, bad.url, {
    log: { access: true },
    upstreams: configSchema.parse({ upstreams: [{ name: 'bad', url: bad.url }, { name: 'good', url: good.url }] })
      .upstreams
  })
  await varve.get(read)
  await varve.get(read)
  await varve.get(read, { method: 'HEAD' })
  await varve.get('/v1/somewhere')
  await varve.get('/nowhere')
  const lines = varve.log.filter(({ msg }) => msg === 'request completed')
  t.match(lines, [
    { outcome: 'miss', upstream: 'good', attempts: Number, bytes: 9 },
    { outcome: 'hit_memory', bytes: 9 },
    { outcome: 'hit_memory', bytes: 0 },
    { outcome: 'forwarded', upstream: 'good', attempts: Number },
    { outcome: 'rejected' }
  ])
  t.ok(lines.some(({ attempts }) => attempts === 2), 'a failed attempt is counted')
  for (const at of [1, 2, 4]) t.notOk('upstream' in (lines[at] ?? {}), String(at))
})

t.test('an access line has the length of a stream where one is known', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url === '/v1/long') response.writeHead(200, { 'content-length': 3 }).end('abc')
    else response.writeHead(200).end('abc')
  })
  const varve = await varveAt(t, stub.url, { log: { access: true, accessFields: ['url', 'bytes'] } })
  for (const target of ['/v1/long', '/v1/chunked']) t.match(await varve.get(target), { status: 200, body: 'abc' })
  const [long = {}, chunked = {}] = varve.log.filter(({ msg }) => msg === 'request completed')
  t.match(long, { url: '/v1/long', bytes: 3 })
  t.notOk('bytes' in chunked)
})

t.test('GET /-/healthz on the public listener needs no key and no upstream, and is in no metric', async t => {
  const varve = await varveAt(t, 'http://127.0.0.1:9', {
    log: { access: true },
    passThrough: 'none',
    clients: { required: true, keys: [{ name: 'a', key: 'k', requestsPerSecond: null }] }
  })
  t.match(await varve.get('/-/healthz'), {
    status: 200,
    body: '{"status":"alive"}',
    headers: { 'cache-control': 'no-store', 'cache-status': 'varve; detail=health' }
  })
  t.match(await varve.get('/-/healthz', { method: 'HEAD' }), { status: 200, body: '' })
  const checks = ['', 'Host: x\r\nContent-Encoding: gzip\r\n', 'Host: x\r\nExpect: x\r\n']
  for (const lines of checks) {
    const sent = `GET /-/healthz HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`
    t.match(await runWireSession(varve.url, [{ send: sent }]), /^HTTP\/1\.1 200 /, lines)
  }
  t.match(await varve.get('/-/healthz/x'), { status: 401 })
  t.match(await varve.get('/-/healthz', { method: 'DELETE' }), { status: 401 })
  t.notOk(varve.log.some(({ url, method }) => url === '/-/healthz' && method !== 'DELETE'), 'it has no access line')
})

t.test('with log.clientAddress each line names address and user agent, hits of known bytes too', async t => {
  const change = { trustProxy: ['loopback'], log: { access: true, clientAddress: true } }
  const { varve } = await varveAtSandbox(t, {}, change)
  const target = '/v1/accounts/0x1/modules?ledger_version=500'
  const headersOf = (nth: number) => ({ 'x-forwarded-for': `203.0.113.${nth % 2}`, 'user-agent': `wallet/${nth % 3}` })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let nth = 0; nth < 24; nth++) await sendRequest(varve.url, target, { headers: headersOf(nth), agent })
  const long = { 'user-agent': `wallet/${'1'.repeat(400)}` }
  await sendRequest(varve.url, target, { headers: { ...headersOf(7), ...long }, agent })
  agent.destroy()
  const lines = varve.log.filter(({ msg }) => msg === 'request completed')
  t.same(new Set(lines.slice(1).map(({ outcome }) => outcome)), new Set(['hit_memory']))
  for (const [nth, line] of lines.slice(0, 24).entries()) {
    t.match(line, { clientAddress: `203.0.113.${nth % 2}`, userAgent: `wallet/${nth % 3}` })
  }
  t.match(lines.at(-1), { clientAddress: '203.0.113.1', userAgent: /^wallet\/1{249}$/ })
  const { varve: usual } = await varveAtSandbox(t, {}, { ...change, log: { access: true } })
  await usual.get(target, { headers: headersOf(1) })
  const [line = {}] = usual.log.filter(({ msg }) => msg === 'request completed')
  t.notOk('clientAddress' in line || 'userAgent' in line, 'off by default')
})
