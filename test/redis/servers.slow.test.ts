import { Redis } from 'ioredis'
import t from 'tap'
import { startCluster, startSentinel } from '../support/redis-sets.js'
import { replicate, startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'

// Runs tests side by side: most of the time they wait for clusters and sentinels to agree.
t.jobs = 4

t.test('the tests have a real redis-server, found or installed by the set-up', async t => {
  const { client } = await startRedis(t)
  t.equal(await client.set('varve', 'laid down once'), 'OK')
  t.equal(await client.get('varve'), 'laid down once')
  t.match(await client.info('server'), /redis_version:\d+/)
})

t.test('the test server supports a password and TLS', async t => {
  const { client, url } = await startRedis(t, { password: 'p@ss/word', tls: true })
  t.match(url, /^rediss:\/\/:p%40ss%2Fword@127\.0\.0\.1:\d+$/)
  t.equal(await client.ping(), 'PONG')
})

t.test('a killed test server comes back empty at the same address, and its client reconnects', async t => {
  const redis = await startRedis(t)
  const { url, pid } = redis
  await redis.client.set('varve', 'laid down once')
  await redis.kill()
  t.notOk(redis.isRunning)
  await redis.restart()
  t.same([redis.url, await redis.client.get('varve')], [url, null])
  t.not(redis.pid, pid)
  await redis.stop()
  const other = await startRedis(t, { port: redis.port })
  t.equal(await other.client.ping(), 'PONG')
})

t.test('a frozen test server responds after it resumes', async t => {
  const redis = await startRedis(t)
  await redis.client.ping()
  redis.freeze()
  let hasResponded = false
  const ping = redis.client.ping().then(() => {
    hasResponded = true
  })
  await new Promise(resolve => {
    setTimeout(resolve, 50)
  })
  t.notOk(hasResponded)
  redis.thaw()
  await ping
  redis.freeze()
})

t.test('a full test server with noeviction rejects a write', async t => {
  const { client } = await startRedis(t, { maxmemory: '2mb', maxmemoryPolicy: 'noeviction' })
  await t.rejects(client.set('varve', Buffer.alloc(4_000_000)).then(async () => await client.set('varve', '')), {
    message: /^OOM/
  })
})

t.test('a test replica has its master\'s data and rejects writes', async t => {
  const master = await startRedis(t)
  await master.client.set('varve', 'laid down once')
  const replica = await startRedis(t, { replicaOf: master })
  t.equal(await replica.client.get('varve'), 'laid down once')
  await t.rejects(replica.client.set('varve', ''), { message: /^READONLY/ })
  await replicate(replica, undefined)
  t.equal(await replica.client.set('varve', ''), 'OK')
  await replicate(replica, master)
  t.equal(await replica.client.get('varve'), 'laid down once')
})

t.test('the simulated network delays, withholds, cuts, refuses and responds by itself', async t => {
  const redis = await startRedis(t, { password: 'secret' })
  const slow = await slowRedis(t, redis)
  const client = new Redis(slow.url, { retryStrategy: () => 20 }).on('error', () => {})
  t.teardown(() => {
    client.disconnect()
  })
  t.equal(await client.ping(), 'PONG')

  slow.delayMs = 60
  const before = performance.now()
  await Promise.all([client.ping(), client.ping()])
  t.ok(performance.now() - before > 55)
  slow.delayMs = 0

  slow.withhold()
  let hasResponded = false
  const write = client.set('varve', 'laid down once').finally(() => {
    hasResponded = true
  })
  await until(async () => await redis.client.exists('varve') === 1, 'the server has the key')
  t.notOk(hasResponded)
  slow.release()
  t.equal(await write, 'OK')

  const { connected } = slow
  slow.dropConnections()
  t.equal(await client.get('varve'), 'laid down once')
  t.ok(slow.connected > connected)

  slow.scriptedResponse = () => '?garbage\r\n'
  await t.rejects(client.get('varve'))
  slow.scriptedResponse = undefined
  slow.isRejecting = true
  slow.dropConnections()
  await t.rejects(client.get('varve'))
  slow.isRejecting = false
  t.equal(await client.get('varve'), 'laid down once')
})

t.test('a cluster of three serves while a slot moves, and partly when a node is killed', async t => {
  const cluster = await startCluster(t, { password: 'secret' })
  t.equal(cluster.hosts.length, 3)
  const slot = await cluster.slotOf('{varve}')
  const from = await cluster.ownerOf('{varve}')
  const to = (from + 1) % 3

  let written = 0
  const moved = new AbortController()
  const writing = (async () => {
    while (!moved.signal.aborted) await cluster.client.set(`{varve}:${written++}`, 'laid down once')
  })()
  await until(() => written > 200, '200 keys are written')
  await cluster.moveSlot(slot, from, to, async () => {
    const before = written
    await until(() => written > before + 20, 'keys are written to both')
  })
  moved.abort()
  await writing
  t.equal(await cluster.ownerOf('{varve}'), to)
  t.equal((await cluster.keys('{varve}:*')).length, written)
  t.equal(await cluster.client.get('{varve}:0'), 'laid down once')

  await cluster.killNode(from)
  t.equal(await cluster.client.get('{varve}:1'), 'laid down once')
  await cluster.restartNode(from)
  t.equal((await cluster.keys()).length, written)
})

t.test('the test cluster supports TLS', async t => {
  const { client } = await startCluster(t, { tls: true })
  for (const key of ['a', 'b', 'c', 'd']) t.equal(await client.set(key, 'laid down once'), 'OK')
})

for (const how of [{}, { tls: true, password: 'secret', sentinelPassword: 'other', replicas: 2 as const }]) {
  t.test(`sentinels announce another master on request and after a kill ${JSON.stringify(how)}`, async t => {
    const set = await startSentinel(t, how)
    t.equal(set.hosts.length, 3)
    const { master } = set
    await master.client.set('varve', 'laid down once')
    await set.failover()
    t.not(set.master, master)
    t.equal(await set.master.client.set('varve', 'once more'), 'OK')
    await until(async () => await master.client.get('varve') === 'once more', 'the old master follows the new one')
    await set.killMaster()
    t.equal(await set.master.client.set('varve', 'and again'), 'OK')
  })
}
