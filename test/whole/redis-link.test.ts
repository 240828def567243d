import t from 'tap'
import { freePort } from '../support/free-port.js'
import { startIdleMeter } from '../support/idle-meter.js'
import {
  redisErrorsOf,
  checkDegraded,
  checkResponse,
  isRedisUp,
  marginMs,
  readiness,
  startReplicaPair,
  checkShared,
  slowestOf,
  untilShared,
  redisWriteCount
} from '../support/replica-pair.js'
import { replicate, startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/slow-redis.js'
import { until } from '../support/until.js'

// Long enough for a Redis that answers, however busy the machine is.
const timeoutMs = 500
// Short, where nothing comes and all of it is waited for.
const soonMs = 100

t.test('with a Redis that is dead at the start varve starts, is ready, answers, and uses it once it is there', async t => {
  const port = await freePort()
  const waited = startIdleMeter()
  const sharers = await startReplicaPair(t, { url: `redis://127.0.0.1:${port}`, timeoutMs })
  t.ok(waited() < 2000, 'it starts at once')
  const { first, newTarget } = sharers
  t.notOk(await isRedisUp(first))
  await checkDegraded(t, first, /^Redis unreachable: connect ECONNREFUSED/)
  t.ok(await slowestOf(t, first, [newTarget(), newTarget(), newTarget()]) < marginMs)
  t.ok((await redisErrorsOf(first)).connect, 'it is counted')
  await startRedis(t, { port })
  await until(async () => await isRedisUp(first) && await isRedisUp(sharers.second), 'it is up', 3500)
  await checkShared(t, sharers, 'it is shared')
  t.same((await readiness(first)).degraded, [])
})

t.test('with a Redis that takes connections at the start and says nothing varve starts all the same', async t => {
  const redis = await startRedis(t)
  redis.freeze()
  const waited = startIdleMeter()
  const sharers = await startReplicaPair(t, { url: redis.url, timeoutMs: soonMs })
  t.ok(waited() < 2 * 10 * soonMs + 2000, 'it does not wait for ever')
  const { first, second, newTarget } = sharers
  t.notOk(await isRedisUp(first))
  await checkDegraded(t, first, /^Redis unreachable: (?:not connected yet|Command timed out)/)
  t.ok(await slowestOf(t, first, [newTarget(), newTarget(), newTarget()]) < marginMs)
  redis.thaw()
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'it is up', 3500)
  await untilShared(sharers)
})

t.test('with a wrong password varve says so, answers, and uses Redis once the password is right', async t => {
  const redis = await startRedis(t, { password: 'right' })
  const sharers = await startReplicaPair(t, { url: `redis://${redis.host}`, password: 'wrong', timeoutMs })
  const { first, newTarget } = sharers
  t.notOk(await isRedisUp(first))
  await checkDegraded(t, first, /^Redis authentication failed: WRONGPASS/)
  t.ok(await slowestOf(t, first, [newTarget(), newTarget(), newTarget()]) < marginMs)
  t.equal(await redisWriteCount(first), 0)
  await redis.client.config('SET', 'requirepass', 'wrong')
  await until(async () => await isRedisUp(first) && await isRedisUp(sharers.second), 'it is up', 3500)
  await checkShared(t, sharers, 'it is shared')
})

t.test('a Redis that is full and evicts nothing is up, answers what it has and says what it refuses; what waits is written when there is room', async t => {
  const redis = await startRedis(t, { maxmemoryPolicy: 'noeviction' })
  const sharers = await startReplicaPair(t, { url: redis.url, timeoutMs })
  const { first, second, upstream, newTarget } = sharers
  await until(async () => (await readiness(first)).degraded.length > 0, 'it says what the policy leads to')
  await checkDegraded(t, first, /noeviction.*allkeys-lru/)
  const had = newTarget()
  await first.get(had)
  await until(async () => await redisWriteCount(first) === 1, 'it is written')
  await redis.client.config('SET', 'maxmemory', '1')
  const refused = [newTarget(), newTarget(), newTarget()]
  t.ok(await slowestOf(t, first, refused) < marginMs)
  await until(async () => ((await redisErrorsOf(first)).set ?? 0) > 0, 'the refusal is counted')
  await checkDegraded(t, first, /^Redis rejects writes: OOM/)
  t.ok(await isRedisUp(first), 'it answers, so it is up')
  t.equal((await second.get(had)).headers['cache-status'], 'varve; hit; detail=redis', 'what it has is shared')
  await redis.client.config('SET', 'maxmemory', '64mb')
  await until(async () => await redisWriteCount(first) >= 1 + refused.length, 'what has waited is written')
  const asked = upstream.requests.length
  for (const target of refused) checkResponse(t, await second.get(target), target)
  t.equal(upstream.requests.length, asked)
  t.notOk((await readiness(first)).degraded.some(text => text.includes('Redis rejects')), 'it does not say so any more')
})

t.test('a read-only replica is up, answers what it has and says what it refuses', async t => {
  const master = await startRedis(t)
  const redis = await startRedis(t)
  const sharers = await startReplicaPair(t, { url: redis.url, timeoutMs })
  const { first, second, newTarget } = sharers
  const writer = await startReplicaPair(t, { url: master.url, timeoutMs })
  const had = Array.from({ length: 50 }, writer.newTarget)
  for (const target of had) await writer.first.get(target)
  await until(async () => await redisWriteCount(writer.first) === had.length, 'all is written at the master')
  await replicate(redis, master)
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'it is up', 3500)
  // For a moment after each look whether another server is behind the name it is not known what others say.
  await until(
    async () => (await second.get(had.pop() ?? '')).headers['cache-status'] === 'varve; hit; detail=redis',
    'what it has is had'
  )
  const refused = [newTarget(), newTarget()]
  t.ok(await slowestOf(t, first, refused) < marginMs)
  await until(async () => ((await redisErrorsOf(first)).set ?? 0) > 0, 'the refusal is counted')
  // It looks now and then whether another server is behind the name by now, and stays where it is not.
  await until(
    async () =>
      await isRedisUp(first) &&
      (await readiness(first)).degraded.some(text => text.startsWith('Redis rejects writes: READONLY')),
    'it says so, and is up'
  )
  await replicate(redis, undefined)
  await until(async () => (await readiness(first)).degraded.length === 0, 'it takes writes again')
  await checkShared(t, sharers, 'it is shared')
})

t.test('a Redis without maxmemory is used, and said to grow', async t => {
  const redis = await startRedis(t, { maxmemory: '0' })
  const sharers = await startReplicaPair(t, { url: redis.url, timeoutMs })
  await until(async () => (await readiness(sharers.first)).degraded.length > 0, 'it says so')
  await checkDegraded(t, sharers.first, /no maxmemory/)
  await checkShared(t, sharers, 'it is shared')
})

t.test('a connection that leads nowhere is given up for another while Redis is probed', async t => {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const { first, newTarget } = await startReplicaPair(t, { url: net.url, timeoutMs: soonMs })
  await until(async () => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2, 'all connections are there')
  const before = net.connected
  net.hold()
  await slowestOf(t, first, Array.from({ length: 6 }, newTarget))
  t.notOk(await isRedisUp(first))
  await until(() => net.connected > before, 'another connection is tried', 6000)
  net.release()
  await until(async () => await isRedisUp(first), 'it is up', 3500)
})

t.test('what waited while Redis was away is written when it is back, or said to be refused, also where it refuses what replicas tell each other first', async t => {
  const redis = await startRedis(t, { maxmemoryPolicy: 'noeviction' })
  const net = await slowRedis(t, redis)
  const { first, newTarget } = await startReplicaPair(t, { url: net.url, timeoutMs })
  net.isRefusing = true
  net.dropConnections()
  await until(async () => !await isRedisUp(first), 'it is known to be away')
  // Only from here on does what is read surely wait: what was under way before may have been written all the same.
  const had = [newTarget(), newTarget(), newTarget()]
  const written = await redisWriteCount(first)
  await slowestOf(t, first, had)
  // So that there is something to tell first.
  await redis.client.flushall()
  await redis.client.config('SET', 'maxmemory', '1')
  net.isRefusing = false
  await until(
    async () => (await readiness(first)).degraded.some(text => text.startsWith('Redis rejects writes: OOM')),
    'it says so, though nobody asks for more'
  )
  await redis.client.config('SET', 'maxmemory', '64mb')
  await until(async () => await redisWriteCount(first) === written + had.length, 'what has waited is written')
})

t.test('a connection for news that breaks off while it is renewed is renewed again, and nothing else comes of it', async t => {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const sharers = await startReplicaPair(t, { url: net.url, timeoutMs })
  const cut = new Promise<void>(resolve => {
    net.scriptedResponse = asked => {
      if (!asked.includes('subscribe')) return undefined
      net.scriptedResponse = undefined
      net.dropConnections()
      resolve()
      return ''
    }
  })
  net.dropConnections()
  await cut
  await until(async () => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2, 'both listen again')
  await until(async () => await isRedisUp(sharers.first) && await isRedisUp(sharers.second), 'it is up')
  await checkShared(t, sharers, 'it is shared')
})
