import fc from 'fast-check'
import t, { type Test } from 'tap'
import { encodeEntry } from '../../src/cache/entry-codec.js'
import { type Invalidation } from '../../src/cache/invalidation.js'
import { type EntrySelector } from '../../src/cache/tier.js'
import { type Sandbox } from '#sandbox'
import { type TestRequest, sendRequest, tableItemLookup } from '../support/client.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode, untilWritten } from '../support/replicas.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { openRedisTier, storedEntryOf, type TestRedisTier } from '../support/redis-tier.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000'
const page = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=500&limit=10'

const redis = await startRedis(t)
const { client } = redis
t.beforeEach(async () => {
  await client.flushall()
})

const named = (key: string): EntrySelector => ({
  by: 'key',
  keys: { value: key, text: key, intervalFamily: undefined }
})
const storeEntry = async (store: TestRedisTier, key: string, body: string, ttlMs?: number): Promise<void> => {
  store.put({ stored: storedEntryOf(key, body), ttlMs })
  await store.waitUntilIdle()
}
const find = async (store: TestRedisTier, key: string): Promise<string | undefined> =>
  (await store.get(named(key)))?.stored.body.toString()

const family = '4.1 json blocks'
const storeBlock = async (
  store: TestRedisTier,
  first: bigint,
  last: bigint,
  height: number,
  body = `block ${height}`
): Promise<void> => {
  store.put({
    stored: storedEntryOf(`${family} ${height}`, body, { validity: { family, first, last } }),
    ttlMs: undefined
  })
  await store.waitUntilIdle()
}
const findBlock = async (store: TestRedisTier, version: bigint): Promise<string | undefined> =>
  (await store.get({ by: 'version', family, version }))?.stored.body.toString()

const replicaOf = async (
  t: Test,
  sandbox: Sandbox,
  change: { pages?: { eventsTtlSeconds: number }, ttlSeconds?: number } = {}
): Promise<TestVarve> => {
  const { pages = {}, ttlSeconds = 1000 } = change
  return await varveAt(t, sandbox.url, { cache: { redis: { url: redis.url, timeoutMs: 1000, ttlSeconds } }, pages })
}

t.test('a response that one replica stored is a Redis hit on the others, with equal headers', async t => {
  const sandbox = await startSandboxNode(t)
  const reads: Array<readonly [string, TestRequest]> = [
    [`${modules}&limit=2`, {}],
    [modules, {}],
    [modules, { headers: { accept: 'application/x-bcs' } }],
    ['/v1/tables/0x5eed/item?ledger_version=2000', tableItemLookup('u64', '"7"')],
    [page, {}],
    ['/v1/blocks/by_version/2000?with_transactions=true', {}]
  ]
  const a = await replicaOf(t, sandbox)
  for (const [nth, [target, options]] of reads.entries()) {
    const direct = await sendRequest(sandbox.url, target, options)
    const first = await a.get(target, options)
    t.equal(first.headers[cacheStatusHeader], storedMissStatus)
    await untilWritten(a, nth + 1)
    const b = await replicaOf(t, sandbox)
    sandbox.requests.reset()
    for (const [varve, from] of [[b, redisHitStatus], [b, memoryHitStatus], [a, memoryHitStatus]] as const) {
      const got = await varve.get(target, options)
      t.equal(got.headers[cacheStatusHeader], from)
      t.same([got.status, got.bytes], [200, direct.bytes])
      for (
        const name of ['content-type', 'etag', 'x-node-cursor', 'x-aptos-cursor', 'x-node-gas-used', 'cache-control']
      ) t.equal(got.headers[name], first.headers[name], `${target} ${name}`)
    }
    const again = await b.get(target, {
      ...options,
      headers: { ...options.headers, 'if-none-match': String(first.headers.etag) }
    })
    t.same([again.status, again.headers['x-node-ledger-version']], [304, String(sandbox.ledger.head.version)])
    t.equal(
      sandbox.requests.countFor('account_modules') + sandbox.requests.countFor('table_item') +
        sandbox.requests.countFor('account_events') +
        sandbox.requests.countFor('block_by_version'),
      0
    )
  }
  const whole = (await client.keys('varve:1:4.1 json *')).find(key => key.endsWith('modules?ledger_version=2000'))
  t.ok(
    await client.strlen(whole ?? '') < (await a.get(modules)).bytes.length / 2,
    'long bodies are compressed in Redis'
  )
})

t.test('a not-found is shared under the exact request text only', async t => {
  const sandbox = await startSandboxNode(t)
  const a = await replicaOf(t, sandbox)
  const target = '/v1/tables/0x5eed/item?ledger_version=2000'
  const missing = await a.get(target, tableItemLookup('u64', '"99999"'))
  t.equal(missing.status, 404)
  await untilWritten(a, 1)
  const b = await replicaOf(t, sandbox)
  sandbox.requests.reset()
  t.match(await b.get(target, tableItemLookup('u64', '"99999"')), {
    status: 404,
    body: missing.body,
    headers: { [cacheStatusHeader]: redisHitStatus }
  })
  t.equal(sandbox.requests.countFor('table_item'), 0)
  t.notMatch((await b.get(target, tableItemLookup('u64', '"099999"'))).headers[cacheStatusHeader], 'hit')
})

const harms: Array<readonly [string, (key: string) => Promise<unknown>]> = [
  ['empty', async key => await client.set(key, '', 'KEEPTTL')],
  [
    'short',
    async key => await client.set(key, (await client.getBuffer(key) ?? Buffer.alloc(0)).subarray(0, -1), 'KEEPTTL')
  ],
  ['longer', async key => await client.append(key, 'x')],
  [
    'altered in a bit of its body',
    async key =>
      await client.setbit(
        key,
        8 * await client.strlen(key) - 1,
        1 - await client.getbit(key, 8 * await client.strlen(key) - 1)
      )
  ],
  ['of another format', async key => await client.setrange(key, 3, '\u0002')],
  ['of some other program', async key => await client.set(key, '{"a":"response"}', 'KEEPTTL')],
  [
    'of another key',
    async key =>
      await client.call('SET', key, await encodeEntry(storedEntryOf('4.1 json another', '["another"]')), 'KEEPTTL')
  ]
]

for (const [name, harm] of harms) {
  t.test(`a value that is ${name} is a counted miss, fetched once and replaced`, async t => {
    const sandbox = await startSandboxNode(t)
    const a = await replicaOf(t, sandbox)
    const targets = [modules, page, '/v1/blocks/by_version/9000']
    const bodies: string[] = []
    for (const target of targets) bodies.push((await a.get(target)).body)
    await untilWritten(a, 3)
    const keys = (await client.keys('varve:1:4.1 *')).filter(key => !/ (?:whole|half)/.test(key))
    t.equal(keys.length, targets.length)
    for (const key of keys) await harm(key)
    const b = await replicaOf(t, sandbox)
    sandbox.requests.reset()
    for (const [nth, target] of targets.entries()) {
      t.match(await b.get(target), {
        status: 200,
        body: bodies[nth],
        headers: { [cacheStatusHeader]: storedMissStatus }
      })
      t.equal(await b.metric('varve_corrupt_entries_total'), nth + 1)
    }
    await untilWritten(b, 3)
    const c = await replicaOf(t, sandbox)
    for (const [nth, target] of targets.entries()) {
      t.match(await c.get(target), { body: bodies[nth], headers: { [cacheStatusHeader]: redisHitStatus } })
    }
    t.equal(await c.metric('varve_corrupt_entries_total'), 0)
    t.same(
      ['account_modules', 'account_events', 'block_by_version'].map(endpoint =>
        sandbox.requests.countFor(endpoint as 'account_modules')
      ),
      [1, 1, 1]
    )
  })
}

t.test('a value moved to the key of another read is a miss', async t => {
  const sandbox = await startSandboxNode(t)
  const a = await replicaOf(t, sandbox)
  const others = [modules, '/v1/accounts/0x42/modules?ledger_version=2000', `${modules.slice(0, -4)}2001`]
  for (const target of others) await a.get(target)
  await untilWritten(a, 3)
  const keys = await client.keys('varve:1:4.1 *')
  const values = await Promise.all(keys.map(async key => await client.getBuffer(key)))
  for (const [nth, key] of keys.entries()) await client.set(key, values[(nth + 1) % 3] ?? '', 'PX', 100_000)
  const b = await replicaOf(t, sandbox)
  for (const target of others) {
    const direct = await sendRequest(sandbox.url, target)
    t.match(await b.get(target), { body: direct.body, headers: { [cacheStatusHeader]: storedMissStatus } })
  }
  t.equal(await b.metric('varve_corrupt_entries_total'), 3)
})

t.test(`a value with any byte changed or truncated anywhere is one counted miss (${seedTitle})`, async t => {
  const store = await openRedisTier(t, redis.url)
  const key = 'varve:1:k'
  await storeEntry(store, 'k', 'a body of some length')
  const value = await client.getBuffer(key) ?? Buffer.alloc(0)
  t.equal(await find(store, 'k'), 'a body of some length')
  const damaged: Buffer[] = []
  for (let length = 0; length < value.length; length++) damaged.push(value.subarray(0, length))
  for (let at = 0; at < value.length; at++) {
    for (const mask of [1, 0x80, 0xff]) {
      const copy = Buffer.from(value)
      copy.writeUInt8(copy.readUInt8(at) ^ mask, at)
      damaged.push(copy)
    }
  }
  for (const bytes of damaged) {
    const before = store.counts.corrupt
    await client.set(key, bytes)
    t.same([await find(store, 'k'), store.counts.corrupt - before], [undefined, 1])
  }
  await checkAsync(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async bytes => {
      const before = store.counts.corrupt
      await client.set(key, Buffer.from(bytes))
      t.same([await find(store, 'k'), store.counts.corrupt - before], [undefined, 1])
    }),
    50
  )
  t.equal(store.counts.failed, 0, 'Redis had no error')
})

t.test('a corrupt value does not hide a valid one, neither a not-found nor another block', async t => {
  const store = await openRedisTier(t, redis.url)
  await storeEntry(store, 'value', 'the value')
  await client.set('varve:1:text', 'junk')
  t.equal(
    (await store.get({ by: 'key', keys: { value: 'value', text: 'text', intervalFamily: undefined } }))?.stored.body
      .toString(),
    'the value'
  )
  t.equal(store.counts.corrupt, 1)
  t.equal(
    (await store.get({ by: 'key', keys: { value: 'text', text: 'value', intervalFamily: undefined } }))?.stored.body
      .toString(),
    'the value'
  )
  t.equal(
    await store.get({ by: 'key', keys: { value: 'none', text: 'neither', intervalFamily: undefined } }),
    undefined
  )
  t.equal(store.counts.corrupt, 2)
  await storeBlock(store, 500n, 509n, 50)
  // Each of the two index ranges finds one block.
  const [whole] = await client.keys('varve:1:* whole 0')
  await client.zadd(whole ?? '', 0, `${(505).toString(16).padStart(16, '0')}${(505).toString(16).padStart(16, '0')}51`)
  t.equal(await findBlock(store, 505n), 'block 50', 'the index names a missing block')
  t.equal(store.counts.corrupt, 2)
  await until(async () => await client.zcard(whole ?? '') === 1, 'the index is repaired by what was found')
  await client.zadd(whole ?? '', 0, `${(505).toString(16).padStart(16, '0')}${(505).toString(16).padStart(16, '0')}51`)
  await client.set(`varve:1:${family} 51`, 'junk')
  t.equal(await findBlock(store, 505n), 'block 50', 'the index names a corrupt block')
  t.equal(store.counts.corrupt, 3)
})

t.test('a key of another Redis type is a miss', async t => {
  const store = await openRedisTier(t, redis.url)
  await client.lpush('varve:1:k', 'x')
  t.equal(await find(store, 'k'), undefined)
  await storeEntry(store, 'k', 'x')
  t.equal(await find(store, 'k'), 'x', 'and is overwritten')
})

t.test('an index that leads to another block, or to no block, is a miss', async t => {
  const store = await openRedisTier(t, redis.url)
  await storeBlock(store, 500n, 509n, 50)
  await storeBlock(store, 600n, 609n, 50, 'the same height again')
  t.same([await findBlock(store, 505n), await findBlock(store, 605n)], [undefined, 'the same height again'])
  await storeBlock(store, 700n, 709n, 70)
  store.put({ stored: storedEntryOf(`${family} 70`, 'no block'), ttlMs: undefined })
  await store.waitUntilIdle()
  t.equal(await findBlock(store, 705n), undefined)
  t.equal(store.counts.corrupt, 0)
})

t.test('every key expires in Redis with its entry, after ttlSeconds at the latest', async t => {
  const store = await openRedisTier(t, redis.url, { ttlSeconds: 100 })
  await storeEntry(store, 'for ever', 'x')
  await storeEntry(store, 'page', 'x', 5000)
  await storeEntry(store, 'longer page', 'x', 1_000_000)
  await storeEntry(store, 'fraction', 'x', 4000.7)
  await storeBlock(store, 500n, 5000n, 50)
  const ttls = new Map(
    await Promise.all(
      (await client.keys('*')).map(async key => [key.replace('varve:1:', ''), await client.pttl(key)] as const)
    )
  )
  t.ok(ttls.size > 10)
  for (const [key, ttl] of ttls) {
    const most = key === 'page' ? 5000 : key === 'fraction' ? 4001 : 100_000
    t.ok(ttl > most - 2000 && ttl <= most, `${key} expires in ${ttl} ms`)
  }
})

t.test('varve leaves no key in Redis without expiry', async t => {
  const sandbox = await startSandboxNode(t)
  const a = await replicaOf(t, sandbox)
  for (const target of [modules, page, '/v1/blocks/by_version/9000']) await a.get(target)
  await untilWritten(a, 3)
  await until(async () => (await client.keys('*upstream*')).length > 0, 'the chain of the upstream is in Redis')
  // HSET and EXPIRE are two commands, so a key has no expiry for a moment.
  await until(
    async () =>
      (await Promise.all((await client.keys('*')).map(async key => await client.ttl(key)))).every(ttl => ttl > 0),
    'every key has an expiry'
  )
  t.ok(await client.dbsize() > 20)
})

t.test('a Redis hit carries the remaining lifetime of its entry', async t => {
  const store = await openRedisTier(t, redis.url, { ttlSeconds: 100 })
  await storeEntry(store, 'page', 'x', 5000)
  const first = await store.get(named('page'))
  t.ok(first !== undefined && first.ttlMs <= 5000 && first.ttlMs > 3000, String(first?.ttlMs))
  await client.pexpire('varve:1:page', 2000)
  const second = await store.get(named('page'))
  t.ok(second !== undefined && second.ttlMs <= 2000 && second.ttlMs > 0, String(second?.ttlMs))
  await until(async () => await find(store, 'page') === undefined, 'the entry has expired')
  await storeEntry(store, 'page', 'x', 5000)
  await client.persist('varve:1:page')
  t.equal(
    (await store.get(named('page')))?.ttlMs,
    100_000,
    'bounded even if another client removed the expiry'
  )
  t.equal(store.counts.corrupt, 0)
})

t.test('an entry that expires between reading value and TTL is a miss', async t => {
  const slow = await slowRedis(t, redis)
  const store = await openRedisTier(t, slow.url)
  await storeEntry(store, 'page', 'x', 5000)
  const value = await client.getBuffer('varve:1:page') ?? Buffer.alloc(0)
  const bulk = Buffer.concat([Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')])
  let received = Buffer.alloc(0)
  const respondWithTtl = (ttl: number): void => {
    received = Buffer.alloc(0)
    slow.scriptedResponse = bytes => {
      received = Buffer.concat([received, bytes])
      return received.includes('pttl') ? Buffer.concat([bulk, Buffer.from(`:${ttl}\r\n`)]) : ''
    }
  }
  respondWithTtl(1234)
  t.equal((await store.get(named('page')))?.ttlMs, 1234)
  respondWithTtl(-2)
  t.equal(await store.get(named('page')), undefined)
  t.same(store.counts, { written: 1, corrupt: 0, failed: 0 })
})

t.test('a page from Redis expires in memory no later than in Redis, on every replica', async t => {
  const sandbox = await startSandboxNode(t)
  const pages = { eventsTtlSeconds: 600 }
  const a = await replicaOf(t, sandbox, { pages })
  await a.get(page)
  await untilWritten(a, 1)
  const b = await replicaOf(t, sandbox, { pages })
  // The page's own key and the keys that lead to it.
  const keys = await client.keys('*events*')
  for (const key of keys) {
    const ttl = await client.ttl(key)
    if (await client.type(key) === 'string') t.ok(ttl > 590 && ttl <= 600, `${key}: ${ttl} s`)
    await client.pexpire(key, 1500)
  }
  sandbox.requests.reset()
  t.equal((await b.get(page)).headers[cacheStatusHeader], redisHitStatus)
  t.equal(sandbox.requests.countFor('account_events'), 0)
  await until(
    async () => (await b.get(page)).headers[cacheStatusHeader] === storedMissStatus,
    'the page is fetched again after its expiry'
  )
  t.equal(sandbox.requests.countFor('account_events'), 1)
})

t.test('a queued write gets only its remaining lifetime, and an expired one is not written', async t => {
  let nowMs = 0
  let isAgreed = false
  const store = await openRedisTier(t, redis.url, { now: () => nowMs, isAgreed: () => isAgreed })
  for (const [key, ttlMs] of [['long', 50_000], ['short', 20_000], ['for ever', undefined]] as const) {
    store.put({ stored: storedEntryOf(key, 'x'), ttlMs })
  }
  nowMs = 20_000
  isAgreed = true
  store.resumeWrites()
  await store.waitUntilIdle()
  t.same(await client.exists('varve:1:short'), 0)
  const [long, forEver] = [await client.pttl('varve:1:long'), await client.pttl('varve:1:for ever')]
  t.ok(long > 25_000 && long <= 30_000, String(long))
  t.ok(forEver > 900_000)
  t.same([store.counts.written, store.counts.failed, store.queued], [2, 0, 0])
})

t.test('invalidation deletes keys and blocks by version with their index, and nothing else', async t => {
  const store = await openRedisTier(t, redis.url)
  await storeEntry(store, 'a', 'x')
  await storeEntry(store, 'b', 'x')
  await storeBlock(store, 500n, 5000n, 50)
  await storeBlock(store, 5001n, 5001n, 51)
  await store.invalidate({
    keys: ['a', 'never there'],
    intervals: [
      { family, first: 4321n, last: 4321n },
      { family, first: 77n, last: 77n },
      { family: 'other', first: 500n, last: 500n }
    ]
  })
  t.same([await find(store, 'a'), await findBlock(store, 500n), await findBlock(store, 5000n)], [
    undefined,
    undefined,
    undefined
  ])
  t.same([await find(store, 'b'), await findBlock(store, 5001n)], ['x', 'block 51'])
  const left = await client.keys('* whole *')
  t.same(await Promise.all(left.map(async key => await client.zcard(key))), [1])
  t.equal(await client.exists(`varve:1:${family} 50`), 0)
})

t.test('invalidation drops queued writes, blocks included, so they are never written', async t => {
  let isAgreed = false
  const store = await openRedisTier(t, redis.url, { isAgreed: () => isAgreed })
  store.put({ stored: storedEntryOf('a', 'x'), ttlMs: undefined })
  store.put({ stored: storedEntryOf('b', 'x'), ttlMs: undefined })
  await storeBlock(store, 500n, 509n, 50)
  await storeBlock(store, 510n, 519n, 51)
  store.put({
    stored: storedEntryOf('other 50', 'x', {
      validity: { family: 'other', first: 500n, last: 509n }
    }),
    ttlMs: undefined
  })
  await store.invalidate({
    keys: ['a'],
    intervals: [{ family, first: 505n, last: 505n }, {
      family,
      first: 510n - 1n,
      last: 510n - 1n
    }]
  })
  isAgreed = true
  store.resumeWrites()
  await until(() => store.counts.written === 3, 'the queued writes are done')
  t.same([await find(store, 'a'), await findBlock(store, 505n), await find(store, 'b'), await findBlock(store, 515n)], [
    undefined,
    undefined,
    'x',
    'block 51'
  ])
})

t.test('invalidation deletes an entry whose write is in flight', async t => {
  const slow = await slowRedis(t, redis)
  const store = await openRedisTier(t, slow.url)
  slow.withhold()
  store.put({ stored: storedEntryOf('a', 'x'), ttlMs: undefined })
  store.put({
    stored: storedEntryOf(`${family} 50`, 'x', { validity: { family, first: 500n, last: 509n } }),
    ttlMs: undefined
  })
  await until(async () => await client.exists('varve:1:a') === 1, 'the write is under way')
  const invalidated = store.invalidate({
    keys: ['a'],
    intervals: [{ family, first: 505n, last: 505n }]
  })
  slow.release()
  await invalidated
  t.same([await find(store, 'a'), await findBlock(store, 505n)], [undefined, undefined])
  t.same([await client.exists('varve:1:a'), await client.exists(`varve:1:${family} 50`)], [0, 0])
})

t.test('invalidation fails if Redis is down', async t => {
  const own = await startRedis(t)
  const store = await openRedisTier(t, own.url)
  await own.kill()
  await until(() => !store.link.isUp, 'Redis is known to be down')
  await t.rejects(store.invalidate({ keys: ['a'], intervals: [] }))
  t.equal(await find(store, 'a'), undefined, 'and a read is a miss')
})

t.test('a purge of another replica deletes own late writes, and other replicas\' writes stay', async t => {
  const store = await openRedisTier(t, redis.url)
  const other = await openRedisTier(t, redis.url)
  const purge: Invalidation = {
    keys: ['a', 'theirs'],
    intervals: [{ family, first: 505n, last: 505n }]
  }
  await other.invalidate(purge)
  await storeEntry(store, 'a', 'x')
  await storeEntry(store, 'b', 'x')
  await storeBlock(store, 500n, 509n, 50)
  await storeBlock(store, 510n, 519n, 51)
  await store.invalidateOwnWrites(purge)
  t.same([await find(store, 'a'), await findBlock(store, 505n)], [undefined, undefined])
  t.same([await find(store, 'b'), await findBlock(store, 515n)], ['x', 'block 51'])
  await storeEntry(other, 'theirs', 'read after the purge')
  await store.invalidateOwnWrites({ keys: ['theirs'], intervals: [] })
  t.equal(await find(store, 'theirs'), 'read after the purge')
})

t.test('invalidation deletes a write that Redis did but did not confirm', async t => {
  const slow = await slowRedis(t, redis)
  const store = await openRedisTier(t, slow.url)
  slow.withhold()
  store.put({ stored: storedEntryOf('a', 'x'), ttlMs: undefined })
  await until(async () => await client.exists('varve:1:a') === 1, 'the key is in Redis')
  const invalidated = store.invalidateOwnWrites({ keys: ['a'], intervals: [] })
  await until(() => store.counts.failed === 1, 'the write has timed out')
  slow.release()
  await invalidated
  t.same([await client.exists('varve:1:a'), store.queued], [0, 0])
})

t.test('purging everything drops all queued writes', async t => {
  let isAgreed = false
  const store = await openRedisTier(t, redis.url, { isAgreed: () => isAgreed })
  await storeEntry(store, 'a', 'x')
  await storeBlock(store, 500n, 509n, 50)
  t.equal(store.queued, 2)
  store.dropPending()
  isAgreed = true
  store.resumeWrites()
  await storeEntry(store, 'b', 'x')
  t.same([store.queued, await client.keys('*')], [0, ['varve:1:b']])
})
