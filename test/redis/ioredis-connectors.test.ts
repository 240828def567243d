import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createSubscriberClient, type RedisConnectionOptions, MasterConnector } from '../../src/redis/create-client.js'
import { certificate } from '../support/certificate.js'
import { startSentinel } from '../support/redis-sets.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

const nowhere: RedisConnectionOptions = {
  url: null,
  cluster: [],
  sentinel: { name: null, hosts: [], password: null },
  username: null,
  password: 'secret',
  tls: true,
  ca: undefined
}

// Errors without a listener end the process, and tap then fails the test.
async function leaves (t: Test, place: RedisConnectionOptions): Promise<void> {
  const ends = Array.from({ length: 120 }, async (_, at) => {
    const client = createSubscriberClient(place, at)
    const ended = new Promise<void>(resolve => {
      client.once('end', () => {
        resolve()
      })
    })
    client.on('error', () => {})
    client.connect().catch(() => {})
    await pause(at / 4)
    client.disconnect()
    await ended
  })
  await Promise.all(ends)
  t.equal(ends.length, 120, 'each connection ended')
}

t.test('a connection may be closed at any moment of a TLS handshake, certificate trusted or not', async t => {
  const redis = await startRedis(t, { tls: true, password: 'secret' })
  await leaves(t, { ...nowhere, url: redis.url })
  await leaves(t, { ...nowhere, url: redis.url, ca: certificate })
})

t.test('closing a cluster or Sentinel connection during its handshake writes nothing to stderr', async t => {
  const printed = t.capture(console, 'error')
  const redis = await startRedis(t, { tls: true, password: 'secret' })
  await leaves(t, { ...nowhere, cluster: [{ host: '127.0.0.1', port: redis.port }] })
  const { name, hosts } = await startSentinel(t, { tls: true, password: 'secret' })
  await leaves(t, {
    ...nowhere,
    sentinel: {
      name,
      hosts: hosts.map(host => ({ host: '127.0.0.1', port: Number(host.split(':')[1]) })),
      password: null
    },
    ca: certificate
  })
  t.same(printed(), [])
})

t.test('errors of Sentinel connections are handled, also if they are closed while connecting', async t => {
  const printed = t.capture(console, 'error')
  const redis = await startRedis(t, { tls: true })
  const sentinels = [{ host: '127.0.0.1', port: redis.port }]
  const timeouts = { disconnectTimeout: 500, connectTimeout: 500, sentinelCommandTimeout: 500 }
  await Promise.all(Array.from({ length: 120 }, async (_, at) => {
    const connector = new MasterConnector({
      sentinels,
      name: 'x',
      sentinelTLS: {},
      failoverDetector: true,
      sentinelMaxConnections: 10,
      sentinelReconnectStrategy: () => null,
      ...timeouts
    })
    // ioredis calls this once it has reached the master.
    const listening = (connector as unknown as { initFailoverDetector(): Promise<void> }).initFailoverDetector()
    await pause(at / 4)
    connector.disconnect()
    await listening.catch(() => {})
  }))
  // Sockets end a moment later.
  await until(
    () =>
      process.getActiveResourcesInfo().filter(name => name === 'TLSSocketWrap' || name === 'TCPSocketWrap').length <= 1,
    'the sockets are closed'
  )
  t.same(printed(), [])
})
