import { type IncomingMessage } from 'node:http'
import t, { type Test } from 'tap'
import { sendRaw } from '../support/raw.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { type ConfigChange, type TestVarve, varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const unknown = '/v1/spec.json'
const own = /^req-[0-9a-f]{10}-[0-9a-z]+$/
const given = 'edge/7f3a:42'

/** Starts varve before an upstream that records the headers of each request. */
async function start (
  t: Test,
  change: ConfigChange = {}
): Promise<{ varve: TestVarve, sent: Array<IncomingMessage['headers'] & { url: string }> }> {
  const sent: Array<IncomingMessage['headers'] & { url: string }> = []
  const upstream = await startStubUpstream(t, (request, response) => {
    sent.push({ ...request.headers, url: request.url ?? '' })
    respondOk(response, '[]')
  })
  return { varve: await varveAt(t, upstream.url, { passThrough: 'all', log: { access: true }, ...change }), sent }
}

const idsIn = (varve: TestVarve): unknown[] =>
  varve.log.filter(({ msg }) => msg === 'request completed').map(({ id }) => id)

t.test('every response has an id of its own; its access line has it, and the trace of its client', async t => {
  const { varve } = await start(t)
  const ids: unknown[] = []
  // A miss, hits by the router and by the fast path, a forwarded read, an error and a preflight.
  const preflight = { origin: 'https://a.example', 'access-control-request-method': 'GET' }
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  for (const trace of [{}, { traceparent: `00-${traceId}-b7ad6b7169203331-01` }]) {
    for (const target of [modules, modules, modules, unknown, '/v1/blocks/by_version/x', '/nowhere']) {
      ids.push((await varve.get(target, { headers: trace })).headers['x-request-id'])
    }
    const headers = { ...preflight, ...trace }
    ids.push((await varve.get(modules, { method: 'OPTIONS', headers })).headers['x-request-id'])
  }
  for (const id of ids) t.match(id, own)
  t.equal(new Set(ids).size, ids.length)
  t.same(idsIn(varve), ids)
  const traces = varve.log.flatMap(line => line['msg'] === 'request completed' ? [line['traceId']] : [])
  t.same(traces, ids.map((_id, at) => at < ids.length / 2 ? undefined : traceId))
})

t.test('an id is taken from a trusted proxy, on every kind of response', async t => {
  const { varve } = await start(t, { trustProxy: ['loopback'] })
  for (const target of [modules, modules, modules, unknown, '/v1/blocks/by_version/x']) {
    t.equal((await varve.get(target, { headers: { 'x-request-id': given } })).headers['x-request-id'], given, target)
  }
  t.same(new Set(idsIn(varve)), new Set([given]))
  t.match((await varve.get(modules)).headers['x-request-id'], own, 'made if the proxy sends none')
})

t.test('an id of any other client is ignored', async t => {
  const [one, other] = [await start(t), await start(t, { trustProxy: ['10.0.0.0/8'] })]
  for (const { varve } of [one, other]) {
    t.match((await varve.get(modules, { headers: { 'x-request-id': given } })).headers['x-request-id'], own)
    t.match((await varve.get(modules, { headers: { 'x-request-id': given } })).headers['x-request-id'], own)
  }
})

t.test('an id that is no plain word is replaced, also from a trusted proxy', async t => {
  const { varve } = await start(t, { trustProxy: ['loopback'] })
  for (const id of ['', 'a b', 'a"b', 'a,b', 'caf\xe9', '<b>', 'x'.repeat(129)]) {
    t.match((await varve.get(modules, { headers: { 'x-request-id': id } })).headers['x-request-id'], own, id)
  }
  const longest = 'x'.repeat(128)
  t.equal((await varve.get(modules, { headers: { 'x-request-id': longest } })).headers['x-request-id'], longest)
  const twice = await sendRaw(
    varve.url,
    `GET ${modules} HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\nX-Request-Id: b\r\nConnection: close\r\n\r\n`
  )
  t.match(twice, /\r\nx-request-id: req-/)
})

t.test('a forwarded request has the id; a known read has none, because it may serve many', async t => {
  const { varve, sent } = await start(t, { trustProxy: ['loopback'] })
  await varve.get(unknown, { headers: { 'x-request-id': given } })
  const { headers } = await varve.get(unknown)
  await varve.get(modules, { headers: { 'x-request-id': given } })
  t.same(sent.filter(({ url }) => url === unknown).map(({ 'x-request-id': id }) => id), [
    given,
    headers['x-request-id']
  ])
  t.same(sent.filter(({ url }) => url.includes('/modules')).map(({ 'x-request-id': id }) => id), [undefined])
})

t.test('ids of a trusted proxy are sampled for access lines like others', async t => {
  const { varve } = await start(t, { trustProxy: ['loopback'], log: { access: true, accessSample: 0.5 } })
  for (let nth = 0; nth < 10; nth++) await varve.get(modules, { headers: { 'x-request-id': `edge-${nth}` } })
  t.equal(idsIn(varve).length, 5)
})
