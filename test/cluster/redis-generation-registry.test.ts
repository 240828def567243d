import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { type ResponsePosition } from '../../src/api/position.js'
import { RedisGenerationRegistry } from '../../src/cluster/redis-generation-registry.js'
import { encodeWithChecksum } from '../../src/cluster/checksummed-json.js'
import { ExpiringKeys } from '../../src/cluster/expiring-keys.js'
import { type GenerationRecord } from '../../src/chain/generation-record.js'
import { startSandbox } from '#sandbox'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { openRedisTier } from '../support/redis-tier.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const key = 'varve:1:control 4'
const high = 2n ** 64n - 1n
const head: ResponsePosition = {
  position: {
    chainId: 4,
    head: { version: high, timestampUsec: high - 1n, epoch: 7n, blockHeight: 2n ** 53n + 1n },
    oldest: { version: 1n, blockHeight: 0n }
  },
  family: 'x-aptos-'
}
const known: GenerationRecord = {
  anchors: [{ height: 2n ** 53n + 1n, hash: '0xab' }, { height: high, hash: '0xcd' }],
  head
}
const sign = { beat: 3, releases: ['aaaa', 'bbbb'] }

async function registryOf (
  t: Test,
  redis: RedisProcess,
  upstreams: string[] = [],
  isOfChain = (_url: string): boolean => true
): Promise<RedisGenerationRegistry> {
  const { link } = await openRedisTier(t, redis.url)
  return new RedisGenerationRegistry(
    new ExpiringKeys(link, 'varve:1:', 100),
    () => upstreams.map(url => ({ url, isOnChain: () => isOfChain(url) }))
  )
}

async function registryAt (t: Test): Promise<{ redis: RedisProcess, registry: RedisGenerationRegistry }> {
  const redis = await startRedis(t)
  return { redis, registry: await registryOf(t, redis) }
}

t.test('published records are read back exactly, in one key per chain, with the TTL of entries', async t => {
  const { redis, registry } = await registryAt(t)
  await registry.publish(4, 2, known, [])
  await registry.publish(4, 3, { anchors: [], head: undefined }, [])
  await registry.publishHeartbeat(4, 'me', sign, [])
  await registry.publish(5, 9, known, [])
  const { generations, replicas } = await registry.read(4)
  t.same(generations, new Map([[2, known], [3, { anchors: [], head: undefined }]]))
  t.same(replicas, new Map([['me', sign]]))
  t.same((await redis.client.keys('*')).sort(), [key, 'varve:1:control 5'])
  t.ok(await redis.client.ttl(key) > 98)
  await redis.client.expire(key, 1)
  await registry.publishHeartbeat(4, 'me', sign, [])
  t.ok(await redis.client.ttl(key) > 98, 'each heartbeat extends it')
  t.same(await registry.read(6), { generations: new Map(), replicas: new Map() })
})

t.test('a generation is claimed by one replica only, and only once', async t => {
  const { redis, registry } = await registryAt(t)
  const claims = await Promise.all(
    [1, 2, 3, 4].map(async nth =>
      await registry.claim(4, 7, { anchors: [{ height: BigInt(nth), hash: '0xab' }], head })
    )
  )
  t.equal(claims.filter(Boolean).length, 1)
  const winner = claims.indexOf(true) + 1
  t.equal((await registry.read(4)).generations.get(7)?.anchors[0]?.height, BigInt(winner))
  t.equal(await registry.claim(4, 7, known), false)
  t.ok(await redis.client.ttl(key) > 98)
})

t.test('old generations and replicas are removed, so the key does not grow', async t => {
  const { redis, registry } = await registryAt(t)
  for (let generation = 1; generation <= 30; generation++) {
    await registry.publish(4, generation, known, (await registry.read(4)).generations.keys())
  }
  t.same([...(await registry.read(4)).generations.keys()].sort(), [27, 28, 29, 30])
  for (const name of ['a', 'b', 'c']) await registry.publishHeartbeat(4, name, sign, [])
  await registry.publishHeartbeat(4, 'd', sign, ['a', 'c', 'absent'])
  t.same([...(await registry.read(4)).replicas.keys()].sort(), ['b', 'd'])
  t.equal(await redis.client.hlen(key), 6)
})

t.test('a damaged or malformed field counts as lost and is deleted', async t => {
  const { redis, registry } = await registryAt(t)
  const whole = encodeWithChecksum(known)
  const damaged: Record<string, string> = {
    g1: '',
    g2: 'garbage',
    g3: whole.slice(0, -1),
    g4: whole.replace('0xab', '0xac'),
    g5: whole.replace(/^\S+/, '0'),
    g6: encodeWithChecksum(null),
    g7: encodeWithChecksum({ anchors: 'none' }),
    g8: encodeWithChecksum({ anchors: [{ height: 5, hash: '0xab' }] }),
    g9: encodeWithChecksum({ anchors: [{ height: 5n }] }),
    g10: encodeWithChecksum({ anchors: [], head: 'here' }),
    g11: encodeWithChecksum({ anchors: [], head: { position: { chainId: 4 }, family: 'x-aptos-' } }),
    g12: encodeWithChecksum({
      anchors: [],
      head: { ...head, position: { ...head.position, head: { ...head.position.head, version: 5 } } }
    }),
    g13: encodeWithChecksum({ anchors: [null] }),
    g999999999999999: '{"anchors":[]}',
    g0: whole,
    'g-1': whole,
    g1e3: whole,
    g9999999999999999: whole,
    g: whole,
    generation: whole,
    rdead: 'garbage',
    rold: encodeWithChecksum({ beat: '3', releases: [] }),
    rodd: encodeWithChecksum({ beat: 3, releases: [7] }),
    g18: `${crc32('{').toString(16)} {`,
    x: 'y'
  }
  await redis.client.hset(key, { ...damaged, g20: whole, rme: encodeWithChecksum(sign) })
  t.same(await registry.read(4), { generations: new Map([[20, known]]), replicas: new Map([['me', sign]]) })
  t.same((await redis.client.hkeys(key)).sort(), ['g20', 'rme'])
})

t.test('a control key of another Redis type counts as lost and is replaced', async t => {
  const { redis, registry } = await registryAt(t)
  const others = [
    async () => await redis.client.set(key, 'x'),
    async () => await redis.client.lpush(key, 'x'),
    async () => await redis.client.sadd(key, 'x'),
    async () => await redis.client.zadd(key, 1, 'x')
  ]
  for (const put of others) {
    await redis.client.del(key)
    await put()
    t.same(await registry.read(4), { generations: new Map(), replicas: new Map() })
    t.equal(await registry.claim(4, 1, known), true)
  }
})

t.test('an error or timeout of Redis is a failure and never an empty result', async t => {
  const redis = await startRedis(t)
  const registry = await registryOf(t, redis)
  await redis.client.call('ACL', 'SETUSER', 'default', '-hgetall')
  await t.rejects(registry.read(4), /NOPERM/)
  await redis.client.call('ACL', 'SETUSER', 'default', '+hgetall')
  await redis.kill()
  await t.rejects(registry.read(4))
  await t.rejects(registry.claim(4, 1, known))
})

t.test('the chain of an upstream is remembered by normalised URL, and damaged records are ignored', async t => {
  const redis = await startRedis(t)
  const registry = await registryOf(t, redis, ['http://127.0.0.1:1/x', 'http://127.0.0.1:2'])
  t.same(await registry.rememberedUpstreams(), [])
  await registry.rememberUpstreams({ chainId: 4, generation: 3, ...known })
  t.same(await registry.rememberedUpstreams(), [1, 2].map(() => ({ chainId: 4, generation: 3, ...known })))
  const twoUpstreams = await registryOf(
    t,
    redis,
    ['http://127.0.0.1:1/x', 'http://127.0.0.1:2'],
    url => url.endsWith('2')
  )
  await twoUpstreams.rememberUpstreams({ chainId: 4, generation: 2, ...known })
  t.same(
    (await twoUpstreams.rememberedUpstreams()).map(({ generation }) => generation),
    [3, 2],
    'the record of an upstream not verified stays'
  )
  await registry.rememberUpstreams({ chainId: 4, generation: 3, ...known })
  const other = await registryOf(t, redis, ['http://127.0.0.1:1/x/'])
  t.same(await other.rememberedUpstreams(), [{ chainId: 4, generation: 3, ...known }])
  const keys = await redis.client.keys('varve:1:upstream *')
  for (const key of keys) t.ok(await redis.client.ttl(key) > 98)
  const [key = '', second = ''] = keys
  await redis.client.del(second)
  await redis.client.set(key, encodeWithChecksum({ chainId: 4, generation: 3 }))
  t.same(
    await registry.rememberedUpstreams(),
    [{ chainId: 4, generation: 3, anchors: [], head: undefined }],
    'of an older release'
  )
  const damaged = [
    '',
    '4 3',
    '{"chainId":4,"generation":9}',
    encodeWithChecksum('x'),
    encodeWithChecksum(null),
    encodeWithChecksum({ chainId: '4', generation: 3 }),
    encodeWithChecksum({ chainId: 4 }),
    encodeWithChecksum({ chainId: 4, generation: 3, anchors: 'none' }),
    encodeWithChecksum({ chainId: 4, generation: 3, anchors: [], head: 'here' })
  ]
  for (const text of damaged) {
    await redis.client.set(key, text)
    t.same(await registry.rememberedUpstreams(), [], text)
  }
  await redis.client.del(key)
  await redis.client.lpush(key, 'x')
  t.same(await registry.rememberedUpstreams(), [])
  t.notOk(await redis.client.exists(key), 'another type is replaced')
})

t.test('hits stay hits through damage to control keys, and new replicas join the generation', async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const start = async (): ReturnType<typeof varveAt> =>
    await varveAt(t, sandbox.url, { cache: { redis: { url: redis.url } } })
  const [a, b] = [await start(), await start()]
  const at = (version: number): string => `/v1/blocks/by_version/${version}`
  // Uses a second generation, so that a fall back to the first one would show.
  sandbox.faults.add({ kind: 'otherChain', blocks: 1500 })
  sandbox.faults.add({ kind: 'reset', times: 1 })
  for (let times = 0; times < 2; times++) await a.get(at(900))
  for (let version = 1000; version < 1200; version += 20) await a.get(at(version))
  const isBack = async (): Promise<boolean> =>
    (await redis.client.type(key)) === 'hash' && (await redis.client.hget(key, 'g2'))?.includes('hash') === true
  await until(isBack, 'the second generation is in Redis')
  await until(() => b.log.some(({ generation }) => generation === 2), 'the other replica has the second generation')
  await until(
    async () => (await redis.client.keys('varve:1:4.2 json blocks ???')).length >= 10,
    'all blocks are in Redis'
  )
  const upstream = (await redis.client.keys('varve:1:upstream *'))[0] ?? ''
  const strikes: Array<() => Promise<unknown>> = [
    async () => await redis.client.del(key),
    async () => await redis.client.del(key, upstream),
    async () => await redis.client.set(key, 'garbage'),
    async () => await redis.client.hset(key, { g2: 'garbage', g1: 'garbage', g77: 'garbage' }),
    async () =>
      await redis.client.hset(key, {
        g999999999999999: '{"anchors":[]}',
        [`g${'9'.repeat(300)}`]: encodeWithChecksum(known)
      }),
    async () =>
      await redis.client.hset(upstream, { not: 'a text' }).catch(async () => await redis.client.del(upstream)),
    async () => await redis.client.hdel(key, 'g2')
  ]
  sandbox.requests.reset()
  for (const [nth, strike] of strikes.entries()) {
    await strike()
    t.match((await a.get(at(1000))).headers, { 'cache-status': 'varve; hit; detail=memory' })
    t.match(
      (await b.get(at(1000 + 20 * (nth + 1)))).headers,
      { 'cache-status': 'varve; hit; detail=redis' },
      String(strike)
    )
    await until(isBack, String(strike))
  }
  t.equal(sandbox.requests.countFor('block_by_version'), 0)
  const late = await start()
  t.match((await late.get(at(1180))).headers, { 'cache-status': 'varve; hit; detail=redis' })
  await redis.client.flushall()
  for (const [varve, version] of [[a, 1000], [b, 1020]] as const) {
    t.match((await varve.get(at(version))).headers, { 'cache-status': 'varve; hit; detail=memory' })
  }
  await until(isBack, 'the generation is in Redis again')
  for (const varve of [a, b]) t.equal(await varve.metric('varve_chain_resets_total'), 1)
  t.same((await redis.client.hkeys(key)).filter(field => field.startsWith('g')), ['g2'])
})
