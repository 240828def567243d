import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { parsePurges } from '../../src/peers/parse-records.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import {
  anySpace,
  blockTarget,
  heartbeatsKey,
  recordedSpaces,
  sealed,
  spacesKey,
  startSandboxNode,
  untilAgreed,
  untilWritten,
  usedSpaces
} from '../support/replicas.js'
import { slowRedis } from '../support/tcp-gate.js'
import { startCountingUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const token = 't0ken'
const logKey = 'varve:1:purges 4'
const modules = (account: number): string => `/v1/accounts/0x${account}/modules?ledger_version=500`

async function replica (t: Test, upstream: Pick<Sandbox, 'url'>, url: string): Promise<TestVarve> {
  return await varveAt(t, upstream.url, {
    cache: { redis: { url, timeoutMs: 2000 } },
    admin: { listen: '127.0.0.1:0', token }
  })
}

/** Returns true unless /readyz says that Redis is not read. */
async function isRead ({ adminUrl }: TestVarve): Promise<boolean> {
  return !(await sendRequest(adminUrl, '/readyz')).body.includes('Redis tier not read')
}

async function purge (varve: TestVarve, url: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  return (await sendRequest(varve.adminUrl, '/purge', { method: 'POST', headers, body: JSON.stringify({ url }) }))
    .status
}

const hash = `0x${'ab'.repeat(32)}`
const position = {
  chainId: 4,
  head: { version: '9n', timestampUsec: '9n', blockHeight: '9n' },
  oldest: { version: '0n', blockHeight: '0n' }
}
const record = { chainId: 4, name: 'ab'.repeat(8), anchors: [], replaces: [] }
const headBy = (family: string, change: object = {}): object => ({
  ...record,
  head: { position: { ...position, ...change }, family }
})
/** Items that no replica writes: each counts as absent, and those beside it stay. */
const malformed = [
  null,
  'space',
  { ...record, name: 'A'.repeat(16) },
  { ...record, name: '../../../../etc/' },
  { ...record, chainId: 5 },
  { ...record, anchors: 'none' },
  { ...record, anchors: [null] },
  { ...record, anchors: [{ height: 5, hash }] },
  { ...record, anchors: [{ height: '5n' }] },
  { ...record, replaces: undefined },
  { ...record, replaces: [7] },
  { ...record, root: { version: 5, hash } },
  { ...record, root: { version: '5n' } },
  { ...record, head: 'here' },
  headBy('x-aptos-', { head: { ...position.head, version: 5 } }),
  headBy('a\r\nb: c-'),
  headBy('X-A-')
]

t.test('hits stay hits through damage to the records, and new replicas join the space', async t => {
  const redis = await startRedis(t)
  const { client } = redis
  const sandbox = await startSandboxNode(t)
  const [a, b] = [await replica(t, sandbox, redis.url), await replica(t, sandbox, redis.url)]
  const first = await untilAgreed([a, b])
  // Uses a second space, so that a fall back to the first one would show.
  sandbox.faults.add({ kind: 'otherChain', blocks: 1500 })
  sandbox.faults.add({ kind: 'reset', times: 1 })
  for (let times = 0; times < 2; times++) await a.get(blockTarget(900))
  for (let version = 1000; version < 1300; version += 20) await a.get(blockTarget(version))
  const space = await untilAgreed([a, b], first)
  const isBack = async (): Promise<boolean> =>
    await client.type(spacesKey) === 'string' &&
    (await recordedSpaces(redis)).some(({ name, anchors }) => name === space && anchors.length > 0)
  await until(isBack, 'the second space is in Redis')
  await until(async () => (await client.keys(`varve:1:${space} json blocks ???`)).length === 15, 'all blocks are too')
  const upstream = (await client.keys('varve:1:last space *'))[0] ?? ''
  const replaceBy = async (put: () => Promise<unknown>): Promise<void> => {
    await client.del(spacesKey)
    await put()
  }
  const strikes: Array<() => Promise<unknown>> = [
    async () => await client.del(spacesKey),
    async () => await client.del(spacesKey, upstream, heartbeatsKey),
    async () => await client.set(spacesKey, 'garbage'),
    async () => await client.set(spacesKey, `${crc32('{').toString(16)} {`),
    async () => await client.set(spacesKey, sealed({ not: 'a list' })),
    async () => await client.set(spacesKey, (await client.get(spacesKey) ?? '').slice(0, -1)),
    async () => await client.set(spacesKey, sealed(malformed)),
    async () => await replaceBy(async () => await client.lpush(spacesKey, 'x')),
    async () => await replaceBy(async () => await client.zadd(spacesKey, 1, 'x')),
    async () => await client.set(upstream, sealed({ chainId: '4', name: space })),
    async () => await client.set(heartbeatsKey, 'garbage'),
    async () => await client.set(heartbeatsKey, sealed([7, { id: 'b', beat: '3', releases: [] }]))
  ]
  sandbox.requests.reset()
  for (const [nth, strike] of strikes.entries()) {
    await strike()
    t.equal((await a.get(blockTarget(1000))).headers[cacheStatusHeader], memoryHitStatus)
    const shared = await b.get(blockTarget(1000 + 20 * (nth + 1)))
    t.equal(shared.headers[cacheStatusHeader], redisHitStatus, String(strike))
    await until(isBack, String(strike))
    await until(async () => await isRead(a) && await isRead(b), String(strike))
  }
  t.equal(sandbox.requests.countFor('block_by_version'), 0)
  const late = await replica(t, sandbox, redis.url)
  t.equal((await late.get(blockTarget(1280))).headers[cacheStatusHeader], redisHitStatus)
  await client.flushall()
  for (const [varve, version] of [[a, 1000], [b, 1020]] as const) {
    t.equal((await varve.get(blockTarget(version))).headers[cacheStatusHeader], memoryHitStatus)
  }
  await until(isBack, 'the space is in Redis again')
  for (const varve of [a, b]) {
    t.equal(await varve.metric('varve_chain_resets_total'), 1)
    t.ok(new Set(usedSpaces(varve)).size <= 3, 'and no record begins another')
  }
})

t.test('a lost or damaged log of purges is written again by the replicas that know it', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const { client } = redis
  const [a] = [await replica(t, upstream, redis.url), await replica(t, upstream, redis.url)]
  const network = await slowRedis(t, redis)
  network.isRejecting = true
  const late = await replica(t, upstream, network.url)
  const old = await Promise.all([1, 2, 3].map(async account => (await late.get(modules(account))).body))
  for (const account of [1, 2, 3]) t.equal(await purge(a, modules(account)), 200)
  const log = async (): Promise<string[]> =>
    parsePurges(await client.get(logKey) ?? undefined).map(({ id }) => id).sort()
  const ids = await log()
  const text = await client.get(logKey) ?? ''
  const harms: Array<() => Promise<unknown>> = [
    async () => await client.del(logKey),
    async () => {
      await client.del(logKey)
      await client.lpush(logKey, 'another kind')
    },
    ...['', 'nonsense', text.slice(0, -1), text.replace('json', 'jsno'), text.replace('id', 'di'), sealed({})]
      .map(damaged => async () => await client.set(logKey, damaged)),
    async () => await client.set(logKey, sealed([null, { id: 'a', space: 'b', request: 'c' }]))
  ]
  for (const harm of harms) {
    await harm()
    await until(async () => {
      const now = await log()
      return ids.every(id => now.includes(id))
    }, String(harm))
  }
  t.ok(await client.ttl(logKey) > 0)
  network.isRejecting = false
  for (const [at, body] of old.entries()) {
    await until(async () => (await late.get(modules(at + 1))).body !== body, 'a replica that comes late applies them')
  }
  await client.call('ACL', 'SETUSER', 'blind', 'on', '>pw', '~*', '&*', '+@all', '-get')
  const blind = await replica(t, upstream, `redis://blind:pw@${redis.host}`)
  await blind.get(modules(9))
  await until(async () => await blind.metric('varve_redis_up') === 1, 'the replica that may not read it runs')
  t.same(await log(), ids, 'a log that cannot be read is not lost')
})

t.test('a replica that missed more purges than the log holds drops all it has and wants to write', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const network = await slowRedis(t, redis)
  const [a, b] = [await replica(t, upstream, redis.url), await replica(t, upstream, network.url)]
  const { body: old } = await b.get(modules(0))
  await untilWritten(b, 1)
  network.isRejecting = true
  network.dropConnections()
  await until(async () => await b.metric('varve_redis_up') === 0, 'Redis is known to be down')
  const { body: queued } = await b.get(modules(1))
  t.equal((await b.get(modules(0))).headers[cacheStatusHeader], memoryHitStatus)
  for (let account = 0; account < 300; account++) t.equal(await purge(a, modules(account)), 200)
  t.equal(parsePurges(await redis.client.get(logKey) ?? undefined).length, 256)
  network.isRejecting = false
  await until(async () => (await b.get(modules(0))).body !== old, 'its memory is empty')
  for (const varve of [a, b]) t.not((await varve.get(modules(1))).body, queued, 'nor is the old entry in Redis')
  const { body } = await b.get(modules(2))
  t.equal(await purge(a, modules(2)), 200)
  await until(async () => (await b.get(modules(2))).body !== body, 'later purges apply again')
  t.match(await b.get(modules(0)), { headers: { [cacheStatusHeader]: /hit/ } }, 'and nothing else')
})

t.test('purges that Redis missed are bounded, block its reads, and are delivered once it is back', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const network = await slowRedis(t, redis)
  const [a, b] = [await replica(t, upstream, network.url), await replica(t, upstream, redis.url)]
  const { body: old } = await a.get(modules(0))
  await untilWritten(a, 1)
  t.equal((await b.get(modules(0))).headers[cacheStatusHeader], redisHitStatus)
  const { body: kept } = await a.get(modules(300))
  network.isRejecting = true
  network.dropConnections()
  await until(async () => await a.metric('varve_redis_up') === 0, 'Redis is known to be down')
  for (let account = 0; account < 256; account++) t.equal(await purge(a, modules(account)), 202)
  t.equal(await purge(a, modules(300)), 503)
  t.match(
    await a.get(modules(300)),
    { body: kept, headers: { [cacheStatusHeader]: memoryHitStatus } },
    'changes nothing'
  )
  t.equal((await a.get(modules(0))).headers[cacheStatusHeader], storedMissStatus)
  network.isRejecting = false
  await until(async () => (await b.get(modules(0))).body !== old, 'the others apply them')
  await until(async () => await purge(a, modules(300)) === 200, 'and there is room again')
  await until(async () => (await redis.client.keys(`${anySpace} *`)).length > 0, 'entries are shared again')
  for (const varve of [a, b]) t.not((await varve.get(modules(0))).body, old)
})
