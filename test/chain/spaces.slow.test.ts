import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { fundAccount } from '../../sandbox/submit-transaction.js'
import { sendRequest } from '../support/client.js'
import { degraded, diskHit, fill, modules, startAt, startNode, statusOf, store, token } from '../support/disk-tier.js'
import { freePort } from '../support/free-port.js'
import { redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/tcp-gate.js'
import { startSandboxNode } from '../support/replicas.js'
import { testFolder } from '../support/test-folder.js'
import { until } from '../support/until.js'
import { type ConfigChange, type TestVarve, varveAt } from '../support/varve.js'

const admin = { listen: '127.0.0.1:0', token }
const transaction = (version: bigint): string => `/v1/transactions/by_version/${version}`

async function purgeAll (varve: TestVarve): Promise<number> {
  const { status } = await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: '{"all":true}'
  })
  return status
}

/** Returns the name of the space that a varve uses. */
async function spaceOf ({ adminUrl }: TestVarve): Promise<string | undefined> {
  const { chain } = JSON.parse((await sendRequest(adminUrl, '/status.json')).body) as { chain?: { space: string } }
  return chain?.space
}

async function atRedis (t: Test, url: string, redis: { url: string }, change: ConfigChange = {}): Promise<TestVarve> {
  return await varveAt(t, url, {
    admin,
    ...change,
    cache: { ...change.cache, redis: { url: redis.url, timeoutMs: 1000 } }
  })
}

/** Reads a target until Redis has it. */
async function storeInRedis (varve: TestVarve, target: string): Promise<void> {
  await varve.get(target)
  await until(
    async () => (await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0) > 0,
    `${target} is in Redis`
  )
}

/** Copies all that Redis has; returns a function that brings it back. */
async function snapshotOf ({ client }: RedisProcess): Promise<() => Promise<void>> {
  const keys = await client.keys('*')
  const values = await Promise.all(keys.map(async key => await client.dumpBuffer(key)))
  return async () => {
    await client.flushall()
    for (const [at, key] of keys.entries()) await client.restore(key, 0, values[at] ?? Buffer.alloc(0), 'REPLACE')
  }
}

/** Grows two nodes of one chain that part: from here on each has transactions that the other has not. */
async function fork (one: Sandbox, other: Sandbox): Promise<void> {
  fundAccount(one.ledger, 'be11'.padStart(64, '0'), 1n)
  fundAccount(other.ledger, 'be22'.padStart(64, '0'), 2n)
  one.ledger.grow(8)
  other.ledger.grow(12)
}

t.test('a purge of all holds though Redis is brought back from an old snapshot', async t => {
  const [node, redis, path] = [await startNode(t), await startRedis(t), testFolder(t)]
  const disk = { disk: { path, maxGb: 0.1 } }
  const first = await atRedis(t, node.url, redis, { cache: disk })
  await storeInRedis(first, modules)
  const restore = await snapshotOf(redis)
  const before = await spaceOf(first)
  t.equal(await purgeAll(first), 200)
  t.not(await spaceOf(first), before)
  await restore()
  const beside = await atRedis(t, node.url, redis)
  await until(async () => await spaceOf(beside) === await spaceOf(first), 'the living process has written it back')
  t.equal(await statusOf(beside, modules), storedMissStatus)
  await Promise.all([first, beside].map(async varve => {
    await varve.stop({ drainMs: 0 })
  }))
  await restore()
  const later = await atRedis(t, node.url, redis, { cache: disk })
  t.not(await spaceOf(later), before, 'the record on the disk replaces the one in Redis')
  t.equal(await statusOf(later, modules), storedMissStatus)
})

t.test('a purge of all holds though the folder is brought back from an old copy', async t => {
  const [node, redis, path] = [await startNode(t), await startRedis(t), testFolder(t)]
  const cache = { disk: { path, maxGb: 0.1 } }
  const first = await atRedis(t, node.url, redis, { cache })
  await store(first, [modules])
  const before = await spaceOf(first)
  await cp(path, `${path}.copy`, { recursive: true, filter: name => !name.endsWith('lock') })
  t.equal(await purgeAll(first), 200)
  await first.stop({ drainMs: 0 })
  await rm(path, { recursive: true })
  await cp(`${path}.copy`, path, { recursive: true })
  const later = await atRedis(t, node.url, redis, { cache })
  t.not(await spaceOf(later), before, 'Redis decides')
  t.equal(await statusOf(later, modules), storedMissStatus)
})

t.test('a fork that shares every anchor below it finds nothing of the other chain', async t => {
  const [node, forked, path] = [await startNode(t), await startNode(t), testFolder(t)]
  const at = node.ledger.head.version + 1n
  await fork(node, forked)
  await fill(t, node.url, path, [transaction(at), modules])
  const varve = await startAt(t, forked.url, path)
  const bodies = await Promise.all(
    [varve, { get: async (target: string) => await sendRequest(forked.url, target) }].map(
      async from => (await from.get(transaction(at))).body
    )
  )
  t.equal(bodies[0], bodies[1], 'the transaction of the fork')
  t.equal(await statusOf(varve, modules), storedMissStatus, 'nor what both chains have')
})

t.test('history is found again when a chain comes back after another of its chain id', async t => {
  const [node, other, path] = [await startNode(t, 1), await startNode(t, 2), testFolder(t)]
  const [body] = await fill(t, node.url, path, [modules])
  const between = await startAt(t, other.url, path)
  t.equal(await statusOf(between, modules), storedMissStatus)
  await between.stop({ drainMs: 0 })
  const varve = await startAt(t, node.url, path)
  t.match(await varve.get(modules), { body, headers: { 'cache-status': diskHit } })
})

t.test('with every anchor pruned nothing proves a chain, and nothing cached of it is served', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  await fill(t, node.url, path, [modules])
  node.ledger.grow(50)
  node.ledger.pruneTo(node.ledger.height - 20)
  const varve = await startAt(t, node.url, path)
  const recent = `/v1/accounts/0x1/modules?ledger_version=${node.ledger.head.version}`
  t.equal(await statusOf(varve, recent), storedMissStatus)
  t.not(await statusOf(varve, modules), diskHit)
})

for (
  const [what, missing] of [
    ['blocks by height', ['block_by_height']],
    ['transactions by version', ['transaction_by_version']]
  ] as const
) {
  t.test(`a node without ${what} proves its chain by the other`, async t => {
    const [node, path] = [await startNode(t), testFolder(t)]
    for (const match of missing) node.faults.add({ kind: 'error', status: 404, code: 'web_framework_error', match })
    const [body] = await fill(t, node.url, path, [modules])
    const varve = await startAt(t, node.url, path)
    t.match(await varve.get(modules), { body, headers: { 'cache-status': diskHit } })
    t.same(await degraded(varve), [])
  })
}

t.test('a node without both proves no chain: the disk is not used, and /readyz says so', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  for (const match of ['block_by_height', 'transaction_by_version'] as const) {
    node.faults.add({ kind: 'error', status: 404, code: 'web_framework_error', match })
  }
  const varve = await startAt(t, node.url, path)
  t.equal((await varve.get(modules)).status, 200)
  t.match(await degraded(varve), ['disk tier not read: no upstream has proven yet that its entries are of this chain'])
  t.equal(await varve.metric('varve_cache_writes_total{tier="disk"}') ?? 0, 0)
})

t.test('replicas that begin two spaces at once agree on one, and a purge between them holds', async t => {
  const [node, redis] = [await startNode(t), await startRedis(t)]
  const varves = await Promise.all([1, 2, 3].map(async () => await atRedis(t, node.url, redis)))
  const [first] = varves
  await Promise.all(varves.map(async varve => await varve.get(modules)))
  const { status } = await sendRequest(first?.adminUrl ?? '', '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ url: modules })
  })
  t.ok([200, 202].includes(status))
  const reads = node.requests.countFor('account_modules')
  await until(async () => new Set(await Promise.all(varves.map(spaceOf))).size === 1, 'one space')
  await until(
    async () => (await Promise.all(varves.map(degraded))).flat().length === 0,
    'every replica reads Redis, with all purges'
  )
  t.equal((await first?.get(modules))?.status, 200)
  t.ok(node.requests.countFor('account_modules') > reads, 'what was cached before the purge is not served')
})

t.test('two chains in one Redis are one log line, once they have stayed for ten seconds', async t => {
  const redis = await startRedis(t)
  const varves = await Promise.all([1, 2].map(async seed => await atRedis(t, (await startNode(t, seed)).url, redis)))
  const conflicts = (): unknown[] =>
    varves.flatMap(({ log }) => log).filter(({ msg }) => /another chain with the same chain id/.test(String(msg)))
  const began = performance.now()
  await until(() => conflicts().length > 0, 'the log reports it', 20_000)
  t.ok(performance.now() - began > 8000, 'a reset reaches upstreams one after another')
  t.equal(conflicts().length, 1)
})

t.test('a process that starts without Redis finds the history of its chain there later', async t => {
  const [node, redis] = [await startNode(t), await startRedis(t)]
  const slow = await slowRedis(t, redis)
  const first = await atRedis(t, node.url, redis)
  await storeInRedis(first, modules)
  slow.isRejecting = true
  const late = await atRedis(t, node.url, slow)
  t.equal((await late.get('/v1/blocks/by_version/1500')).status, 200)
  t.not(await spaceOf(late), await spaceOf(first))
  slow.isRejecting = false
  await until(async () => await spaceOf(late) === await spaceOf(first), 'it has adopted the space')
  await until(async () => (await degraded(late)).length === 0, 'Redis is read')
  t.equal(await statusOf(late, modules), redisHitStatus)
})

t.test('Redis knows upstreams by a digest: no URL and no secret appears in it', async t => {
  const redis = await startRedis(t)
  const node = await startSandboxNode(t, { pathPrefix: '/key-s3cret' })
  const varve = await atRedis(t, node.url, redis, { upstream: { headers: { 'x-api-key': 'hush-hush' } } })
  await storeInRedis(varve, '/v1/blocks/by_version/2000')
  await until(async () => (await redis.client.keys('varve:1:last space *')).length === 1, 'the upstream is remembered')
  const values = await Promise.all((await redis.client.keys('*')).map(async key => await redis.client.dump(key)))
  t.notMatch(values.join('\n') + (await redis.client.keys('*')).join('\n'), /s3cret|hush|127\.0\.0\.1/)
})

t.test('what Redis lost a living process writes back, and goes on in its space', async t => {
  const [node, redis] = [await startNode(t), await startRedis(t)]
  const varve = await atRedis(t, node.url, redis)
  await storeInRedis(varve, modules)
  const space = await spaceOf(varve)
  await redis.client.flushall()
  await until(async () => await redis.client.exists('varve:1:spaces 4') === 1, 'the record is back')
  const beside = await atRedis(t, node.url, redis)
  t.same(await Promise.all([spaceOf(varve), spaceOf(beside)]), [space, space])
})

t.test('a purge of all is 202 while Redis is away, and it is not read before it has that', async t => {
  const [node, redis] = [await startNode(t), await startRedis(t)]
  const varve = await atRedis(t, node.url, redis)
  await storeInRedis(varve, modules)
  await redis.stop()
  await until(async () => (await degraded(varve)).some(text => /^Redis/.test(text)), 'Redis is down')
  t.equal(await purgeAll(varve), 202)
  await redis.start()
  await until(async () => (await degraded(varve)).length === 0, 'Redis has the new space')
  t.not(await statusOf(varve, modules), redisHitStatus)
})

t.test('a purge of all that Redis missed outlasts a reset, should the chain come back', async t => {
  const [node, redis, port] = [await startNode(t), await startRedis(t), await freePort()]
  const first = await startNode(t, 1, port)
  const varve = await atRedis(t, first.url, redis, { head: { pollMs: 50 } })
  await storeInRedis(varve, modules)
  const before = await spaceOf(varve)
  await redis.stop()
  await until(async () => (await degraded(varve)).some(text => /^Redis/.test(text)), 'Redis is down')
  t.equal(await purgeAll(varve), 202)
  await first.close()
  const second = await startNode(t, 2, port)
  await until(async () => await varve.metric('varve_chain_resets_total') === 1, 'the other chain is served')
  await redis.start()
  await until(async () => !(await degraded(varve)).some(text => /Redis/.test(text)), 'Redis has the other space')
  await varve.stop({ drainMs: 0 })
  await second.close()
  const late = await atRedis(t, node.url, redis)
  t.not(await spaceOf(late), before)
  t.equal(await statusOf(late, modules), storedMissStatus)
})

t.test('where Redis rejects scripts its entries are not used, and /readyz says why', async t => {
  const [node, redis] = [await startNode(t), await startRedis(t)]
  await redis.client.call('ACL', 'SETUSER', 'plain', 'on', '>pw', '~*', '&*', '+@all', '-eval')
  const varve = await varveAt(t, node.url, { cache: { redis: { url: `redis://plain:pw@${redis.host}` } } })
  t.equal((await varve.get(modules)).status, 200)
  await until(async () => (await degraded(varve)).some(text => text.includes('NOPERM')), 'Redis rejects the chain')
  t.match(await degraded(varve), [/^Redis tier not read: it rejects the state of the chain: NOPERM/])
  t.equal(await redis.client.exists('varve:1:spaces 4'), 0)
})

t.test('the form of an earlier release is removed at the first start, which says so', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  await Promise.all(['generations', 'entries/4.1-aa/1/11', 'tmp'].map(async name => {
    await mkdir(join(path, name), { recursive: true })
  }))
  await writeFile(join(path, 'varve-cache'), '')
  await writeFile(join(path, 'entries/4.1-aa/1/11/x'), 'old')
  await writeFile(join(path, 'generations/4.1'), 'old')
  const varve = await startAt(t, node.url, path)
  t.equal(varve.log.filter(({ msg }) => /earlier release: removed/.test(String(msg))).length, 1)
  await until(async () => !(await readdir(path)).includes('outdated'), 'the old entries are removed')
  t.notOk((await readdir(path)).includes('generations'))
  await store(varve, [modules])
})
