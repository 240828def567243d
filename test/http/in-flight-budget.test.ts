import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { openDeaf } from '../support/raw.js'
import { respondOk, stamps, startHeldUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const mega = 1024 * 1024
const large = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const small = (version: number): string => `/v1/accounts/0x5/modules?ledger_version=${version}`

const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`
const statusOf = async (varve: TestVarve, target: string, localAddress: string): Promise<string> => {
  const { status, headers } = await sendRequest(varve.url, target, { localAddress })
  return `${status} ${headers['retry-after'] ?? headers['cache-status']}`
}

t.test('beyond the budget responses stream unstored, then misses get 503, and hits go on', async t => {
  const body = 'x'.repeat(12 * mega)
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(response, /0x0*5\//.test(request.url ?? '') ? '[]' : body)
  })
  const varve = await varveAt(t, stub.url, { limits: { inFlightMb: 32 }, cache: { maxEntryMb: 16 } })
  const inFlight = async (): Promise<number> => await varve.metric('varve_in_flight_bytes') ?? 0
  for (let round = 0; round < 2; round++) await varve.get(small(500))
  const slow = await openDeaf(t, varve.url, get(large(501)), '127.0.0.2')
  const second = await openDeaf(t, varve.url, get(large(502)), '127.0.0.3')
  await until(async () => await inFlight() >= 24 * mega, 'two responses are held')
  const third = sendRequest(varve.url, large(503), { localAddress: '127.0.0.4' })
  t.match(await third, { status: 200, headers: { 'cache-status': /detail=over_budget/ } })
  t.equal((await third).bytes.length, body.length)
  t.equal(
    await varve.metric('varve_not_stored_total{endpoint="account_modules",reason="over_budget"}'),
    1,
    'the reason is counted'
  )
  t.match(await statusOf(varve, small(504), '127.0.0.4'), /^200 .*stored/, 'short responses are stored all the same')
  // Each stream takes 128 KB of the 8 MB that are left.
  const streams = await Promise.all(
    Array.from(
      { length: 64 },
      async (_, nth) => await openDeaf(t, varve.url, get(large(600 + nth)), `127.0.0.${10 + nth % 8}`)
    )
  )
  await until(async () => await inFlight() >= 32 * mega, 'all bytes of the budget are in flight')
  t.equal(await statusOf(varve, small(505), '127.0.0.4'), '503 1', 'a miss gets 503 with Retry-After')
  t.match(await sendRequest(varve.url, '/v1/spec.json'), {
    status: 503,
    body: /limits\.inFlightMb is used up: serving cached responses only/
  })
  t.match(await statusOf(varve, small(500), '127.0.0.4'), /^200 varve; hit/)
  t.ok((await varve.metric('varve_in_flight_rejected_total') ?? 0) >= 2)
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body), {
    ready: true,
    degraded: [/% of requests fail$/, /^limits\.inFlightMb is used up: /]
  })
  for (const socket of [slow, second, ...streams]) socket.destroy()
  await until(async () => await inFlight() === 0, 'no bytes are in flight')
  t.match(await statusOf(varve, small(505), '127.0.0.4'), /^200/)
})

t.test('beside half of the budget a client\'s responses stream, and none of them is refused', async t => {
  const body = 'x'.repeat(7 * mega)
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body, { 'content-length': String(body.length) })
  })
  const varve = await varveAt(t, stub.url, { limits: { inFlightMb: 32 } })
  const readers = await Promise.all(
    Array.from({ length: 40 }, async (_, nth) => await openDeaf(t, varve.url, get(large(600 + nth)), '127.0.0.2'))
  )
  const streams = async (): Promise<number> =>
    await varve.metric('varve_upstream_slots_held_by_streams{upstream="node"}') ?? 0
  await until(async () => await streams() === 38, 'all but two responses stream')
  t.ok((await varve.metric('varve_in_flight_bytes') ?? 0) < 24 * mega)
  const { status, bytes } = await sendRequest(varve.url, large(500), { localAddress: '127.0.0.2' })
  t.same([status, bytes.length], [200, body.length])
  t.equal(await varve.metric('varve_in_flight_rejected_total'), 0)
  for (const reader of readers) reader.destroy()
})

t.test('a client with half of the budget gets 503 while bytes are short, and others are served', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(response, /0x0*5\//.test(request.url ?? '') ? '[]' : 'x'.repeat(12 * mega))
  })
  const varve = await varveAt(t, stub.url, { limits: { inFlightMb: 32 }, cache: { maxEntryMb: 16 } })
  const inFlight = async (): Promise<number> => await varve.metric('varve_in_flight_bytes') ?? 0
  for (const version of [501, 502]) await openDeaf(t, varve.url, get(large(version)), `127.0.0.${version - 499}`)
  await until(async () => await inFlight() >= 24 * mega, 'two clients hold 12 MB each')
  for (let nth = 0; nth < 32; nth++) await openDeaf(t, varve.url, get(large(600 + nth)), '127.0.0.2')
  await until(async () => await inFlight() >= 28 * mega, 'streams of one of them take 4 MB more')
  t.equal(await statusOf(varve, small(503), '127.0.0.2'), '503 1')
  t.match(await statusOf(varve, small(504), '127.0.0.4'), /^200/)
})

t.test('request bodies take bytes until they are answered, chunked ones by their actual length', async t => {
  let release = (): void => {}
  const stub = await startStubUpstream(t, (request, response) => {
    request.resume()
    release = () => respondOk(response, '[]')
  })
  const varve = await varveAt(t, stub.url, { limits: { inFlightMb: 4 }, passThrough: 'all' })
  const inFlight = async (): Promise<number> => await varve.metric('varve_in_flight_bytes') ?? 0
  const warnings: string[] = []
  const onWarning = ({ message }: Error): unknown => warnings.push(message)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
    const sent = sendRequest(varve.url, '/v1/transactions', { method: 'POST', body: Buffer.alloc(100_000), headers })
    await until(
      async () => stub.requests.length > 0 && await inFlight() === 100_000,
      'the bytes of the request are in flight'
    )
    release()
    await sent
    stub.requests.length = 0
    await until(async () => await inFlight() === 0, 'no bytes are in flight')
  }
  const header = 'POST /v1/transactions HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n{'
  for (let nth = 0; nth < 4; nth++) await openDeaf(t, varve.url, header, `127.0.0.${2 + nth}`)
  await until(async () => await inFlight() === 4 * mega, 'bodies that never come take all bytes')
  t.match(await sendRequest(varve.url, '/v1/transactions', { body: Buffer.alloc(20_000) }), {
    status: 503,
    headers: { 'retry-after': '1' },
    body: /no room for a large request body/
  })
  t.same(warnings, [], 'no response has listeners without bound')
})

t.test('a short response that failed is counted while another upstream is asked', async t => {
  const failing = await startStubUpstream(t, (_request, response) => {
    response.writeHead(500, { ...stamps(), 'content-type': 'application/json' }).end(JSON.stringify('x'.repeat(10_000)))
  })
  const held = await startHeldUpstream(t)
  const { upstreams } = configSchema.parse({
    upstreams: [{ name: 'first', url: failing.url }, { name: 'second', url: held.url, priority: 1 }]
  })
  const varve = await varveAt(t, failing.url, { upstreams })
  const inFlight = async (): Promise<number> => await varve.metric('varve_in_flight_bytes') ?? 0
  const sent = varve.get(small(500))
  const response = await held.next()
  t.ok(await inFlight() >= 10_000)
  respondOk(response, '[]')
  t.match(await sent, { status: 200 })
  await until(async () => await inFlight() === 0, 'no bytes are in flight')
})
