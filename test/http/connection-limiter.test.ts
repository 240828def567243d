import { setTimeout as pause } from 'node:timers/promises'
import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { accelerateClientTimeouts } from '../support/accelerated-timeouts.js'
import { startGatedUpstream } from '../support/stub-upstream.js'
import { openRaw, tlsOf } from '../support/raw.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const heldTarget = modules.replace('500', '600')
const wire = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`
const cut = (reason: string): string => `varve_connections_cut_total{reason="${reason}"}`

/** Opens a connection on which a test asks for one read after another. */
function clientOf (t: Test, { url }: TestVarve, localAddress?: string) {
  const client = openRaw(t, url, '', localAddress)
  const get = async (target: string): Promise<void> => {
    client.text = ''
    client.socket.write(wire(target))
    await until(() => client.text.endsWith('[]') || client.socket.destroyed, 'a response comes')
    t.match(client.text, /\[\]$/, target)
  }
  return Object.assign(client, { get })
}

type Client = ReturnType<typeof clientOf>

async function idle (): Promise<void> {
  // Waits for more than one accelerated second.
  await pause(250)
}

for (const isSecure of [false, true]) {
  t.test(`at the limit the longest idle connection closes, or else the new one${isSecure ? ', over TLS' : ''}`, async t => {
    accelerateClientTimeouts(t, 60)
    const upstream = await startGatedUpstream(t, /600/)
    const tls = isSecure ? tlsOf(t) : {}
    const varve = await varveAt(t, upstream.url, {
      limits: { connections: 3 },
      upstream: { timeoutMs: 60_000 },
      ...tls
    })
    t.equal(await varve.metric(cut('idle')), 0, 'the series exist from the start')
    const clients = []
    for (let nth = 0; nth < 3; nth++) {
      const client = clientOf(t, varve)
      await client.get(modules)
      clients.push(client)
      await idle()
    }
    t.equal(await varve.metric('varve_connections'), 3)
    t.equal(await varve.metric('varve_connections_waiting'), 0)
    const [first, second, third] = clients as [Client, Client, Client]
    // Uses the first connection again, so the second is idle for longest.
    await first.get(modules)
    await idle()
    const fourth = clientOf(t, varve)
    await fourth.get(modules)
    await second.closed
    t.match([first, third].map(({ socket }) => socket.destroyed), [false, false])
    t.equal(await varve.metric(cut('idle')), 1)
    for (const { socket } of [first, third, fourth]) socket.write(wire(heldTarget))
    await until(() => upstream.requests.length === 2, 'both requests wait for the upstream')
    await idle()
    for (let nth = 0; nth < 3; nth++) await clientOf(t, varve).closed
    t.equal(await varve.metric(cut('connection_limit')), 3)
    t.equal(await varve.metric('varve_connections'), 3)
    t.match(JSON.parse(await fetch(`${varve.adminUrl}/readyz`).then(async response => await response.text())), {
      ready: true,
      degraded: ['connection limit reached: new clients replace idle ones or are closed']
    })
    await until(
      () => varve.log.some(({ turnedAway, limit }) => Number(turnedAway) > 0 && limit === 3),
      'the log reports it'
    )
    upstream.release()
    await until(
      () => [first, third, fourth].every(({ text }) => text.endsWith('[]')),
      'connections within the limit get responses'
    )
    t.ok(varve.log.filter(({ turnedAway }) => turnedAway !== undefined).length <= 2, 'the log is rate-limited')
  })
}

for (const isSecure of [false, true]) {
  t.test(`a client keeps half of the connections while others come${isSecure ? ', over TLS' : ''}`, async t => {
    const upstream = await startGatedUpstream(t, /600/)
    const tls = isSecure ? tlsOf(t) : {}
    const varve = await varveAt(t, upstream.url, {
      limits: { connections: 4 },
      upstream: { timeoutMs: 60_000 },
      ...tls
    })
    const greedy: Client[] = []
    for (let nth = 0; nth < 4; nth++) {
      const client = clientOf(t, varve, '127.0.0.2')
      client.socket.write(wire(`${heldTarget}&limit=${nth + 1}`))
      await until(() => upstream.requests.length === nth + 1, 'the request waits for the upstream')
      greedy.push(client)
    }
    await clientOf(t, varve, '127.0.0.2').closed
    t.match(greedy.map(({ socket }) => socket.destroyed), [false, false, false, false], 'its own new one is closed')
    const others = [clientOf(t, varve, '127.0.0.3'), clientOf(t, varve, '127.0.0.4')]
    for (const [nth, other] of others.entries()) {
      await other.get(modules)
      other.socket.write(wire(heldTarget))
      await greedy[nth]?.closed
    }
    await until(() => upstream.requests.length === 6, 'no connection is idle')
    await clientOf(t, varve, '127.0.0.5').closed
    t.match(greedy.map(({ socket }) => socket.destroyed), [true, true, false, false], 'it keeps half')
    t.equal(await varve.metric(cut('connection_limit')), 4)
    t.equal(await varve.metric('varve_connections'), 4)
    upstream.release()
    await until(() => [...greedy.slice(2), ...others].every(({ text }) => text.endsWith('[]')), 'all are answered')
  })
}

for (const isSecure of [false, true]) {
  t.test(`a lower connection limit closes exactly the surplus of idle connections${isSecure ? ', over TLS' : ''}`, async t => {
    accelerateClientTimeouts(t, 100, 2)
    const upstream = await startGatedUpstream(t, /600/)
    const tls = isSecure ? tlsOf(t) : {}
    const varve = await varveAt(t, upstream.url, tls)
    const clients = [clientOf(t, varve), clientOf(t, varve), clientOf(t, varve)]
    for (const client of clients) await client.get(modules)
    const config = configSchema.parse({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0' },
      upstreams: [{ name: 'node', url: upstream.url }],
      head: { pollMs: 600_000 },
      limits: { connections: 1 },
      ...tls
    })
    await varve.reload(config)
    await until(() => clients.filter(({ socket }) => socket.destroyed).length === 2, 'two of three end')
    await idle()
    t.equal(await varve.metric('varve_connections'), 1)
    t.equal(await varve.metric(cut('idle')), 2)
  })
}

t.test('a connection that sends only blank lines is cut, though each line is activity', async t => {
  accelerateClientTimeouts(t, 10)
  const upstream = await startGatedUpstream(t, /600/)
  const varve = await varveAt(t, upstream.url)
  const client = clientOf(t, varve)
  await client.get(modules)
  const drip = setInterval(() => client.socket.write('\r\n'), 50)
  await client.closed
  clearInterval(drip)
  t.equal(await varve.metric(cut('head')), 1)
})

t.test('plain HTTP or an aborted handshake on a TLS listener harms no other client', async t => {
  const upstream = await startGatedUpstream(t, /600/)
  const varve = await varveAt(t, upstream.url, { ...tlsOf(t), limits: { headerKb: 1 } })
  const { hostname, port } = new URL(varve.url)
  for (const text of [wire(modules), '\x16\x03\x01', '']) {
    const socket = connect(Number(port), hostname).on('error', () => {}).resume()
    await once(socket, 'connect')
    if (text !== '') {
      await new Promise(resolve => socket.write(text, resolve))
    }
    if (text.startsWith('GET')) await once(socket, 'close')
    else socket.destroy()
  }
  const client = clientOf(t, varve)
  await client.get(modules)
  await until(async () => await varve.metric('varve_connections') === 1, 'one connection is left')
  client.socket.write(`GET ${modules} HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(2000)}\r\n\r\n`)
  await client.closed
  t.match(client.text, /HTTP\/1\.1 431/, 'header limits apply over TLS too')
})
