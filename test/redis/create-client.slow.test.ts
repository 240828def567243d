import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mock } from 'node:test'
import { type Cluster } from 'ioredis'
import t, { type Test } from 'tap'
import { createClient } from '../../src/redis/create-client.js'
import { certificate } from '../support/certificate.js'
import { startCluster, startSentinel } from '../support/redis-sets.js'
import {
  type RedisConfigChange,
  checkDegraded,
  isRedisUp,
  marginMs,
  redisWriteCount,
  slowestOf,
  startReplicaPair,
  untilShared
} from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

/** Writes the certificate of the servers to a file, as an operator has it. */
function caFileOf (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'varve-ca-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  const file = join(folder, 'ca.pem')
  writeFileSync(file, certificate)
  return file
}

async function shares (t: Test, redis: RedisConfigChange): Promise<void> {
  const pair = await startReplicaPair(t, { timeoutMs: 500, ...redis })
  await until(
    async () => await isRedisUp(pair.first) && await isRedisUp(pair.second),
    'both replicas reach Redis',
    5000
  )
  await untilShared(pair)
  t.pass('the entry is shared')
}

async function isRejected (t: Test, redis: RedisConfigChange, by: RegExp): Promise<void> {
  const { first, newTarget } = await startReplicaPair(t, { timeoutMs: 500, ...redis })
  await checkDegraded(t, first, by)
  t.notOk(await isRedisUp(first))
  t.ok(await slowestOf(t, first, [newTarget(), newTarget()]) < marginMs)
  t.equal(await redisWriteCount(first), 0, 'nothing is written')
}

t.test('varve connects with a URL that has an escaped password and a database', async t => {
  const redis = await startRedis(t, { password: 'p@ss:w/rd?%&' })
  await shares(t, { url: `${redis.url}/3` })
  t.match(await redis.client.info('keyspace'), /db3:/)
  t.notMatch(await redis.client.info('keyspace'), /db0:/)
  await isRejected(t, { url: `redis://${redis.host}` }, /NOAUTH/)
})

t.test('varve connects as a user that may access only varve\'s keys, in the URL or beside it', async t => {
  const redis = await startRedis(t, { password: 'of the default user' })
  await redis.client.call(
    'ACL',
    'SETUSER',
    'cache',
    'on',
    '>se%cret',
    '~varve:*',
    '&varve:*',
    '+@all',
    '-@admin',
    '-@dangerous',
    '+info'
  )
  for (
    const change of [
      { url: `redis://cache:se%25cret@${redis.host}` },
      { url: `redis://${redis.host}`, username: 'cache', password: 'se%cret' },
      { url: `redis://cache@${redis.host}`, password: 'se%cret' },
      { url: `redis://other:wrong@${redis.host}`, username: 'cache', password: 'se%cret' }
    ]
  ) await shares(t, change)
  await isRejected(t, { url: `redis://${redis.host}`, username: 'cache', password: 'wrong' }, /WRONGPASS/)
})

t.test('varve connects over TLS and trusts the certificate because of its caFile alone', async t => {
  const redis = await startRedis(t, { tls: true, password: 'secret' })
  const caFile = caFileOf(t)
  await shares(t, { url: redis.url, caFile })
  await shares(t, { url: redis.url.replace('rediss:', 'redis:'), tls: true, caFile })
  await isRejected(t, { url: redis.url }, /self-signed certificate/)
  await isRejected(t, { url: redis.url.replace('127.0.0.1', 'localhost'), caFile }, /altnames|localhost/)
  await isRejected(t, { url: redis.url.replace('rediss:', 'redis:') }, /connection closed|ECONNRESET/)
})

t.test('varve connects to a cluster behind TLS and a password', async t => {
  const cluster = await startCluster(t, { tls: true, password: 'secret' })
  await shares(t, { cluster: cluster.hosts, password: 'secret', tls: true, caFile: caFileOf(t) })
  await isRejected(t, { cluster: cluster.hosts, password: 'wrong', tls: true, caFile: caFileOf(t) }, /WRONGPASS/)
  await isRejected(
    t,
    { cluster: cluster.hosts, password: 'secret', tls: true },
    /self-signed certificate|Connection is closed/
  )
})

t.test('a client that leaves a cluster while it reads the slots reads them no more', async t => {
  const { nodes } = await startCluster(t)
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const client = createClient({
    url: null,
    cluster: nodes.map(({ port }) => ({ host: '127.0.0.1', port })),
    sentinel: { name: null, hosts: [], password: null },
    username: null,
    password: null,
    tls: false,
    ca: undefined
  }).on('error', () => {}) as Cluster
  await client.connect()
  const { refreshSlotsCache } = client
  const refreshes = t.capture(client, 'refreshSlotsCache', refreshSlotsCache)
  mock.timers.tick(5000)
  client.disconnect()
  await once(client, 'end')
  await new Promise(resolve => {
    refreshSlotsCache.call(client, resolve)
  })
  t.equal(refreshes().length, 1)
  mock.timers.tick(60_000)
  t.equal(refreshes().length, 0)
})

t.test('varve connects to sentinels behind TLS and a password of their own', async t => {
  const set = await startSentinel(t, { tls: true, password: 'secret', sentinelPassword: 'other' })
  const sentinel = { name: set.name, hosts: set.hosts, password: 'other' }
  const caFile = caFileOf(t)
  await shares(t, { sentinel, password: 'secret', tls: true, caFile })
  await isRejected(
    t,
    { sentinel: { ...sentinel, password: 'wrong' }, password: 'secret', tls: true, caFile },
    /WRONGPASS/
  )
  await isRejected(t, { sentinel, password: 'wrong', tls: true, caFile }, /WRONGPASS/)
  await isRejected(t, { sentinel, password: 'secret', tls: true }, /sentinels are unreachable/)
  await isRejected(
    t,
    { sentinel: { ...sentinel, name: 'another' }, password: 'secret', tls: true, caFile },
    /sentinel/i
  )
})
