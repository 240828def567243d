import { connect } from 'node:net'
import t from 'tap'
import { openRaw, sendRaw, statusesIn, tlsOf } from '../support/raw.js'
import { startEmptyUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { together } from '../support/together.js'

// Runs tests side by side, because each waits ten seconds for clients of its own.
t.jobs = 4
// Creates an object per test: tap writes into it, so tests with one object would run the same callback.

t.test('a client that stops inside its request head gets a 408', together(), async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url)
  t.same(statusesIn(await sendRaw(varve.url, 'GET /v1/info HTTP/1.1\r\nHost: x\r\nX: ')), [408])
})

t.test('slow senders are cut off over TLS too, also within the handshake', together(), async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url, tlsOf(t))
  const plainUrl = varve.url.replace('https:', 'http:')
  const started = performance.now()
  // Head of a TLS record of 512 bytes, which never come.
  const handshake = Buffer.from('1603010200010001fc', 'hex')
  const manners: Array<[url: string, first: string | Buffer]> = [
    [plainUrl, ''],
    [plainUrl, handshake],
    [varve.url, ''],
    [varve.url, 'GET /v1/info HTTP/1.1\r\nHost: x\r\nX: '],
    [varve.url, 'POST /v1/tables/0x1/item HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{']
  ]
  await Promise.all(manners.map(async ([url, first]) => {
    const { socket, closed } = openRaw(t, url, first)
    const drip = setInterval(() => {
      if (first !== '') socket.write('x')
    }, 500)
    await closed
    clearInterval(drip)
  }))
  t.ok(performance.now() - started < 10_000, `${Math.round(performance.now() - started)} ms`)
  for (const [reason, count] of [['handshake', 2], ['head', 2], ['body', 1]]) {
    t.equal(await varve.metric(`varve_connections_cut_total{reason="${reason}"}`), count, String(reason))
  }
})

t.test('a client that never closes its side is disconnected however it was slow', together(), async t => {
  const varve = await varveAt(t, (await startEmptyUpstream(t)).url, { limits: { bodyKb: 1 } })
  const { hostname, port } = new URL(varve.url)
  const post = 'POST /v1/tables/0x1/item HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
  const manners = [
    '',
    'GET /v1/info HTTP/1.1\r\nHost: x\r\nX: ',
    `${post}Content-Length: 100\r\n\r\n`,
    `${post}Transfer-Encoding: chunked\r\n\r\n`,
    `${post}Content-Length: 5000\r\n\r\n{`,
    'what is this\r\n\r\n',
    'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'
  ]
  for (const manner of manners) {
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    socket.on('error', () => {}).resume()
    t.teardown(() => socket.destroy())
    socket.write(manner)
  }
  await until(async () => await varve.metric('varve_connections') === manners.length, 'all connections are open', 1000)
    .catch(
      () => {}
    )
  const started = performance.now()
  await until(async () => await varve.metric('varve_connections') === 0, 'none is left', 12_000)
  t.ok(performance.now() - started < 10_000, `${Math.round(performance.now() - started)} ms`)
})
