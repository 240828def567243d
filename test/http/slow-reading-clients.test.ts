import { createServer, type ServerResponse } from 'node:http'
import t from 'tap'
import { ConnectionLimiter } from '../../src/http/connection-limiter.js'
import { accelerateClientTimeouts } from '../support/accelerated-timeouts.js'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'
import { openDeaf, readSlowly } from '../support/raw.js'
import { listening, respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const kilo = 1024
const mega = 1024 * kilo
const modules = '/v1/accounts/0x1/modules?ledger_version=500'

const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`

t.test('clients that read 150 and 32 KB a second receive a large response whole', async t => {
  // Reads a hundred times as fast, since varve's seconds last 10 ms.
  accelerateClientTimeouts(t, 10)
  const stub = await startStubUpstream(t, (_request, response) => respondOk(response, 'x'.repeat(7.25 * mega)))
  const varve = await varveAt(t, stub.url)
  const read = async (rate: number): Promise<number> =>
    await readSlowly(await openDeaf(t, varve.url, get(modules)), rate * kilo)
  const sizes = await Promise.all([150, 32].map(async rate => await read(rate * 100)))
  t.ok(sizes.every(size => size > 7.25 * mega), `${sizes.join(' and ')} bytes received`)
  t.equal(await varve.metric('varve_connections_cut_total{reason="stalled"}'), 0)
})

t.test('if memory in flight is exceeded, the slowest client is cut and others receive everything', async t => {
  const bytes = 8 * mega
  const cuts: string[] = []
  const counts = {
    cut: (reason: string) => cuts.push(reason),
    onFull: () => {}
  }
  // Slow readers may hold half of the budget.
  const inFlight = new InFlightBytes(5 * bytes, () => performance.now())
  const clients = new ConnectionLimiter({ connections: 10, inFlight }, counts)
  const responses: ServerResponse[] = []
  const server = createServer((_request, response) => {
    const body = Buffer.alloc(bytes)
    clients.trackBody(response, body)
    response.end(body)
    responses.push(response)
  })
  clients.attach(server)
  const url = await listening(t, server)
  const sockets = await Promise.all([1, 2, 3].map(async () => await openDeaf(t, url, get('/'))))
  await until(() => responses.length === 3, 'three responses are under way')
  for (let second = 1; second <= 6; second++) clients.tick()
  t.same(cuts, [], 'no client is judged yet')
  clients.tick()
  t.same(cuts, ['memory'], 'one of three is cut')
  clients.tick()
  t.same(cuts, ['memory'], 'only one is cut')
  const sizes = await Promise.all(sockets.map(async socket => await readSlowly(socket, Infinity)))
  t.equal(sizes.filter(size => size > bytes).length, 2)
})
