import t, { type Test } from 'tap'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.js'
import { ask } from '../support/client.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const status = 'cache-status'
const version = 'x-node-ledger-version'
const block = '/v1/blocks/by_version/2000'
const modules = (at: number): string => `/v1/accounts/0x1/modules?ledger_version=${at}&limit=1`
const control = 'varve:1:control 4'

async function node (t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => { await sandbox.close() })
  return sandbox
}

async function replica (t: Test, redis: RedisProcess, at: Sandbox, change: object = {}): Promise<TestVarve> {
  return await varveAt(t, at.url, { cache: { redis: { url: redis.url } }, admin: { listen: '127.0.0.1:0', token: 'token' }, ...change })
}

/** The generations that replicas have published, once their marks stand there too. */
async function generations (redis: RedisProcess): Promise<string[]> {
  return Object.keys(await redis.client.hgetall(control)).filter(field => field.startsWith('g')).sort()
}

async function shared (redis: RedisProcess, pattern: string): Promise<void> {
  await until(async () => (await redis.client.keys(pattern)).length > 0, `${pattern} is shared`)
}

async function heightAt (varve: TestVarve, target = block): Promise<string> {
  return (JSON.parse((await varve.get(target)).body) as { block_height: string }).block_height
}

t.test('a chain that is longer than the old one, on the same address, is known by its blocks alone; nobody serves the old one from the moment its node is back', async t => {
  const redis = await startRedis(t)
  const old = await node(t)
  const [a, b] = [await replica(t, redis, old), await replica(t, redis, old)]
  t.equal(await heightAt(a), '446')
  await shared(redis, 'varve:1:4.1 json blocks 446')
  t.equal((await b.get(block)).headers[status], 'varve; hit; detail=redis')
  await until(async () => (await redis.client.hget(control, 'g1'))?.includes('hash') === true, 'the marks are published')
  const { port } = new URL(old.url)
  await old.close()
  t.equal(await heightAt(a), '446', 'with the node gone the old chain is all there is')
  const next = await node(t, { seed: 9, blocks: 2000, port: Number(port) })
  // The first to hear of the node again.
  await a.get(modules(2001))
  const after = performance.now()
  await until(async () => await heightAt(b) === String(next.ledger.blockOf(2000n).height), 'the other replica has heard of it', 1000)
  t.ok(performance.now() - after < 1000)
  t.equal(await heightAt(a), String(next.ledger.blockOf(2000n).height))
  t.same(await generations(redis), ['g1', 'g2'])
  t.same(await Promise.all([a, b].map(async varve => await varve.metric('varve_chain_resets_total'))), [1, 1])
})

t.test('a reset that a position shows is heard of by every replica within a second, and replicas that notice at once begin one generation', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t)
  const [a, b, c] = [await replica(t, redis, sandbox), await replica(t, redis, sandbox), await replica(t, redis, sandbox)]
  for (const varve of [a, b, c]) await varve.get(block)
  sandbox.faults.add({ kind: 'otherChain' })
  await Promise.all([a, b].map(async varve => await varve.get(modules(2001))))
  const other = await heightAt(a)
  t.not(other, '446')
  await until(async () => await heightAt(c) === other, 'the third has heard of it', 1000)
  t.equal(await heightAt(b), other)
  t.same(await generations(redis), ['g1', 'g2'])
  sandbox.asked.reset()
  for (const varve of [a, b, c]) await varve.get(block)
  t.equal(sandbox.asked.of('block_by_version'), 0, 'the new chain is shared as the old one was')
})

t.test('a replica that lost the message hears of a reset by looking, within a second', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t)
  const [a, b] = [await replica(t, redis, sandbox), await replica(t, redis, sandbox)]
  for (const varve of [a, b]) await varve.get(block)
  await until(async () => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2, 'both listen')
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
  sandbox.faults.add({ kind: 'otherChain' })
  await a.get(modules(2001))
  const other = await heightAt(a)
  await until(async () => await heightAt(b) === other, 'it has looked', 1000)
  t.equal(await b.metric('varve_chain_resets_total'), 1)
})

t.test('a node that lags, or was restored from a backup, is no reset: hits stay hits', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t)
  const a = await replica(t, redis, sandbox, { head: { pollMs: 20 } })
  await a.get(block)
  const { port } = new URL(sandbox.url)
  for (const fault of [{ kind: 'lag', blocks: 200 }, { kind: 'fallBack', blocks: 300 }] as const) {
    const { remove } = sandbox.faults.add(fault)
    const polls = sandbox.asked.of('index')
    await until(() => sandbox.asked.of('index') > polls + 2, 'it was polled')
    t.match((await a.get(block)).headers, { [status]: 'varve; hit; detail=memory', [version]: '20067' })
    remove()
  }
  await sandbox.close()
  const restored = await node(t, { blocks: 600, port: Number(port) })
  await until(() => restored.asked.of('index') > 2, 'it was polled')
  t.match((await a.get(block)).headers, { [status]: 'varve; hit; detail=memory', [version]: '20067' })
  t.same([await a.metric('varve_chain_resets_total'), await generations(redis)], [0, ['g1']])
})

t.test('control keys that are deleted, damaged or of another type are published again, and nothing is forgotten for it', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t)
  const [a, b] = [await replica(t, redis, sandbox), await replica(t, redis, sandbox)]
  for (const varve of [a, b]) await varve.get(block)
  sandbox.faults.add({ kind: 'otherChain' })
  await a.get(modules(2001))
  for (const varve of [a, b]) await until(async () => await heightAt(varve) !== '446', 'the new chain')
  const isBack = async (): Promise<boolean> => (await redis.client.type(control)) === 'hash' && (await redis.client.hget(control, 'g2'))?.includes('hash') === true
  await until(isBack, 'the marks are published')
  const damage: Array<[string, () => Promise<unknown>]> = [
    ['deleted', async () => await redis.client.del(control)],
    ['of another type', async () => await redis.client.set(control, 'garbage')],
    ['garbage in a field', async () => await redis.client.hset(control, { g2: 'garbage', g3: '0 {}' })],
    ['a huge generation that nobody sealed', async () => await redis.client.hset(control, { g999999999: '12345678 {"anchors":[]}', x: 'y' })],
    ['everything flushed', async () => await redis.client.flushall()]
  ]
  for (const [name, strike] of damage) {
    await strike()
    await until(isBack, name)
    sandbox.asked.reset()
    for (const varve of [a, b]) t.equal((await varve.get(block)).headers[status], 'varve; hit; detail=memory', name)
    t.equal(sandbox.asked.of('block_by_version'), 0)
    await until(async () => (await generations(redis)).join() === 'g2', 'what was damaged is gone')
  }
  t.same(await Promise.all([a, b].map(async varve => await varve.metric('varve_chain_resets_total'))), [1, 1])
})

t.test('two chains of one name that share a Redis never mix, whoever comes first and also at once; each stays with its own', async t => {
  for (const atOnce of [false, true]) {
    const redis = await startRedis(t)
    const [one, other] = [await node(t), await node(t, { seed: 5, blocks: 1500 })]
    const start = [async () => await replica(t, redis, one), async () => await replica(t, redis, other)] as const
    const [a, x] = atOnce ? await Promise.all([start[0](), start[1]()]) : [await start[0](), await start[1]()]
    const truth = [one, other].map(({ ledger }) => String(ledger.blockOf(2000n).height))
    for (let round = 0; round < 8; round++) t.same(await Promise.all([heightAt(a), heightAt(x)]), truth)
    await until(() => [a, x].some(({ log }) => log.some(line => /another chain of the same name/.test(String(line['msg'])))), 'the log says so')
    for (let round = 0; round < 8; round++) t.same(await Promise.all([heightAt(a, '/v1/blocks/by_version/3000'), heightAt(x, '/v1/blocks/by_version/3000')]), [one, other].map(({ ledger }) => String(ledger.blockOf(3000n).height)))
    t.same(await generations(redis), ['g1', 'g2'], 'they do not take turns')
    t.same([await a.metric('varve_chain_resets_total'), await x.metric('varve_chain_resets_total')], [0, 0])
  }
})

t.test('with every node down a varve that starts serves what Redis has, with the newest position that is proven and both families of names', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t)
  const a = await replica(t, redis, sandbox)
  await a.get(block)
  sandbox.ledger.grow(10)
  await a.get('/v1/accounts/0x1/modules?limit=1')
  const newest = String(sandbox.ledger.head.version)
  await until(async () => (await redis.client.hget(control, 'g1'))?.includes(newest) === true, 'the position is published')
  await shared(redis, 'varve:1:upstream *')
  t.notMatch((await redis.client.keys('*')).join(), /127\.0\.0\.1/, 'no URL stands in Redis')
  await sandbox.close()
  const late = await replica(t, redis, sandbox)
  const got = await late.get(block)
  t.match(got.headers, { [status]: 'varve; hit; detail=redis', [version]: newest, 'x-aptos-ledger-version': newest })
  t.match(await ask(late.adminUrl, '/readyz'), { status: 200, body: /"ready":true.*does not answer/ })
  t.match(await late.get(modules(2222)), { status: 503 })
  t.test('where only the entries are left, they prove the position', async t => {
    await redis.client.del(control)
    const bare = await replica(t, redis, sandbox)
    const got = await bare.get(block)
    t.match(got.headers, { [status]: 'varve; hit; detail=redis', [version]: /^\d+$/ })
  })
  t.test('and when its address bears another chain later, nothing old is served', async t => {
    const next = await node(t, { seed: 7, blocks: 3000, port: Number(new URL(sandbox.url).port) })
    await late.get(modules(2001))
    t.equal(await heightAt(late), String(next.ledger.blockOf(2000n).height))
  })
})

t.test('where two chains could be meant and no node can tell, the answer is 503', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t)
  const a = await replica(t, redis, sandbox)
  await a.get(block)
  await shared(redis, 'varve:1:upstream *')
  const [key = ''] = await redis.client.keys('varve:1:upstream *')
  const mapped = await redis.client.get(key)
  await until(async () => (await redis.client.hget(control, 'g1')) !== null, 'the generation is published')
  // Another replica, in front of another node, has begun a new generation since this one was seen.
  const rival = await replica(t, redis, await node(t, { seed: 3, blocks: 1500 }))
  await until(async () => (await generations(redis)).join() === 'g1,g2', 'the rival has its own')
  await a.stop({ drainMs: 0 })
  await rival.stop({ drainMs: 0 })
  await sandbox.close()
  await redis.client.set(key, mapped ?? '')
  const late = await replica(t, redis, sandbox)
  t.match(await late.get(block), { status: 503, body: /"error_code":"internal_error"/ })
  t.match(await ask(late.adminUrl, '/readyz'), { status: 503 })
})

t.test('replicas whose nodes run two releases read each rendering once; when the old one is gone everywhere it is read afresh', async t => {
  const redis = await startRedis(t)
  const [old, fresh] = [await node(t, { release: 'a'.repeat(40) }), await node(t, { release: 'b'.repeat(40) })]
  const a = await replica(t, redis, old)
  const b = await replica(t, redis, fresh)
  const signs = async (): Promise<string> => Object.entries(await redis.client.hgetall(control)).filter(([field]) => field.startsWith('r')).map(([, text]) => text).join()
  await until(async () => /a{40}/.test(await signs()) && /b{40}/.test(await signs()), 'both have said what their nodes run')
  await a.get(modules(2000))
  await shared(redis, '*modules*')
  // Each has looked since.
  await new Promise(resolve => { setTimeout(resolve, 500) })
  old.asked.reset()
  fresh.asked.reset()
  for (let round = 0; round < 10; round++) for (const varve of [a, b]) t.match((await varve.get(modules(2000))).headers[status], /^varve; hit/)
  t.equal(old.asked.of('account_modules') + fresh.asked.of('account_modules'), 0, 'they do not take turns in reading anew')
})

t.test('a rendering that one replica has read afresh is taken from there by the others', async t => {
  const redis = await startRedis(t)
  const sandbox = await node(t, { release: 'a'.repeat(40) })
  const [a, b] = [await replica(t, redis, sandbox, { head: { pollMs: 20 } }), await replica(t, redis, sandbox, { head: { pollMs: 20 } })]
  await a.get(modules(2000))
  await shared(redis, '*modules*')
  t.equal((await b.get(modules(2000))).headers[status], 'varve; hit; detail=redis')
  sandbox.ledger.release = 'b'.repeat(40)
  // What the other replicas say of the old release is heard until they say otherwise.
  await until(async () => /^varve; fwd=uri-miss; fwd-status=200; stored/.test(String((await a.get(modules(2000))).headers[status])), 'read afresh')
  await until(async () => /^varve; hit; detail=redis/.test(String((await b.get(modules(2000))).headers[status])), 'taken from there')
  t.equal(sandbox.asked.of('account_modules'), 2)
})

t.test('a latest read at a node that has not got as far as another replica has shown is asked once, and told to be late', async t => {
  const redis = await startRedis(t)
  const [ahead, behind] = [await node(t), await node(t, { blocks: 900 })]
  const a = await replica(t, redis, ahead)
  const b = await replica(t, redis, behind)
  await a.get(block)
  await until(async () => (await b.get(block)).headers[version] === '20067', 'the other has heard of the position')
  behind.asked.reset()
  const latest = await b.get('/v1/accounts/0x1/modules?limit=1')
  t.match(latest, { status: 200, headers: { [version]: String(behind.ledger.head.version), [status]: 'varve; fwd=bypass' } })
  t.equal(behind.asked.of('account_modules'), 1)
  t.equal(await b.metric('varve_stale_latest_total'), 1)
})
