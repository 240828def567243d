import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { startIdleMeter, until } from '../support/until.js'
import {
  type RedisConfigChange,
  checkDegraded,
  checkResponse,
  checkShared,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  redisWriteCount,
  slowestOf,
  startReplicaPair,
  untilShared
} from '../support/replicas.js'
import { replicate, startRedis } from '../support/redis-server.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { slowRedis } from '../support/tcp-gate.js'
import { type TestVarve, varveAt } from '../support/varve.js'

// Gives a responding Redis enough time even on a busy machine.
const timeoutMs = 500
// Keeps the wait short where no response comes at all.
const soonMs = 100

t.test('with Redis down at the start varve starts, is ready, and uses Redis once it is up', async t => {
  const port = await freePort()
  const waited = startIdleMeter()
  const pair = await startReplicaPair(t, { url: `redis://127.0.0.1:${port}`, timeoutMs })
  t.ok(waited() < 2000, 'the start does not wait')
  const { first, newTarget } = pair
  t.notOk(await isRedisUp(first))
  await checkDegraded(t, first, /^Redis unreachable: connect ECONNREFUSED/)
  t.ok(await slowestOf(t, first, [newTarget(), newTarget(), newTarget()]) < marginMs)
  t.ok((await redisErrorsOf(first)).connect, 'the error is counted')
  await startRedis(t, { port })
  await until(async () => await isRedisUp(first) && await isRedisUp(pair.second), 'both replicas reach Redis', 3500)
  // Writes from before wait in the queue, and both must agree first.
  await untilShared(pair)
  await checkShared(t, pair, 'it is shared')
  t.same((await readiness(first)).degraded, [])
})

t.test('varve starts although Redis accepts connections and never responds', async t => {
  const redis = await startRedis(t)
  redis.freeze()
  const waited = startIdleMeter()
  const pair = await startReplicaPair(t, { url: redis.url, timeoutMs: soonMs })
  t.ok(waited() < 2 * 10 * soonMs + 2000, 'the start does not wait for ever')
  const { first, second, newTarget } = pair
  t.notOk(await isRedisUp(first))
  await checkDegraded(t, first, /^Redis unreachable: (?:not connected yet|Command timed out)/)
  t.ok(await slowestOf(t, first, [newTarget(), newTarget(), newTarget()]) < marginMs)
  redis.thaw()
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis', 3500)
  await untilShared(pair)
})

t.test('a full Redis with noeviction stays up, serves hits and reports its rejected writes', async t => {
  const redis = await startRedis(t, { maxmemoryPolicy: 'noeviction' })
  const pair = await startReplicaPair(t, { url: redis.url, timeoutMs })
  const { first, second, upstream, newTarget } = pair
  await until(async () => (await readiness(first)).degraded.length > 0, 'the warning names the effect of the policy')
  await checkDegraded(t, first, /noeviction.*allkeys-lru/)
  const had = newTarget()
  await first.get(had)
  await until(async () => await redisWriteCount(first) === 1, 'the entry is written to Redis')
  await redis.client.config('SET', 'maxmemory', '1')
  const failing = [newTarget(), newTarget(), newTarget()]
  t.ok(await slowestOf(t, first, failing) < marginMs)
  await until(async () => ((await redisErrorsOf(first)).set ?? 0) > 0, 'the rejection is counted')
  await checkDegraded(t, first, /^Redis rejects writes: OOM/)
  t.ok(await isRedisUp(first), 'it responds, so it is up')
  t.equal((await second.get(had)).headers['cache-status'], 'varve; hit; detail=redis', 'stored entries are shared')
  await redis.client.config('SET', 'maxmemory', '64mb')
  await until(async () => await redisWriteCount(first) >= 1 + failing.length, 'the entries are written to Redis')
  const requestCount = upstream.requests.length
  for (const target of failing) checkResponse(t, await second.get(target), target)
  t.equal(upstream.requests.length, requestCount)
  t.notOk((await readiness(first)).degraded.some(text => text.startsWith('Redis rejects')), 'the report is gone')
})

t.test('a read-only Redis replica is up, serves hits and reports its rejected writes', async t => {
  const master = await startRedis(t)
  const redis = await startRedis(t)
  const pair = await startReplicaPair(t, { url: redis.url, timeoutMs })
  const { first, second, newTarget } = pair
  const writer = await startReplicaPair(t, { url: master.url, timeoutMs })
  const had = Array.from({ length: 50 }, writer.newTarget)
  for (const target of had) await writer.first.get(target)
  await until(async () => await redisWriteCount(writer.first) === had.length, 'the entries are written to Redis')
  await replicate(redis, master)
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis', 3500)
  // Retries: after each check for another server behind the name, the state of the other replicas is unknown.
  await until(
    async () => (await second.get(had.pop() ?? '')).headers['cache-status'] === 'varve; hit; detail=redis',
    'an entry of the replica is a hit'
  )
  const failing = [newTarget(), newTarget()]
  t.ok(await slowestOf(t, first, failing) < marginMs)
  await until(async () => ((await redisErrorsOf(first)).set ?? 0) > 0, 'the rejection is counted')
  // Waits for a periodic check for another server behind the name, which finds none and stays.
  await until(
    async () =>
      await isRedisUp(first) &&
      (await readiness(first)).degraded.some(text => text.startsWith('Redis rejects writes: READONLY')),
    'readiness reports: Redis rejects writes'
  )
  await replicate(redis, undefined)
  await until(async () => (await readiness(first)).degraded.length === 0, 'nothing is degraded')
  await untilShared(pair)
  await checkShared(t, pair, 'it is shared')
})

t.test('varve uses a Redis without maxmemory and reports that it grows without limit', async t => {
  const redis = await startRedis(t, { maxmemory: '0' })
  const pair = await startReplicaPair(t, { url: redis.url, timeoutMs })
  await until(async () => (await readiness(pair.first)).degraded.length > 0, 'readiness reports the fault')
  await checkDegraded(t, pair.first, /no maxmemory/)
  await checkShared(t, pair, 'it is shared')
})

t.test('varve replaces a dead connection while it probes Redis', async t => {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const { first, newTarget } = await startReplicaPair(t, { url: net.url, timeoutMs: soonMs })
  await until(
    async () => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2,
    'both replicas listen to news'
  )
  const before = net.connected
  net.withhold()
  await slowestOf(t, first, Array.from({ length: 6 }, newTarget))
  t.notOk(await isRedisUp(first))
  await until(() => net.connected > before, 'varve connects once more', 6000)
  net.release()
  await until(async () => await isRedisUp(first), 'varve reaches Redis', 3500)
})

t.test('pending writes are flushed when Redis returns, or reported as rejected', async t => {
  const redis = await startRedis(t, { maxmemoryPolicy: 'noeviction' })
  const net = await slowRedis(t, redis)
  const { first, newTarget } = await startReplicaPair(t, { url: net.url, timeoutMs })
  net.isRejecting = true
  net.dropConnections()
  await until(async () => !await isRedisUp(first), 'varve knows that Redis is down')
  // Reads only now: earlier reads may have been written already, these surely wait.
  const had = [newTarget(), newTarget(), newTarget()]
  const written = await redisWriteCount(first)
  await slowestOf(t, first, had)
  // Empties Redis, so that control messages must be written first.
  await redis.client.flushall()
  await redis.client.config('SET', 'maxmemory', '1')
  net.isRejecting = false
  await until(
    async () => (await readiness(first)).degraded.some(text => /^Redis .*rejects .*: OOM/.test(text)),
    'readiness reports: Redis rejects writes'
  )
  await redis.client.config('SET', 'maxmemory', '64mb')
  await until(async () => await redisWriteCount(first) === written + had.length, 'the entries are written to Redis')
})

t.test('a subscriber connection that breaks while it is renewed is renewed again', async t => {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const pair = await startReplicaPair(t, { url: net.url, timeoutMs })
  const cut = new Promise<void>(resolve => {
    net.scriptedResponse = chunk => {
      if (!chunk.includes('subscribe')) return undefined
      net.scriptedResponse = undefined
      net.dropConnections()
      resolve()
      return ''
    }
  })
  net.dropConnections()
  await cut
  await until(
    async () => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2,
    'both replicas listen to news'
  )
  await until(async () => await isRedisUp(pair.first) && await isRedisUp(pair.second), 'both replicas reach Redis')
  await checkShared(t, pair, 'it is shared')
})

const message = 'Redis authentication failed: reads go on without it'
async function varveWith (t: Test, redis: RedisConfigChange): Promise<TestVarve> {
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  return await varveAt(t, upstream.url, { cache: { redis } })
}

/** Expects /readyz, /status.json and the log to name the rejection, and none of them to repeat a password. */
async function reportsReason (t: Test, varve: TestVarve, reason: RegExp): Promise<void> {
  await until(() => varve.log.some(({ msg }) => msg === message), 'the log has the message')
  t.match(varve.log.filter(({ msg }) => msg === message), [{ level: 40, reason }], 'once')
  const { body: readiness } = await sendRequest(varve.adminUrl, '/readyz')
  t.match(JSON.parse(readiness), { ready: true, degraded: [/^Redis authentication failed: /] })
  t.match(JSON.parse(readiness), { degraded: [reason] })
  const { body: status } = await sendRequest(varve.adminUrl, '/status.json')
  t.match(JSON.parse(status), { tiers: { redis: { state: 'down', reason: 'authentication failed' } } })
  t.match(await varve.get('/v1/accounts/0x1/modules?ledger_version=500'), { status: 200 }, 'reads continue')
  t.notMatch(readiness + status + JSON.stringify(varve.log), /s3cret|r1ght/)
}

t.test('varve reports a wrong or missing Redis password as failed authentication', async t => {
  const redis = await startRedis(t, { password: 'r1ght' })
  for (
    const [place, reason] of [[{ url: `redis://:s3cret@${redis.host}` }, /WRONGPASS/], [{
      url: `redis://${redis.host}`
    }, /NOAUTH/]] as const
  ) {
    await reportsReason(t, await varveWith(t, place), reason)
  }
})

t.test('varve reports a Redis user without the needed permissions as failed authentication', async t => {
  const redis = await startRedis(t)
  await redis.client.acl('SETUSER', 'cache', 'on', '>s3cret', '~other:*', '+@all')
  await reportsReason(t, await varveWith(t, { url: redis.url, username: 'cache', password: 's3cret' }), /NOPERM/)
})

t.test('varve reports a Redis password changed at run time and reconnects once it is right', async t => {
  const redis = await startRedis(t)
  const varve = await varveWith(t, { url: redis.url })
  await until(async () => await isRedisUp(varve), 'varve reaches Redis')
  await redis.client.config('SET', 'requirepass', 'r1ght')
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'SKIPME', 'yes')
  await reportsReason(t, varve, /NOAUTH/)
  await redis.client.config('SET', 'requirepass', '')
  await until(async () => await isRedisUp(varve), 'varve reaches Redis')
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body), {
    degraded: [],
    tiers: { redis: { state: 'up', reason: undefined } }
  })
})
