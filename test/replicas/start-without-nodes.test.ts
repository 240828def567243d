import t, { type Test } from 'tap'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.js'
import { ask } from '../support/client.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/slow-redis.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const status = 'cache-status'
const control = 'varve:1:control 4'
const fromRedis = 'varve; hit; detail=redis'
const at = (version: bigint | number): string => `/v1/blocks/by_version/${version}`
const known = [1000, 1500, 2000]

async function nodeOf (t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => { await sandbox.close() })
  return sandbox
}

async function replica (t: Test, redisUrl: string, nodeUrl: string, change: object = {}): Promise<TestVarve> {
  return await varveAt(t, nodeUrl, { cache: { redis: { url: redisUrl } }, admin: { listen: '127.0.0.1:0', token: 'x' }, ...change })
}

const portOf = ({ url }: Sandbox): number => Number(new URL(url).port)
const upstreamsIn = async (redis: RedisProcess): Promise<string[]> => await redis.client.keys('varve:1:upstream *')

/** Has a replica read some blocks and share all that there is to be shared, and stops it. */
async function readBefore (t: Test, redis: RedisProcess, node: Sandbox): Promise<Map<number, string>> {
  const varve = await replica(t, redis.url, node.url)
  const bodies = new Map<number, string>()
  for (const version of known) bodies.set(version, (await varve.get(at(version))).body)
  await until(async () => (await redis.client.keys('varve:1:4.1 json blocks ???')).length === known.length, 'the blocks are shared')
  await until(async () => (await redis.client.hget(control, 'g1'))?.includes('hash') === true && (await upstreamsIn(redis)).length > 0, 'the chain is known')
  await varve.stop({ drainMs: 0 })
  return bodies
}

t.test('the position that is shown is the newest that the entries prove, and rises with them, under the names of the node that they came from too', async t => {
  const redis = await startRedis(t)
  const node = await nodeOf(t, { family: 'x-movement-' })
  const before = await replica(t, redis.url, node.url)
  const heads: string[] = []
  for (const version of known) {
    await before.get(at(version))
    heads.push(String(node.ledger.head.version))
    node.ledger.grow(5)
  }
  await until(async () => (await redis.client.keys('varve:1:4.1 json blocks ???')).length === known.length && (await upstreamsIn(redis)).length > 0, 'all is shared')
  await before.stop({ drainMs: 0 })
  await node.close()
  await redis.client.del(control)
  const late = await replica(t, redis.url, node.url)
  for (const [nth, shown] of [[1, 1], [0, 1], [2, 2], [1, 2]] as const) {
    const got = await late.get(at(known[nth] ?? 0))
    t.match(got, { status: 200, headers: { 'x-node-ledger-version': heads[shown], 'x-movement-ledger-version': heads[shown], 'x-movement-chain-id': '4' } })
    t.notOk(got.rawNames.some(name => name.startsWith('x-aptos-')))
  }
})

t.test('the position of the control key counts where it is newer than all entries', async t => {
  const redis = await startRedis(t)
  const node = await nodeOf(t)
  const before = await replica(t, redis.url, node.url)
  await before.get(at(2000))
  node.ledger.grow(50)
  await before.get('/v1/accounts/0x1/modules?limit=1')
  const newest = String(node.ledger.head.version)
  await until(async () => (await redis.client.hget(control, 'g1'))?.includes(newest) === true && (await redis.client.keys('*json blocks ???')).length === 1, 'it is published')
  await before.stop({ drainMs: 0 })
  await node.close()
  const late = await replica(t, redis.url, `${node.url}/`)
  t.match(await late.get(at(2000)), { status: 200, headers: { [status]: fromRedis, 'x-node-ledger-version': newest, 'x-aptos-ledger-version': newest } }, 'also under another spelling of its URL')
  t.match(await late.get('/v1/accounts/0x1/modules'), { status: 503 }, 'what moves is not made up')
  t.match(await ask(late.adminUrl, '/readyz'), { status: 200 })
})

t.test('a node that takes connections and never answers keeps nobody waiting for what Redis has', async t => {
  const redis = await startRedis(t)
  const node = await nodeOf(t)
  const bodies = await readBefore(t, redis, node)
  node.faults.add({ kind: 'hang' })
  const starting = replica(t, redis.url, node.url)
  const began = performance.now()
  const late = await starting
  t.match(await late.get(at(2000)), { status: 200, body: bodies.get(2000), headers: { [status]: fromRedis } })
  t.ok(performance.now() - began < 7000, `${Math.round(performance.now() - began)} ms`)
})

t.test('when the node comes back with the same chain it goes on, further on or restored from a backup: hits stay hits', async t => {
  for (const blocks of [1200, 700]) {
    const redis = await startRedis(t)
    const node = await nodeOf(t)
    const bodies = await readBefore(t, redis, node)
    await node.close()
    const late = await replica(t, redis.url, node.url)
    t.match(await late.get(at(2000)), { body: bodies.get(2000) })
    const back = await nodeOf(t, { blocks, port: portOf(node) })
    t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
    back.asked.reset()
    for (const version of known) t.match(await late.get(at(version)), { status: 200, body: bodies.get(version), headers: { [status]: /hit/, 'x-node-ledger-version': String(blocks === 1200 ? back.ledger.head.version : node.ledger.head.version) } })
    t.equal(back.asked.of('block_by_version'), 0)
    t.equal(await late.metric('varve_chain_resets_total'), 0)
  }
})

t.test('when the node comes back with another chain, shorter or longer, of the same id or another, nothing old is served', async t => {
  const others: SandboxOptions[] = [{ seed: 2, blocks: 1500 }, { seed: 2, blocks: 1500, chainId: 9 }]
  for (const options of others) {
    const redis = await startRedis(t)
    const node = await nodeOf(t)
    const bodies = await readBefore(t, redis, node)
    await node.close()
    const late = await replica(t, redis.url, node.url)
    t.match(await late.get(at(2000)), { body: bodies.get(2000) })
    const back = await nodeOf(t, { ...options, port: portOf(node) })
    t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
    for (const version of known) t.match(await late.get(at(version)), { status: 200, body: (await ask(back.url, at(version))).body, headers: { 'x-node-chain-id': String(options.chainId ?? 4) } })
  }
  const redis = await startRedis(t)
  const node = await nodeOf(t)
  const bodies = await readBefore(t, redis, node)
  const away = node.faults.add({ kind: 'reset' })
  const late = await replica(t, redis.url, node.url)
  t.match(await late.get(at(2000)), { body: bodies.get(2000) })
  node.faults.add({ kind: 'otherChain' })
  away.remove()
  t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  for (const version of known) t.match(await late.get(at(version)), { status: 200, body: (await ask(node.url, at(version))).body })
})

t.test('a chain that is taken up from another id is known by its own blocks alone', async t => {
  const redis = await startRedis(t)
  const [four, nine] = [await nodeOf(t, { blocks: 1400 }), await nodeOf(t, { chainId: 9, seed: 2 })]
  await readBefore(t, redis, four)
  const other = await replica(t, redis.url, nine.url)
  const marks = async (): Promise<string | null> => await redis.client.hget('varve:1:control 9', 'g1')
  await until(async () => (await marks())?.includes('hash') === true, 'the other chain is known')
  const before = JSON.parse((await marks() ?? '').replace(/^\S+ /, '')) as { anchors: unknown }
  await four.close()
  const late = await replica(t, redis.url, four.url)
  t.match(await late.get(at(2000)), { status: 200 })
  await nodeOf(t, { chainId: 9, seed: 2, port: portOf(four) })
  t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  // Whoever publishes a mark too many does so when it has looked.
  const signs = async (): Promise<number> => (await redis.client.hkeys('varve:1:control 9')).filter(field => field.startsWith('r')).length
  await until(async () => await signs() === 2, 'it has looked')
  t.same((JSON.parse((await marks() ?? '').replace(/^\S+ /, '')) as { anchors: unknown }).anchors, before.anchors)
  t.equal(await other.metric('varve_chain_resets_total'), 0)
})

t.test('a later generation of the same chain, which another replica began since, is the one that is served', async t => {
  const redis = await startRedis(t)
  const node = await nodeOf(t)
  await readBefore(t, redis, node)
  const [upstream = ''] = await upstreamsIn(redis)
  const mapped = await redis.client.get(upstream) ?? ''
  const operator = await replica(t, redis.url, node.url)
  await ask(operator.adminUrl, '/purge', { method: 'POST', headers: { authorization: 'Bearer x' }, body: '{"all":true}' })
  await operator.get(at(1500))
  await until(async () => (await redis.client.keys('varve:1:4.2 json blocks ???')).length === 1, 'it is shared')
  await operator.stop({ drainMs: 0 })
  await node.close()
  await redis.client.set(upstream, mapped)
  const late = await replica(t, redis.url, node.url)
  t.match((await late.get(at(1500))).headers, { [status]: fromRedis })
  t.match(await late.get(at(1000)), { status: 503 }, 'what was purged stays so')
})

t.test('where it is not known which chain is meant, the answer is 503: of another URL, of a record that is damaged or lost, of a chain id that is not the configured one', async t => {
  const redis = await startRedis(t)
  const node = await nodeOf(t)
  const bodies = await readBefore(t, redis, node)
  await node.close()
  const stranger = await replica(t, redis.url, 'http://127.0.0.1:9/other')
  t.match(await stranger.get(at(2000)), { status: 503, body: /"error_code":"internal_error"/ })
  t.match(await ask(stranger.adminUrl, '/readyz'), { status: 503 })
  const configured = await replica(t, redis.url, node.url, { chainId: 9 })
  t.match(await configured.get(at(2000)), { status: 503 })
  const [upstream = ''] = await upstreamsIn(redis)
  const mapped = await redis.client.get(upstream) ?? ''
  for (const spoil of [async () => await redis.client.set(upstream, mapped.replace('"generation":1', '"generation":2')), async () => await redis.client.del(upstream)]) {
    await spoil()
    const late = await replica(t, redis.url, node.url)
    t.match(await late.get(at(2000)), { status: 503 })
    await redis.client.set(upstream, mapped)
    t.match(await late.get(at(2000)), { status: 200, body: bodies.get(2000) }, 'and it is served as soon as that is known')
  }
})

t.test('with Redis dead as well there is nothing to serve, until it comes back', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const node = await nodeOf(t)
  const bodies = await readBefore(t, redis, node)
  await node.close()
  slow.isRefusing = true
  const late = await replica(t, slow.url, node.url)
  t.match(await late.get(at(2000)), { status: 503 })
  slow.isRefusing = false
  await until(async () => (await late.get(at(2000))).status === 200, 'Redis is back')
  t.match(await late.get(at(1000)), { status: 200, body: bodies.get(1000), headers: { [status]: fromRedis } })
})
