import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { sendRequest, type TestRequest, type TestResponse, tableItemLookup } from '../support/client.js'
import { type RedisProcess } from '../support/redis-server.js'
import { startRedis } from '../support/redis-server.js'
import {
  anySpace,
  heartbeatsIn,
  recordedSpaces,
  spaceOf,
  untilAgreed,
  untilInRedis,
  untilWritten
} from '../support/replicas.js'
import { memoryHitStatus, redisHitStatus, cacheStatusHeader, storedMissStatus } from '../support/cache-status.js'
import { slowRedis } from '../support/tcp-gate.js'
import { startCountingUpstream, respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const table = '/v1/tables/0xab/item?ledger_version=500'
const token = 't0ken'

/** Redis configuration of a replica. */
const at = (url: string, timeoutMs = 500): object => ({
  cache: { redis: { url, timeoutMs } },
  admin: { listen: '127.0.0.1:0', token }
})

async function purge (varve: TestVarve, what: object): Promise<TestResponse> {
  return await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(what)
  })
}

/** Waits until a replica has dropped an entry; returns its response and the delay. */
async function untilPurged (
  varve: TestVarve,
  target: string,
  options: TestRequest,
  old: string
): Promise<{ got: TestResponse, afterMs: number }> {
  const started = performance.now()
  // Subtracts the time for which the whole process was blocked.
  const stalls = monitorEventLoopDelay({ resolution: 5 })
  stalls.enable()
  for (;;) {
    const got = await varve.get(target, options)
    const afterMs = performance.now() - started - stalls.max / 1e6
    if (got.body !== old || afterMs > 5000) return { got, afterMs }
    await pause(5)
  }
}

async function listeners (redis: RedisProcess): Promise<number> {
  return Number((await redis.client.pubsub('NUMSUB', 'varve:1:news') as unknown[])[1])
}

t.test('a purge applies to Redis and all replicas: at once by message, within 1 s without', async t => {
  const redis = await startRedis(t)
  await redis.client.call('ACL', 'SETUSER', 'deaf', 'on', '>pw', '~*', '&*', '+@all', '-subscribe')
  const upstream = await startCountingUpstream(t)
  const [a, b, deaf] = [
    await varveAt(t, upstream.url, at(redis.url)),
    await varveAt(t, upstream.url, at(redis.url)),
    await varveAt(t, upstream.url, at(`redis://deaf:pw@${redis.host}`))
  ]
  await until(async () => await listeners(redis) === 2, 'reachable replicas purge')
  const reads: [string, TestRequest, object][] = [
    [modules, {}, { method: 'GET', url: `${a.url}/v1/accounts/0x0001/modules?ledger_version=%2B0500` }],
    [table, tableItemLookup('u64', '"6"'), { account: '0xab' }],
    [table, tableItemLookup('u64', '"7"'), {
      method: 'POST',
      url: table,
      body: { value_type: 'u64', key_type: 'u64', key: '007' }
    }],
    [table, tableItemLookup('u64', '"8"'), {
      method: 'POST',
      url: '/v1/tables/ab/item?ledger_version=500',
      body: '{"key_type": "u64", "value_type": "u64", "key": "8"}'
    }]
  ]
  for (const [at, [target, options, what]] of reads.entries()) {
    const { body: old } = await a.get(target, options)
    await until(async () => (await redis.client.keys(`${anySpace} *`)).length > at, 'the new entry is in Redis')
    for (const varve of [b, deaf]) {
      for (const cacheStatus of [redisHitStatus, memoryHitStatus]) {
        t.match(await varve.get(target, options), { body: old, headers: { [cacheStatusHeader]: cacheStatus } })
      }
    }
    t.match(await purge(a, what), { status: 200, body: '{"purged":true,"everywhere":true}' })
    const [atB, atDeaf] = await Promise.all([
      untilPurged(b, target, options, old),
      untilPurged(deaf, target, options, old)
    ])
    t.ok(atB.afterMs < 400, `by message, after ${atB.afterMs} ms`)
    t.ok(atDeaf.afterMs < 1000, `by polling, after ${atDeaf.afterMs} ms`)
    t.not((await a.get(target, options)).body, old)
    await until(async () => (await redis.client.keys(`${anySpace} *`)).length > at, 'the new entry is in Redis')
  }
  t.match(await purge(a, { url: '/v1/accounts/0x9/modules?ledger_version=500' }), {
    status: 200,
    body: '{"purged":true,"everywhere":true,"stored":false}'
  })
})

t.test('other replicas purge within a second even if their message connections break', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const [a, b] = [await varveAt(t, upstream.url, at(redis.url)), await varveAt(t, upstream.url, at(redis.url))]
  const { body: old } = await a.get(modules)
  await untilWritten(a, 1)
  for (const cacheStatus of [redisHitStatus, memoryHitStatus]) {
    t.match(await b.get(modules), { body: old, headers: { [cacheStatusHeader]: cacheStatus } })
  }
  await until(async () => await listeners(redis) === 2, 'both replicas listen to news')
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
  const purged = purge(a, { url: modules })
  t.equal(await listeners(redis), 0)
  t.match(await purged, { status: 200 })
  const { afterMs } = await untilPurged(b, modules, {}, old)
  t.ok(afterMs < 1000, `${afterMs} ms`)
  await until(async () => await listeners(redis) === 2, 'both replicas listen to news')
})

t.test('purging one version of a block purges all its forms on every replica, not its neighbours', async t => {
  const redis = await startRedis(t)
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, at(redis.url))
  const b = await varveAt(t, sandbox.url, at(redis.url))
  const bcs = { headers: { accept: 'application/x-bcs' } }
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(452 + 49)
  t.ok(last > first)
  const forms: [string, TestRequest][] = [['', {}], ['?with_transactions=true', {}], ['', bcs], [
    '?with_transactions=true',
    bcs
  ]]
  const path = (version: bigint, query: string): string => `/v1/blocks/by_version/${version}${query}`
  for (const form of ['', '?with_transactions=true']) {
    for (const [query, options] of forms) await a.get(path(first, query), options)
    for (const neighbour of [first - 1n, last + 1n]) await a.get(path(neighbour, ''))
    await untilWritten(a, form === '' ? 6 : 10)
    for (const [query, options] of forms) {
      for (const cacheStatus of [redisHitStatus, memoryHitStatus]) {
        t.equal((await b.get(path(last, query), options)).headers[cacheStatusHeader], cacheStatus)
      }
    }
    await b.get(path(last + 1n, ''))
    sandbox.requests.reset()
    t.match(await purge(a, { method: 'GET', url: path((first + last) / 2n, form) }), { status: 200 })
    t.notMatch((await redis.client.keys('varve:1:*blocks*')).join('\n'), / 501(?:\n|$)/, 'no form of it is left')
    await until(async () => await b.metric('varve_cache_entries{tier="memory"}') === 1, 'one entry is left in memory')
    t.equal((await b.get(path(last + 1n, ''))).headers[cacheStatusHeader], memoryHitStatus)
    for (const neighbour of [first - 1n, last + 1n]) {
      t.equal((await a.get(path(neighbour, ''))).headers[cacheStatusHeader], memoryHitStatus)
    }
    t.equal(sandbox.requests.countFor('block_by_version'), 0)
    for (const [query, options] of forms) {
      t.equal((await b.get(path(last, query), options)).headers[cacheStatusHeader], storedMissStatus)
    }
    t.equal(sandbox.requests.countFor('block_by_version'), 4)
    await untilWritten(b, form === '' ? 4 : 8)
    for (const [query, options] of forms) {
      t.equal((await a.get(path(first, query), options)).headers[cacheStatusHeader], redisHitStatus)
    }
    await purge(a, { url: path(first, '') })
    await until(async () => await b.metric('varve_cache_entries{tier="memory"}') === 1, 'one entry is left in memory')
  }
})

t.test('purging everything begins a new space on all replicas and hides the old entries', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const [a, b] = [await varveAt(t, upstream.url, at(redis.url)), await varveAt(t, upstream.url, at(redis.url))]
  for (const account of [2, 3]) {
    const target = `/v1/accounts/0x${account}/modules?ledger_version=500`
    const isIn = async (space: string): Promise<boolean> =>
      (await redis.client.keys(`varve:1:${space} json *${account}/modules*`)).length > 0
    const before = await untilAgreed([a, b])
    const { body: old } = await a.get(target)
    await until(async () => await isIn(before), 'the entry is in Redis')
    for (const cacheStatus of [redisHitStatus, memoryHitStatus]) {
      t.match(await b.get(target), { body: old, headers: { [cacheStatusHeader]: cacheStatus } })
    }
    const { status, body } = await purge(a, { all: true })
    const space = spaceOf(a)
    t.match({ status, body }, { status: 200, body: `{"purged":true,"everywhere":true,"space":"${space}"}` })
    const { got, afterMs } = await untilPurged(b, target, {}, old)
    t.ok(afterMs < 1000, `${afterMs} ms`)
    t.equal(got.headers[cacheStatusHeader], storedMissStatus)
    t.not((await a.get(target)).body, old)
    t.ok(await isIn(before), 'the entry stays until it expires')
    await until(async () => await isIn(space), 'the entry is in Redis')
    t.equal(await untilAgreed([a, b], before), space)
  }
  t.equal(await a.metric('varve_chain_resets_total'), 0, 'no reset is counted')
})

t.test('a purge without Redis applies here at once, and purged entries never come back with Redis', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await varveAt(t, upstream.url, at(network.url)), await varveAt(t, upstream.url, at(redis.url))]
  const other = '/v1/accounts/0x2/modules?ledger_version=500'
  const old = [(await a.get(modules)).body, (await a.get(other)).body]
  await untilWritten(a, 2)
  for (const target of [modules, other]) t.equal((await b.get(target)).headers[cacheStatusHeader], redisHitStatus)
  network.isRejecting = true
  network.dropConnections()
  await until(async () => await a.metric('varve_redis_up') === 0, 'Redis is away')
  for (const url of [modules, other]) {
    t.match(await purge(a, { url }), { status: 202, body: '{"purged":true,"everywhere":false}' })
  }
  const fresh = await a.get(modules)
  t.equal(fresh.headers[cacheStatusHeader], storedMissStatus)
  t.notOk(old.includes(fresh.body))
  t.match(await b.get(modules), { body: old[0] }, 'unreachable replicas know nothing yet')
  network.isRejecting = false
  const seen = new Set<string>()
  await until(async () => {
    seen.add((await a.get(modules)).body)
    return await a.metric('varve_redis_up') === 1
  }, 'Redis is back')
  const atB = await untilPurged(b, modules, {}, old[0] ?? '')
  t.ok(atB.afterMs < 1500, `the others apply it then, after ${atB.afterMs} ms`)
  // Waits again: the second purge is a message of its own and may come later.
  await untilPurged(b, other, {}, old[1] ?? '')
  for (const target of [modules, other]) for (const varve of [a, b]) seen.add((await varve.get(target)).body)
  t.notOk(old.some(body => seen.has(body)), 'and no replica serves a purged entry again')
})

for (const times of [1, 9]) {
  t.test(`everything purged here without Redis and elsewhere ${times} times never comes back`, async t => {
    const redis = await startRedis(t)
    const upstream = await startCountingUpstream(t)
    const network = await slowRedis(t, redis)
    const [a, b] = [await varveAt(t, upstream.url, at(network.url)), await varveAt(t, upstream.url, at(redis.url))]
    await until(
      async () => (await heartbeatsIn(redis)).length === 2,
      'both replicas have written their heartbeats'
    )
    network.isRejecting = true
    network.dropConnections()
    await until(async () => await a.metric('varve_redis_up') === 0, 'Redis is known to be down')
    for (let nth = 0; nth < times; nth++) {
      t.match(await purge(b, { all: true }), { status: 200, body: /^{"purged":true,"everywhere":true,"space":/ })
    }
    const { body: old } = await b.get(modules)
    const before = spaceOf(b)
    await untilInRedis(redis, `varve:1:${before} *`)
    t.match(await purge(a, { all: true }), { status: 202, body: '{"purged":true,"everywhere":false}' })
    const seen = new Set<string>()
    network.isRejecting = false
    await until(async () => {
      seen.add((await a.get(modules)).body)
      return spaceOf(a) === spaceOf(b) && spaceOf(b) !== before
    }, 'both use a new space')
    for (const varve of [a, b]) seen.add((await varve.get(modules)).body)
    t.notOk(seen.has(old), 'no replica serves a purged entry again')
  })
}

t.test('a purge of everything is confirmed although varve reads the spaces in Redis meanwhile', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await varveAt(t, upstream.url, at(network.url)), await varveAt(t, upstream.url, at(redis.url))]
  await untilAgreed([a, b])
  network.delayMs = 5
  for (let nth = 0; nth < 40; nth++) {
    // News of the other replica's purge makes this one read.
    const others = pause(nth % 20).then(async () => await purge(b, { url: modules }))
    t.match(await purge(a, { all: true }), { status: 200, body: /"everywhere":true/ })
    await others
  }
})

t.test('replicas that purge everything at once end on one space, which replaces all others', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const varves = [
    await varveAt(t, upstream.url, at(redis.url)),
    await varveAt(t, upstream.url, at(redis.url)),
    await varveAt(t, upstream.url, at(redis.url))
  ]
  const old = (await varves[0]?.get(modules))?.body
  const before = await untilAgreed(varves)
  for (const got of await Promise.all(varves.map(async varve => await purge(varve, { all: true })))) {
    t.match(got, { status: 200, body: /"everywhere":true/ })
  }
  for (const varve of varves) t.not((await varve.get(modules)).body, old)
  const space = await untilAgreed(varves, before)
  const [newest, ...others] = await recordedSpaces(redis)
  t.equal(newest?.name, space)
  t.same(others.filter(({ name }) => newest?.replaces.includes(name) !== true), [])
})

t.test('while Redis rejects purges varve reads nothing from it, reports so, and resends later', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const [a, b] = [await varveAt(t, upstream.url, at(redis.url)), await varveAt(t, upstream.url, at(redis.url))]
  const degraded = async (): Promise<string[]> =>
    (JSON.parse((await sendRequest(a.adminUrl, '/readyz')).body) as { degraded: string[] }).degraded
  const other = '/v1/accounts/0x2/modules?ledger_version=500'
  const { body: old } = await a.get(modules)
  await b.get(other)
  for (const varve of [a, b]) await untilWritten(varve, 1)
  await b.get(modules)
  t.same(await degraded(), [])
  await redis.client.config('SET', 'min-replicas-to-write', '1')
  t.match(await purge(a, { url: modules }), { status: 202 })
  t.match(await degraded(), ['Redis tier not read: purges are not delivered yet'])
  for (const target of [modules, other]) t.equal((await a.get(target)).headers[cacheStatusHeader], storedMissStatus)
  t.match(await sendRequest(a.adminUrl, '/readyz'), { status: 200 })
  await redis.client.config('SET', 'min-replicas-to-write', '0')
  t.ok((await untilPurged(b, modules, {}, old)).afterMs < 2000)
  await until(async () => (await degraded()).length === 0, 'nothing is degraded')
  await redis.client.config('SET', 'min-replicas-to-write', '1')
  t.match(await purge(a, { all: true }), { status: 202 })
  t.match(await degraded(), ['Redis tier not read: purges are not delivered yet'])
  await redis.client.config('SET', 'min-replicas-to-write', '0')
  await until(() => spaceOf(b) === spaceOf(a), 'everything is published too')
  await until(async () => (await degraded()).length === 0, 'nothing is degraded')
})

t.test('a purge of a replica that started without Redis applies to the others\' space', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const network = await slowRedis(t, redis)
  const b = await varveAt(t, upstream.url, at(redis.url))
  t.match(await purge(b, { all: true }), { status: 200 })
  const { body: old } = await b.get(modules)
  await untilWritten(b, 1)
  network.isRejecting = true
  const a = await varveAt(t, upstream.url, at(network.url))
  t.match(await purge(a, { url: modules }), { status: 202 })
  network.isRejecting = false
  const { got } = await untilPurged(b, modules, {}, old)
  t.not(got.body, old)
  await untilWritten(b, 2)
  t.match(await a.get(modules), { body: got.body, headers: { [cacheStatusHeader]: redisHitStatus } })
  // Reaches Redis, but lacks the permission to read the space of the others.
  await redis.client.call('ACL', 'SETUSER', 'blind', 'on', '>pw', '~*', '&*', '+@all', '-get')
  const c = await varveAt(t, upstream.url, at(`redis://blind:pw@${redis.host}`))
  t.equal(await c.metric('varve_redis_up'), 1)
  t.match(await purge(c, { url: modules }), { status: 202 })
  await redis.client.call('ACL', 'SETUSER', 'blind', '+get')
  t.not((await untilPurged(b, modules, {}, got.body)).got.body, got.body)
})

t.test('a replica that starts while Redis is away drops entries purged meanwhile', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const network = await slowRedis(t, redis)
  const a = await varveAt(t, upstream.url, at(redis.url))
  network.isRejecting = true
  const late = await varveAt(t, upstream.url, at(network.url))
  const { body: old } = await late.get(modules)
  t.match(await late.get(modules), { body: old, headers: { [cacheStatusHeader]: memoryHitStatus } })
  t.match(await purge(a, { url: modules }), { status: 200 })
  network.isRejecting = false
  t.not((await untilPurged(late, modules, {}, old)).got.body, old)
  const after = await a.get(modules)
  t.not(after.body, old, 'nor has it stored them again for others')
})

t.test('entries purged while being fetched from Redis or an upstream are fetched again', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await varveAt(t, upstream.url, at(network.url, 5000)), await varveAt(t, upstream.url, at(redis.url))]
  const { body: old } = await b.get(modules)
  await untilWritten(b, 1)
  await until(async () => await a.metric('varve_redis_up') === 1, 'a has Redis')
  network.withhold()
  const reading = a.get(modules)
  await until(() => network.received.includes(' json /v1/accounts/'), 'the entry is looked up in Redis')
  // Purges memory at once; Redis gets the purge after the read in progress.
  const purging = purge(a, { url: modules })
  await until(() => network.received.includes('\r\ndel\r\n'), 'the entry is deleted in Redis')
  network.release()
  const { body: refetched, headers } = await reading
  t.equal(headers[cacheStatusHeader], storedMissStatus)
  t.not(refetched, old)
  t.match(await purging, { status: 200 })
  t.match(await a.get(modules), { body: refetched, headers: { [cacheStatusHeader]: memoryHitStatus } })
  const withheld: Array<() => void> = []
  const slow = await startStubUpstream(t, (_request, response, nth) => {
    if (nth > 0) {
      withheld.push(() => {
        respondOk(response, `[${nth}, 0]`)
      })
    }
  })
  const c = await varveAt(t, slow.url, { ...at(redis.url), cache: { redis: { url: redis.url, keyPrefix: 'c' } } })
  const first = c.get(modules)
  await until(() => withheld.length === 1, 'the upstream got the request')
  t.match(await purge(c, { url: modules }), { status: 200 })
  withheld.shift()?.()
  const { body } = await first
  for (const target of ['/v1/accounts/0x2/modules?ledger_version=500', modules]) {
    const next = c.get(target)
    await until(() => withheld.length === 1, 'the node is retried')
    withheld.shift()?.()
    t.not((await next).body, body)
    // Relies on the order of writes: the first would be stored by now.
    if (target !== modules) {
      await untilInRedis(redis, `c:1:${'?'.repeat(16)} *`)
    }
    if (target !== modules) {
      t.equal((await redis.client.keys(`c:1:${'?'.repeat(16)} *`)).length, 1, 'nothing of the first is stored')
    }
  }
})

t.test('without Redis a purge applies to this process only', async t => {
  const upstream = await startCountingUpstream(t)
  const varve = await varveAt(t, upstream.url, { admin: { listen: '127.0.0.1:0', token } })
  const { body: old } = await varve.get(modules)
  t.match(await purge(varve, { url: modules }), { status: 200, body: '{"purged":true,"everywhere":true}' })
  const { body: next } = await varve.get(modules)
  t.not(next, old)
  t.match(await varve.get(modules), { body: next, headers: { [cacheStatusHeader]: memoryHitStatus } })
  t.match(await purge(varve, { all: true }), { status: 200, body: /^{"purged":true,"everywhere":true,"space":/ })
  t.not((await varve.get(modules)).body, next)
})
