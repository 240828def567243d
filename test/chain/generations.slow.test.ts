import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import {
  adoptedGenerations,
  blockTarget,
  controlKey,
  sealed,
  startSandboxNode,
  publishedGenerations,
  untilChainKnown,
  untilInRedis
} from '../support/replicas.js'
import { redisHitStatus, cacheStatusHeader } from '../support/cache-status.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'

const purgeAll = { method: 'POST', headers: { authorization: 'Bearer x' }, body: '{"all":true}' }

async function replica (t: Test, redisUrl: string, upstream: Sandbox, pollMs = 600_000): Promise<TestVarve> {
  return await varveAt(t, upstream.url, {
    cache: { redis: { url: redisUrl } },
    admin: { listen: '127.0.0.1:0', token: 'x' },
    head: { pollMs }
  })
}

/** Expects the block that this very node has, whichever upstream varve reads from. */
async function isOf (t: Test, upstream: Sandbox, varve: TestVarve, version: number): Promise<void> {
  t.match(
    await varve.get(blockTarget(version)),
    { status: 200, body: (await sendRequest(upstream.url, blockTarget(version))).body },
    `the block of ${version}`
  )
}

t.test('Redis stores upstreams under a digest: no URL and no secret appears in it', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t, { pathPrefix: '/key-s3cret' })
  const varve = await varveAt(t, upstream.url, {
    cache: { redis: { url: redis.url } },
    upstream: { headers: { 'x-api-key': 'hush-hush' } }
  })
  await varve.get(blockTarget(2000))
  const upstreams = async (): Promise<string[]> => await redis.client.keys('varve:1:upstream *')
  await until(
    async () => (await upstreams()).length === 1 && (await redis.client.keys('*blocks 446')).length === 1,
    'the block is in Redis'
  )
  const everything = await Promise.all((await redis.client.keys('*')).map(async key => {
    const type = await redis.client.type(key)
    const value = type === 'hash'
      ? await redis.client.hgetall(key)
      : type === 'zset'
      ? await redis.client.zrange(key, '0', '-1')
      : await redis.client.get(key)
    return `${key} ${JSON.stringify(value)}`
  }))
  t.notMatch(everything.join('\n'), /s3cret|hush|127\.0\.0\.1/)
  t.match(await redis.client.get((await upstreams())[0] ?? ''), /\{"chainId":4,"generation":1[,}]/)
})

t.test('all replicas follow the highest generation of their chain; old generations expire', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const [a, b] = [await replica(t, redis.url, upstream), await replica(t, redis.url, upstream)]
  for (const [nth, varve] of [a, b, a, b, a, b].entries()) {
    t.match(JSON.parse((await sendRequest(varve.adminUrl, '/purge', purgeAll)).body), { generation: nth + 2 })
    await until(
      () => [a, b].every(one => adoptedGenerations(one).at(-1) === nth + 2),
      `both replicas are at generation ${nth + 2}`
    )
  }
  t.same(await publishedGenerations(redis), ['g4', 'g5', 'g6', 'g7'])
  t.same(
    [await a.metric('varve_chain_resets_total'), await b.metric('varve_chain_resets_total')],
    [0, 0],
    'the chain is unchanged'
  )
  const late = await replica(t, redis.url, upstream)
  t.same(adoptedGenerations(late), [7])
  await isOf(t, upstream, late, 2000)
})

t.test('a replica that starts without Redis adopts its chain\'s higher generation later', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const upstream = await startSandboxNode(t)
  const a = await replica(t, redis.url, upstream)
  for (let nth = 0; nth < 2; nth++) await sendRequest(a.adminUrl, '/purge', purgeAll)
  await a.get(blockTarget(2000))
  await untilInRedis(redis, 'varve:1:4.3 json blocks 446')
  slow.isRejecting = true
  const b = await replica(t, slow.url, upstream)
  await isOf(t, upstream, b, 1000)
  t.same(adoptedGenerations(b), [])
  slow.isRejecting = false
  await until(() => adoptedGenerations(b).length > 0, 'Redis is back')
  t.same(adoptedGenerations(b), [3])
  t.match(await b.get(blockTarget(2000)), { status: 200, headers: { [cacheStatusHeader]: redisHitStatus } })
  t.same(await redis.client.keys('varve:1:4.1 *'), [], 'nothing is written under the replica\'s own number')
})

t.test('two chains of one name that both start without Redis get different numbers later', async t => {
  const redis = await startRedis(t)
  const ways = [await slowRedis(t, redis), await slowRedis(t, redis)]
  for (const way of ways) way.isRejecting = true
  const upstreams = [await startSandboxNode(t), await startSandboxNode(t, { seed: 2, blocks: 1500 })]
  const varves = await Promise.all(ways.map(async (way, nth) => await replica(t, way.url, upstreams[nth] as Sandbox)))
  for (const varve of varves) for (const version of [2000, 1800, 1600]) await varve.get(blockTarget(version))
  for (const way of ways) way.isRejecting = false
  await until(
    async () => (await publishedGenerations(redis)).join() === 'g1,g2',
    'Redis lists generations 1 and 2 alone'
  )
  for (const [nth, varve] of varves.entries()) {
    for (const version of [2000, 2001, 1800, 1801, 1600, 1000]) await isOf(t, upstreams[nth] as Sandbox, varve, version)
  }
  t.same(varves.map(varve => adoptedGenerations(varve).length).sort(), [0, 1], 'one chain has the same number')
})

t.test('varve never reuses a number whose owner was removed: entries under it are not served', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const [one, other] = [await startSandboxNode(t), await startSandboxNode(t, { seed: 2, blocks: 1500 })]
  const a = await replica(t, redis.url, one)
  await a.get(blockTarget(2000))
  await untilInRedis(redis, 'varve:1:4.1 json blocks 446')
  for (let nth = 0; nth < 5; nth++) await sendRequest(a.adminUrl, '/purge', purgeAll)
  await until(
    async () => !(await publishedGenerations(redis)).includes('g1'),
    'Redis no longer lists the first generation'
  )
  slow.isRejecting = true
  const b = await replica(t, slow.url, other)
  await isOf(t, other, b, 1000)
  slow.isRejecting = false
  await until(() => adoptedGenerations(b).length > 0, 'Redis is back')
  t.same(adoptedGenerations(b), [7])
  await isOf(t, other, b, 2000)
  t.same(await redis.client.keys('varve:1:4.1 json blocks ???'), ['varve:1:4.1 json blocks 446'], 'the old one alone')
  await isOf(t, one, a, 2000)
})

t.test('positions identify the chain of upstreams without blocks by height, resets included', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  upstream.faults.add({ kind: 'error', code: 'api_disabled', status: 403, match: 'block_by_height' })
  const [a, b] = [await replica(t, redis.url, upstream), await replica(t, redis.url, upstream)]
  await a.get(blockTarget(2000))
  await untilInRedis(redis, '*blocks 446')
  t.match(await b.get(blockTarget(2000)), { headers: { [cacheStatusHeader]: redisHitStatus } })
  t.same(await publishedGenerations(redis), ['g1'])
  const c = await replica(t, redis.url, upstream)
  t.match(await c.get(blockTarget(2000)), { headers: { [cacheStatusHeader]: redisHitStatus } })
  upstream.faults.add({ kind: 'otherChain' })
  await a.get(blockTarget(1000))
  await until(
    () => [a, b, c].every(varve => adoptedGenerations(varve).length > 0),
    'all replicas have adopted a generation'
  )
  for (const varve of [a, b, c]) {
    t.same(adoptedGenerations(varve), [2])
    await isOf(t, upstream, varve, 2000)
  }
  for (const varve of [a, b, c]) await varve.stop({ drainMs: 0 })
  // Leaves a lower version at a later time as the only sign of a reset that a starting replica has.
  upstream.faults.clear()
  upstream.faults.add({ kind: 'error', code: 'api_disabled', status: 403, match: 'block_by_height' })
  upstream.faults.add({
    kind: 'headers',
    set: { 'x-aptos-ledger-version': '2200', 'x-aptos-ledger-timestampusec': '1700000000000000' }
  })
  const late = await replica(t, redis.url, upstream)
  t.same(adoptedGenerations(late), [3])
})

t.test('after a Redis outage varve uses no entries until it knows the other replicas\' generations', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const [one, other] = [
    await startSandboxNode(t, { blocks: 490 }),
    await startSandboxNode(t, { seed: 2, blocks: 1500 })
  ]
  const a = await replica(t, slow.url, one)
  await untilChainKnown(redis)
  slow.isRejecting = true
  slow.dropConnections()
  await until(async () => await a.metric('varve_redis_up') === 0, 'Redis is known to be down')
  for (let version = 600; version < 1000; version += 20) await a.get(blockTarget(version))
  await redis.client.flushall()
  const b = await replica(t, redis.url, other)
  t.same(await publishedGenerations(redis), ['g1'])
  await b.get(blockTarget(1500))
  await untilInRedis(redis, 'varve:1:4.1 json blocks ???')
  slow.delayMs = 5
  slow.isRejecting = false
  for (let version = 1000; adoptedGenerations(a).length === 0; version++) await isOf(t, one, a, 1000 + version % 500)
  await isOf(t, one, a, 1500)
  for (let version = 600; version < 1000; version += 20) await isOf(t, other, b, version)
  t.same([adoptedGenerations(a), adoptedGenerations(b), await publishedGenerations(redis)], [[2], [], ['g1', 'g2']])
})

t.test('entries purged while the generation is unknown stay purged', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const upstream = await startSandboxNode(t)
  const a = await replica(t, redis.url, upstream)
  await a.get(blockTarget(2000))
  await untilInRedis(redis, 'varve:1:4.1 json blocks 446')
  slow.isRejecting = true
  const b = await replica(t, slow.url, upstream)
  t.match(JSON.parse((await sendRequest(b.adminUrl, '/purge', purgeAll)).body), { everywhere: false })
  slow.isRejecting = false
  await until(
    () => adoptedGenerations(a).length > 0 && adoptedGenerations(a).at(-1) === adoptedGenerations(b).at(-1),
    'both replicas have the same generation'
  )
  upstream.requests.reset()
  for (const varve of [b, a]) await varve.get(blockTarget(2000))
  t.ok(upstream.requests.countFor('block_by_version') >= 1, 'it is fetched again')
  t.equal((await redis.client.keys('varve:1:4.1 json blocks 446')).length, 1, 'and not taken from the stored entry')
})

t.test('a replica without its upstream uses the last known anchors when Redis comes back', async t => {
  for (const isSame of [true, false]) {
    const redis = await startRedis(t)
    const slow = await slowRedis(t, redis)
    const first = await startSandboxNode(t)
    const a = await replica(t, redis.url, first)
    await a.get(blockTarget(1500))
    await until(
      async () =>
        (await redis.client.hget(controlKey, 'g1'))?.includes('hash') === true &&
        (await redis.client.keys('varve:1:4.1 json blocks ???')).length === 1,
      'the block is in Redis'
    )
    slow.isRejecting = true
    const upstream = await startSandboxNode(t, isSame ? {} : { seed: 2, blocks: 1500, chainId: 4 })
    const b = await replica(t, slow.url, upstream)
    const { body } = await b.get(blockTarget(2000))
    await upstream.close()
    slow.isRejecting = false
    await until(async () => await b.metric('varve_redis_up') === 1, 'Redis is back')
    const mayServe = [(await sendRequest(first.url, blockTarget(1500))).body]
    if (isSame) {
      await until(
        async () => (await b.get(blockTarget(1500))).status === 200,
        'the replica serves the block of the others'
      )
    }
    const got = await b.get(blockTarget(1500))
    if (isSame) t.match(got, { status: 200, body: mayServe[0] })
    t.match(await b.get(blockTarget(2000)), { status: 200, body })
  }
})

t.test('a replica that learns of another chain as its upstream changes starts its own generation', async t => {
  const redis = await startRedis(t)
  const [one, other] = [await startSandboxNode(t), await startSandboxNode(t, { seed: 7, blocks: 1500 })]
  const a = await replica(t, redis.url, one)
  await a.get(blockTarget(2000))
  await untilChainKnown(redis)
  // Keeps the connection, as a load balancer does: nothing notifies replica a of the change.
  one.faults.add({ kind: 'otherChain', blocks: 1400 })
  const b = await replica(t, redis.url, other)
  await until(() => adoptedGenerations(a).length > 0, 'the replica has adopted a generation')
  t.same([adoptedGenerations(a), adoptedGenerations(b)], [[3], [2]])
  for (const version of [2000, 1500]) {
    await isOf(t, one, a, version)
    await isOf(t, other, b, version)
  }
})

t.test('an upstream that changes its chain id is quarantined: varve serves cached reads only', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const a = await replica(t, redis.url, upstream)
  const { body } = await a.get(blockTarget(2000))
  upstream.faults.add({ kind: 'otherChain', chainId: 9 })
  upstream.faults.add({ kind: 'reset', times: 1 })
  for (let times = 0; times < 3; times++) t.match(await a.get(blockTarget(1000)), { status: 503 })
  t.match(await a.get(blockTarget(2000)), { status: 200, body, headers: { 'x-node-chain-id': '4' } })
  t.same([adoptedGenerations(a), await redis.client.exists('varve:1:control 9')], [[], 0])
})

const anchors = [{ height: '90n', hash: `0x${'ab'.repeat(32)}` }]
const head = {
  position: {
    chainId: 4,
    head: { version: '1000n', timestampUsec: '1000000n', epoch: '2n', blockHeight: '100n' },
    oldest: { version: '10n', blockHeight: '1n' }
  },
  family: 'x-aptos-'
}

t.test('without blocks by height a replica follows a generation only if it has no anchors', async t => {
  const redis = await startRedis(t)
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{}')
  })
  const varve = await varveAt(t, upstream.url, { cache: { redis: { url: redis.url } } })
  await varve.get('/v1/accounts/0x1/modules?ledger_version=500')
  await until(async () => (await publishedGenerations(redis)).length === 1, 'Redis lists one generation')
  await redis.client.hset(controlKey, 'g98', sealed({ anchors, head }))
  await until(() => varve.log.some(({ msg }) => /another chain/.test(String(msg))), 'the log reports another chain')
  t.same(adoptedGenerations(varve), [])
  await redis.client.hset(controlKey, 'g99', sealed({ anchors: [], head }))
  await until(() => adoptedGenerations(varve).length > 0, 'the replica has adopted a generation')
  t.same(adoptedGenerations(varve), [99])
})
