import { type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { encodeEntry } from '../../src/cache/entry-codec.js'
import { type Sandbox } from '#sandbox'
import { type TestRequest, sendRequest, tableItemLookup } from '../support/client.js'
import { startIdleMeter } from '../support/until.js'
import { startRedis } from '../support/redis-server.js'
import { blockTarget, readiness, startSandboxNode, untilWritten } from '../support/replicas.js'
import { memoryHitStatus, redisHitStatus, cacheStatusHeader, storedMissStatus } from '../support/cache-status.js'
import { openRedisTier, space, storedEntryOf } from '../support/redis-tier.js'
import { slowRedis } from '../support/tcp-gate.js'
import { headAt, respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const page = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=500&limit=10'
const token = 't0ken'

const redis = await startRedis(t)
const { client } = redis
t.beforeEach(async () => {
  await client.flushall()
})

async function replicaOf (
  t: Test,
  { url }: Pick<Sandbox, 'url'>,
  { at = redis.url, ...change }: { pages?: { eventsTtlSeconds: number }, at?: string } = {}
): Promise<TestVarve> {
  const admin = { listen: '127.0.0.1:0', token }
  return await varveAt(t, url, { cache: { redis: { url: at, timeoutMs: 1000, ttlSeconds: 1000 } }, admin, ...change })
}

const statusOf = async (varve: TestVarve, target: string, options?: TestRequest): Promise<unknown> =>
  (await varve.get(target, options)).headers[cacheStatusHeader]
const purge = async (varve: TestVarve, url: string): Promise<number> =>
  (await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ url })
  })).status
// Every entry and index begins with the name of a space.
const entriesPattern = `varve:1:${'?'.repeat(16)} *`
/** Keys of entries, without those of indexes. */
const entryKeys = async (): Promise<string[]> => {
  const keys = (await client.keys(entriesPattern)).sort()
  const types = await Promise.all(keys.map(async key => await client.type(key)))
  return keys.filter((_, at) => types[at] === 'string')
}

t.test('a response that one replica stored is a Redis hit on the others, with equal headers', async t => {
  const sandbox = await startSandboxNode(t)
  const [a, b] = [await replicaOf(t, sandbox), await replicaOf(t, sandbox)]
  const whole = '/v1/accounts/0x1/modules?ledger_version=2000'
  const reads: ReadonlyArray<readonly [string, TestRequest]> = [
    [`${whole}&limit=2`, {}],
    [whole, {}],
    [whole, { headers: { accept: 'application/x-bcs' } }],
    ['/v1/tables/0x5eed/item?ledger_version=2000', tableItemLookup('u64', '"7"')],
    [page, {}],
    ['/v1/blocks/by_version/2000?with_transactions=true', {}]
  ]
  for (const [nth, [target, options]] of reads.entries()) {
    const direct = await sendRequest(sandbox.url, target, options)
    const first = await a.get(target, options)
    t.equal(first.headers[cacheStatusHeader], storedMissStatus)
    await untilWritten(a, nth + 1)
    sandbox.requests.reset()
    for (const [varve, from] of [[b, redisHitStatus], [b, memoryHitStatus], [a, memoryHitStatus]] as const) {
      const got = await varve.get(target, options)
      t.same([got.status, got.bytes, got.headers[cacheStatusHeader]], [200, direct.bytes, from])
      for (
        const name of ['content-type', 'etag', 'x-node-cursor', 'x-aptos-cursor', 'x-node-gas-used', 'cache-control']
      ) t.equal(got.headers[name], first.headers[name], `${target} ${name}`)
    }
    const again = await b.get(target, {
      ...options,
      headers: { ...options.headers, 'if-none-match': String(first.headers.etag) }
    })
    t.same([again.status, again.headers['x-node-ledger-version']], [304, String(sandbox.ledger.head.version)])
    const endpoints = ['account_modules', 'table_item', 'account_events', 'block_by_version'] as const
    t.same(endpoints.map(endpoint => sandbox.requests.countFor(endpoint)), [0, 0, 0, 0])
  }
  const key = (await entryKeys()).find(key => key.endsWith('modules?ledger_version=2000')) ?? ''
  t.ok(await client.strlen(key) < (await a.get(whole)).bytes.length / 2, 'long bodies are compressed in Redis')
})

t.test('a not-found is shared under the exact request text only', async t => {
  const sandbox = await startSandboxNode(t)
  const [a, b] = [await replicaOf(t, sandbox), await replicaOf(t, sandbox)]
  const target = '/v1/tables/0x5eed/item?ledger_version=2000'
  const missing = await a.get(target, tableItemLookup('u64', '"99999"'))
  t.equal(missing.status, 404)
  await untilWritten(a, 1)
  t.match(await b.get(target, tableItemLookup('u64', '"99999"')), {
    status: 404,
    body: missing.body,
    headers: { [cacheStatusHeader]: redisHitStatus }
  })
  t.notMatch(await statusOf(b, target, tableItemLookup('u64', '"099999"')), 'hit')
})

t.test('a damaged, moved or foreign value is a counted miss, fetched once and replaced', async t => {
  const sandbox = await startSandboxNode(t)
  const [a, b, c] = [await replicaOf(t, sandbox), await replicaOf(t, sandbox), await replicaOf(t, sandbox)]
  const set = async (key: string, value: Buffer | string): Promise<unknown> => await client.set(key, value, 'KEEPTTL')
  const valueOf = async (key: string): Promise<Buffer> => await client.getBuffer(key) ?? Buffer.alloc(0)
  const harms: ReadonlyArray<readonly [string, (key: string) => Promise<unknown>]> = [
    ['empty', async key => await set(key, '')],
    ['cut', async key => await set(key, (await valueOf(key)).subarray(0, -1))],
    ['longer', async key => await client.append(key, 'x')],
    ['of another release', async key => await client.setrange(key, 3, '\u0002')],
    ['of another program', async key => await set(key, '{"a":"response"}')],
    ['of another key', async key => await set(key, await encodeEntry(storedEntryOf('4.1 json x', '["x"]')))],
    ['altered in its last bit', async key => {
      const value = await valueOf(key)
      value.writeUInt8(value.readUInt8(value.length - 1) ^ 1, value.length - 1)
      await set(key, value)
    }]
  ]
  const targets = [...harms.map((_, at) => modules(2000 + at)), page, blockTarget(9000)]
  const bodies: string[] = []
  for (const target of targets) bodies.push((await a.get(target)).body)
  await untilWritten(a, targets.length)
  const last = harms.at(-1)?.[1] ?? (async () => {})
  for (const key of await entryKeys()) await (harms[Number(/version=20(\d\d)/.exec(key)?.[1])]?.[1] ?? last)(key)
  sandbox.requests.reset()
  for (const [at, target] of targets.entries()) {
    t.match(
      await b.get(target),
      { body: bodies[at], headers: { [cacheStatusHeader]: storedMissStatus } },
      harms[at]?.[0] ?? target
    )
    t.equal(await b.metric('varve_corrupt_entries_total'), at + 1)
  }
  await untilWritten(b, targets.length)
  for (const [at, target] of targets.entries()) {
    t.match(await c.get(target), { body: bodies[at], headers: { [cacheStatusHeader]: redisHitStatus } })
  }
  t.equal(await c.metric('varve_corrupt_entries_total'), 0)
  t.equal(sandbox.requests.countFor('account_modules'), harms.length)
  for (const key of await client.keys(entriesPattern)) {
    await client.del(key)
    await client.lpush(key, 'x')
  }
  const d = await replicaOf(t, sandbox)
  for (const [at, target] of targets.entries()) t.equal((await d.get(target)).body, bodies[at], 'beside another type')
})

t.test('every key expires with its entry, and memory has an entry no longer than Redis', async t => {
  const sandbox = await startSandboxNode(t)
  const pages = { eventsTtlSeconds: 600 }
  const [a, b] = [await replicaOf(t, sandbox, { pages }), await replicaOf(t, sandbox, { pages })]
  const { firstVersion } = sandbox.ledger.block(500)
  for (const target of [modules(2000), page, blockTarget(firstVersion)]) await a.get(target)
  await untilWritten(a, 3)
  await until(async () => (await client.keys('*last space *')).length > 0, 'the chain of the upstream is in Redis')
  // HSET and EXPIRE are two commands, so a key has no expiry for a moment.
  await until(async () => {
    const ttls = await Promise.all((await client.keys('*')).map(async key => await client.ttl(key)))
    return ttls.length > 12 && ttls.every(ttl => ttl > 500 && ttl <= 1000)
  }, 'every key has an expiry')
  for (const key of await client.keys('*events*')) {
    const ttl = await client.ttl(key)
    t.ok(ttl > 590 && ttl <= 600, `${key}: ${ttl} s`)
    await client.pexpire(key, 1500)
  }
  for (const key of await client.keys('*modules*')) await client.persist(key)
  sandbox.requests.reset()
  t.equal(await statusOf(b, page), redisHitStatus)
  t.equal(await statusOf(b, modules(2000)), redisHitStatus, 'also if another program removed its expiry')
  await until(async () => await statusOf(b, page) === storedMissStatus, 'the page is fetched again after its expiry')
  t.equal(sandbox.requests.countFor('account_events'), 1)
})

t.test('a hit by key takes one round trip to Redis, a hit by version two', async t => {
  const sandbox = await startSandboxNode(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await replicaOf(t, sandbox), await replicaOf(t, sandbox, { at: network.url })]
  for (const target of [modules(2000), blockTarget(2000)]) await a.get(target)
  await untilWritten(a, 2)
  network.delayMs = 200
  for (const [target, trips] of [[modules(2000), 1], [blockTarget(2000), 2]] as const) {
    const waited = startIdleMeter()
    t.equal(await statusOf(b, target), redisHitStatus)
    t.ok(waited() < 200 * (trips + 1), `${target}: ${waited()} ms`)
  }
})

t.test('one fetch serves a block of 12,000 versions on every replica, whatever the index loses', async t => {
  const sandbox = await startSandboxNode(t)
  const replicas = await Promise.all([1, 2, 3, 4].map(async () => await replicaOf(t, sandbox)))
  const [a, b, c, d] = replicas as [TestVarve, TestVarve, TestVarve, TestVarve]
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(500)
  t.equal(last - first, 11_999n)
  sandbox.requests.reset()
  const { body } = await a.get(blockTarget(first + 4321n))
  await untilWritten(a, 1)
  const entries = await entryKeys()
  const index = (await client.keys(entriesPattern)).filter(key => !entries.includes(key))
  t.ok(index.length < 30, `${index.length} keys`)
  const serves = async (varve: TestVarve, status: string): Promise<void> => {
    t.match(await varve.get(blockTarget(last)), { body, headers: { [cacheStatusHeader]: status } })
    for (let version = first; version <= last; version += 600n) {
      t.match(await varve.get(blockTarget(version)), { body, headers: { [cacheStatusHeader]: memoryHitStatus } })
    }
  }
  await serves(b, redisHitStatus)
  await serves(a, memoryHitStatus)
  t.equal(sandbox.requests.countFor('block_by_version'), 1)
  await client.del(...index)
  const [full = ''] = index
  for (let at = 0; at < 2000; at += 100) {
    await client.zadd(full, ...Array.from({ length: 100 }, (_, nth) => [0, `${at + nth}`]).flat())
  }
  await serves(c, storedMissStatus)
  await untilWritten(c, 1)
  t.same((await client.keys(entriesPattern)).sort(), [...index, ...entries].sort(), 'the index is there again')
  t.ok(await client.zcard(full) <= 1024, 'and bounded')
  await client.del(...entries)
  await serves(d, storedMissStatus)
  t.equal(await d.metric('varve_corrupt_entries_total'), 0, 'an evicted entry is not damaged')
  t.equal(sandbox.requests.countFor('block_by_version'), 3)
  for (const version of [first - 1n, last + 1n]) t.equal(await statusOf(b, blockTarget(version)), storedMissStatus)
})

t.test('varve serves a block wider than any chain has, and shares neither it nor its index', async t => {
  const head = headAt(10_000_000)
  // Farther away than Redis, so that replicas would share a fetch.
  const respond = (response: ServerResponse, body: string): void => {
    setTimeout(() => respondOk(response, body, head), 60)
  }
  const upstream = await startStubUpstream(t, (_request, response) => {
    respond(
      response,
      '{"block_height":"50","block_hash":"0xab","block_timestamp":"5","first_version":"100",' +
        '"last_version":"9000000","transactions":null}'
    )
  }, (_request, response) => {
    respond(response, '{"git_hash":"aaaa"}')
  })
  const replicas = [await replicaOf(t, upstream), await replicaOf(t, upstream)]
  for (const varve of replicas) {
    await until(async () => !/not read/.test(String((await readiness(varve)).degraded)), 'the replica reads from Redis')
  }
  const target = blockTarget(5_000_000)
  for (const status of [storedMissStatus, memoryHitStatus]) {
    t.same(await Promise.all(replicas.map(async varve => await statusOf(varve, target))), [status, status])
  }
  t.same(await client.keys('*blocks*'), [])
  const leases = await Promise.all(
    replicas.map(async varve => await varve.metric('varve_leases_total{kind="fetch",result="not_stored"}'))
  )
  t.equal(leases.reduce<number>((sum, count = 0) => sum + count, 0), 1, 'and the other replica need not wait')
})

t.test('a Redis that rejects writes is a warning, and a write that waits can be dropped', async t => {
  const full = await startRedis(t, { maxmemoryPolicy: 'noeviction' })
  const tier = await openRedisTier(t, full.url)
  await full.client.config('SET', 'maxmemory', '1')
  tier.put(space, { stored: storedEntryOf('a key', '[]'), ttlMs: undefined })
  await until(() => tier.warnings.length > 0, 'the write is rejected')
  t.match(tier.warnings, [/^Redis rejects writes: OOM/])
  tier.dropPending()
  await full.client.config('SET', 'maxmemory', '64mb')
  tier.put(space, { stored: storedEntryOf('another key', '[]'), ttlMs: undefined })
  await until(() => tier.counts.written > 0, 'the next one is written')
  t.same(tier.warnings, [])
  t.same([tier.counts.written, (await full.client.keys('*')).length], [1, 1])
})

t.test('no response waits for its Redis write, and a purge covers a write in flight', async t => {
  const sandbox = await startSandboxNode(t)
  const network = await slowRedis(t, redis)
  const varve = await replicaOf(t, sandbox, { at: network.url })
  await until(async () => (await client.keys('*spaces *')).length > 0, 'the control record is in Redis')
  for (const [nth, target] of [modules(2000), blockTarget(2000)].entries()) {
    network.scriptedResponse = chunk => {
      if (/\nset\r\n/.test(String(chunk))) network.withhold()
      return undefined
    }
    t.equal(await statusOf(varve, target), storedMissStatus)
    t.equal(await varve.metric('varve_cache_writes_total{tier="redis"}'), nth, 'the write is not confirmed')
    await until(async () => (await entryKeys()).length === 1, 'the write is in flight')
    const purged = purge(varve, target)
    network.scriptedResponse = undefined
    network.release()
    t.equal(await purged, 200)
    t.same(await entryKeys(), [])
  }
})

t.test('a write that another replica sent before a purge and Redis did after it does not stay', async t => {
  const sandbox = await startSandboxNode(t)
  await client.call('ACL', 'SETUSER', 'deaf', 'on', '>pw', '~*', '&*', '+@all', '-subscribe')
  const [a, deaf] = [await replicaOf(t, sandbox), await replicaOf(t, sandbox, { at: `redis://deaf:pw@${redis.host}` })]
  await deaf.get(modules(2000))
  await untilWritten(deaf, 1)
  const [key = ''] = await entryKeys()
  const value = await client.getBuffer(key) ?? ''
  t.equal(await purge(a, modules(2000)), 200)
  await client.set(key, value, 'PX', 100_000)
  await until(async () => (await entryKeys()).length === 0, 'the replica that wrote it deletes it')
})

t.test('responses stored while Redis was down are on every replica once it is back', async t => {
  const own = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  const a = await replicaOf(t, sandbox, { at: own.url })
  await own.kill()
  const { firstVersion, lastVersion } = sandbox.ledger.block(500)
  const reads = [...Array.from({ length: 30 }, (_, step) => modules(2000 + step)), blockTarget(firstVersion)]
  for (const target of reads) t.equal(await statusOf(a, target), storedMissStatus)
  await own.start()
  await untilWritten(a, 31)
  const b = await replicaOf(t, sandbox, { at: own.url })
  for (const target of [...reads.slice(0, 30), blockTarget(lastVersion)]) {
    t.equal(await statusOf(b, target), redisHitStatus)
  }
})
