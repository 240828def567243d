import t from 'tap'
import { DnsCache, type Resolve } from '../../src/upstreams/dns.js'
import { createClient, createSubscriberClient, type RedisConnectionOptions } from '../../src/redis/create-client.js'
import { startCluster, startSentinel } from '../support/redis-sets.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

const nowhere: RedisConnectionOptions = {
  url: null,
  cluster: [],
  sentinel: { name: null, hosts: [], password: null },
  username: null,
  password: null,
  tls: false,
  ca: undefined
}

const toLoopback: Resolve = async () => [{ address: '127.0.0.1', family: 4 }]

/** DNS cache that counts queries; the system knows none of the names. */
function named (): {
  lookup: NonNullable<RedisConnectionOptions['lookup']>,
  lookups: string[],
  resolveWith: (resolve: Resolve) => void
} {
  const lookups: string[] = []
  let current = toLoopback
  const names = new DnsCache({
    now: () => performance.now(),
    timeoutMs: 500,
    resolve: async hostname => {
      lookups.push(hostname)
      return await current(hostname)
    }
  })
  return {
    lookup: names.lookup,
    lookups,
    resolveWith: resolve => {
      current = resolve
    }
  }
}

t.test('Redis is reached by name, and at its last address while DNS hangs', async t => {
  const redis = await startRedis(t)
  const { lookup, lookups, resolveWith } = named()
  const client = createClient({ ...nowhere, url: `redis://redis.example:${redis.port}`, lookup }).on('error', () => {})
  t.teardown(() => {
    client.disconnect()
  })
  await client.connect()
  t.equal(await client.ping(), 'PONG')
  // Hangs, so that one query must serve all attempts.
  resolveWith(async () => await new Promise(() => {}))
  await redis.kill()
  await until(() => client.status === 'reconnecting', 'the client reconnects')
  // Waits for the second query: a result that is still cached would need none.
  await until(() => lookups.length === 2, 'the host name is looked up again')
  await redis.start()
  await until(async () => await client.ping() === 'PONG', 'Redis responds again')
  t.same(lookups, ['redis.example', 'redis.example'])
})

t.test('clusters, sentinels and subscribers are reached by name too', async t => {
  const cluster = await startCluster(t)
  const { lookup, lookups } = named()
  const place = {
    ...nowhere,
    cluster: [{ host: 'cluster.example', port: Number(cluster.hosts[0]?.split(':')[1]) }],
    lookup
  }
  for (const client of [createClient(place), createSubscriberClient(place, 0)]) {
    client.on('error', () => {})
    await client.connect()
    t.equal(await client.ping(), 'PONG')
    client.disconnect()
  }
  t.same([...new Set(lookups)], ['cluster.example'])
  const { name, hosts } = await startSentinel(t)
  const master = createClient({
    ...nowhere,
    sentinel: {
      name,
      hosts: hosts.map(host => ({ host: 'sentinel.example', port: Number(host.split(':')[1]) })),
      password: null
    },
    lookup
  }).on('error', () => {})
  t.teardown(() => {
    master.disconnect()
  })
  await master.connect()
  t.equal(await master.ping(), 'PONG')
  t.ok(lookups.includes('sentinel.example'))
})
