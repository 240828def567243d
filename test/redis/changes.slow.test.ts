import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import {
  checkResponse,
  checkShared,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  redisWriteCount,
  slowestOf,
  startReplicaPair,
  startReplicaPairAtCluster,
  timeoutMs,
  untilShared
} from '../support/replicas.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const mega = 1024 * 1024

/** Returns how often a server has sent a client elsewhere. */
async function redirectsOf ({ client }: RedisProcess): Promise<number> {
  return Number(/errorstat_MOVED:count=(\d+)/.exec(await client.info('errorstats'))?.[1] ?? 0)
}

t.test('two cluster nodes that redirect to each other cost one read its Redis timeout', async t => {
  const { cluster, replicas } = await startReplicaPairAtCluster(t, 3)
  const { second, newTarget } = replicas
  const [known = ''] = await cluster.keys('varve:1:*modules*')
  const target = newTarget()
  const key = known.replace(/0x[0-9a-f]{64}/, /0x[0-9a-f]{64}/.exec(target)?.[0] ?? '')
  const [slot, from] = [await cluster.slotOf(key), await cluster.ownerOf(key)]
  const [owner, other] = [cluster.node(from), cluster.node((from + 1) % 3)]
  const ids = await Promise.all([owner, other].map(async ({ client }) => String(await client.cluster('MYID'))))
  // Leaves the other node believing that the first one has the slot.
  await owner.client.call('CLUSTER', 'SETSLOT', slot, 'NODE', ids[1] ?? '')
  t.ok(await slowestOf(t, second, [target]) < timeoutMs + marginMs)
  await until(async () => (await redisErrorsOf(second)).set !== 0, 'a write of the second replica is rejected')
  const redirects = await redirectsOf(owner) + await redirectsOf(other)
  t.ok(redirects > 0 && redirects < 60, `${redirects} redirects of four commands and their retries`)
  t.ok(await isRedisUp(second))
  const writes = await redisWriteCount(second)
  const others = [newTarget(), newTarget(), newTarget()]
  for (const each of others) checkResponse(t, await second.get(each), each)
  await until(async () => await redisWriteCount(second) >= writes + 2, 'the entries are written to Redis')
  await owner.client.call('CLUSTER', 'SETSLOT', slot, 'NODE', ids[0] ?? '')
  await untilShared(replicas)
})

t.test('a Redis password is rotated without a lost read, and the old one is reported once it fails', async t => {
  const redis = await startRedis(t, { password: 'adm1n-s3cret' })
  const user = async (...rules: string[]): Promise<void> => {
    await redis.client.acl('SETUSER', 'cache', ...rules)
  }
  await user('on', '>old-s3cret', '~*', '&*', '+@all')
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const replica = async (t: Test, password: string): Promise<TestVarve> =>
    await varveAt(t, upstream.url, { cache: { redis: { url: `redis://${redis.host}`, username: 'cache', password } } })
  const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
  const old = await replica(t, 'old-s3cret')
  await until(async () => await isRedisUp(old), 'varve reaches Redis')
  await user('>new-s3cret')
  const renewed = await replica(t, 'new-s3cret')
  await until(async () => await isRedisUp(renewed), 'varve reaches Redis')
  t.match(await old.get(modules(500)), { status: 200 })
  await until(async () => await redisWriteCount(old) === 1, 'the entry is written to Redis')
  t.match(await renewed.get(modules(500)), { status: 200, headers: { 'cache-status': /hit; detail=redis/ } })
  await user('<old-s3cret')
  t.ok(await isRedisUp(old), 'an open connection stays')
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'SKIPME', 'yes')
  await until(async () => !await isRedisUp(old), 'varve knows that Redis is down')
  await until(
    async () => (await readiness(old)).degraded.some(text => text.startsWith('Redis authentication failed: WRONGPASS')),
    'readiness reports: Redis authentication failed'
  )
  t.match(await old.get(modules(501)), { status: 200 })
  await until(async () => await isRedisUp(renewed), 'varve reaches Redis')
  t.match(await renewed.get(modules(500)), { status: 200 })
  for (const varve of [old, renewed]) {
    const { body } = await sendRequest(varve.adminUrl, '/status.json')
    t.notMatch(body + JSON.stringify(varve.log), /s3cret/)
  }
})

t.test('records of another build of varve are ignored, stay, and disturb no replica', async t => {
  const redis = await startRedis(t)
  const pair = await startReplicaPair(t, { url: redis.url })
  await until(async () => await isRedisUp(pair.first) && await isRedisUp(pair.second), 'both replicas reach Redis')
  await checkShared(t, pair, 'before')
  const [key = ''] = await redis.client.keys('varve:1:*modules*')
  const later = key.replace('varve:1:', 'varve:2:')
  await redis.client.set(later, 'an entry in the form of a later build')
  await redis.client.set('varve:2:spaces 4', 'spaces of a later build')
  for (const channel of await redis.client.pubsub('CHANNELS', 'varve:*') as string[]) {
    for (const message of ['', '{}', '0 {"kind":"later"}', '\0'.repeat(100)]) {
      await redis.client.publish(channel, message)
    }
  }
  await checkShared(t, pair, 'after')
  t.equal(await redis.client.get(later), 'an entry in the form of a later build')
  t.equal(await redis.client.get('varve:2:spaces 4'), 'spaces of a later build')
  for (const varve of [pair.first, pair.second]) {
    t.equal(await varve.metric('varve_corrupt_entries_total'), 0)
    t.equal(await varve.metric('varve_chain_resets_total'), 0)
    t.same((await readiness(varve)).degraded, [])
  }
})

t.test('writes for a frozen Redis take an eighth of the bytes in flight, and go on as it responds', async t => {
  const redis = await startRedis(t, { maxmemory: '256mb' })
  const body = Buffer.alloc(mega, 'x') as unknown as string
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body)
  })
  const varve = await varveAt(t, upstream.url, { cache: { redis: { url: redis.url, timeoutMs: 50 } } })
  await until(async () => await isRedisUp(varve), 'varve reaches Redis')
  redis.freeze()
  const inFlight = async (): Promise<number> => await varve.metric('varve_in_flight_bytes') ?? 0
  let most = 0
  for (let nth = 0; nth < 40; nth++) {
    t.match(await varve.get(`/v1/accounts/0x1/modules?ledger_version=${100 + nth}`), {
      status: 200,
      headers: { 'cache-status': /stored$/ }
    })
    most = Math.max(most, await inFlight())
  }
  t.ok(most >= 7 * mega && most < 20 * mega, `${Math.round(most / mega)} MB of 64 MB at most`)
  await until(async () => await inFlight() <= 8 * mega, 'no more than its share waits')
  redis.thaw()
  await until(async () => await redisWriteCount(varve) >= 5, 'the entries are written to Redis', 20_000)
  await until(async () => await inFlight() === 0, 'no bytes are in flight')
})
