import t from 'tap'
import { decodeEntry, encodeEntry, type StoredEntry } from '../../src/cache/entry-codec.js'
import { releases } from '#sandbox'
import { type TestResponse, sendRequest, tableItemLookup } from '../support/client.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { anySpace, usedSpaces, untilWritten } from '../support/replicas.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { slowRedis } from '../support/tcp-gate.js'
import {
  headAt,
  respondOk,
  stamps,
  startChangingUpstream,
  startCountingUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const table = '/v1/tables/0xab/item?ledger_version=500'
const events = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'

const at = (url: string): { cache: { redis: { url: string, timeoutMs: number } } } => ({
  cache: { redis: { url, timeoutMs: 2000 } }
})

const lookupCount = async (varve: TestVarve): Promise<number> =>
  (await varve.metric('varve_redis_duration_seconds_count{operation="get"}') ?? 0) +
  (await varve.metric('varve_redis_duration_seconds_count{operation="find"}') ?? 0)

/** Changes the only entry in Redis. */
async function rewrite (redis: RedisProcess, change: (stored: StoredEntry) => Partial<StoredEntry>): Promise<void> {
  const [key = ''] = await redis.client.keys(`${anySpace} *`)
  const before = await decodeEntry(key.slice('varve:1:'.length), await redis.client.getBuffer(key) ?? Buffer.alloc(0))
  await redis.client.set(key, await encodeEntry({ ...before, ...change(before) }))
}

t.test('lookups go to memory, Redis, upstream; a burst of equal reads is one lookup and one fetch', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await varveAt(t, upstream.url, at(network.url)), await varveAt(t, upstream.url, at(network.url))]
  const burst = async (varve: TestVarve): Promise<TestResponse[]> => {
    network.withhold()
    const reading = Array.from({ length: 200 }, async () => await varve.get(modules))
    // Accepted after the whole burst, which has thus arrived.
    await varve.get('/v1/blocks/by_version/x')
    network.release()
    return await Promise.all(reading)
  }
  for (
    const [varve, expectedStatus, reads] of [[a, /^varve; fwd=uri-miss; (?:fwd-status=200; stored|collapsed)$/, 1], [
      b,
      /^varve; hit; detail=redis$/,
      1
    ]] as const
  ) {
    const before = await lookupCount(varve)
    const got = await burst(varve)
    // Reads that came after the fetch ended were hits in memory.
    const first = got.filter(({ headers }) => headers[cacheStatusHeader] !== memoryHitStatus)
    t.ok(first.length > 100, `${first.length} together`)
    for (const { headers } of first) t.match(headers[cacheStatusHeader], expectedStatus)
    t.equal(new Set(got.map(({ body }) => body)).size, 1)
    t.equal(await lookupCount(varve), before + 1)
    t.equal(upstream.reads(), reads)
    t.equal((await varve.get(modules)).headers[cacheStatusHeader], memoryHitStatus)
    t.equal(await lookupCount(varve), before + 1, 'memory is looked up first')
    await untilWritten(a, 1)
  }
  t.ok(await b.metric('varve_requests_total{endpoint="account_modules",outcome="hit_redis",status="200"}'))
  t.equal(await b.metric('varve_requests_total{endpoint="account_modules",outcome="miss",status="200"}'), undefined)
})

t.test('an entry from Redis expires in memory when it expires in Redis', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const [a, b] = [await varveAt(t, upstream.url, at(redis.url)), await varveAt(t, upstream.url, at(redis.url))]
  await a.get(modules)
  await untilWritten(a, 1)
  const [key = ''] = await redis.client.keys(`${anySpace} *`)
  const started = performance.now()
  await redis.client.pexpire(key, 2000)
  for (const expectedStatus of [redisHitStatus, memoryHitStatus]) {
    t.equal((await b.get(modules)).headers[cacheStatusHeader], expectedStatus)
  }
  await until(
    async () => (await b.get(modules)).headers[cacheStatusHeader] !== memoryHitStatus,
    'the entry has expired'
  )
  const tookMs = performance.now() - started
  t.ok(tookMs > 1800 && tookMs < 8000, `${tookMs} ms`)
  t.equal(upstream.reads(), 2)
  t.equal(
    (await a.get(modules)).headers[cacheStatusHeader],
    memoryHitStatus,
    'an entry from the upstream keeps its own lifetime'
  )
})

t.test('a latest read never writes to Redis: it is promoted to the memory tier alone', async t => {
  const redis = await startRedis(t)
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, at(redis.url))
  const b = await varveAt(t, sandbox.url, at(redis.url))
  const { version } = sandbox.ledger.head
  for (
    const [path, how] of [['/v1/accounts/0x1/modules', {}], ['/v1/tables/0x5eed/item', tableItemLookup('u64', '"7"')], [
      '/v1/tables/0x5eed/item',
      { ...tableItemLookup('u64', '"7"'), headers: { 'content-type': 'application/json', accept: 'application/x-bcs' } }
    ]] as const
  ) {
    t.equal((await a.get(path, how)).headers[cacheStatusHeader], 'varve; fwd=bypass')
    t.equal((await a.get(`${path}?ledger_version=${version}`, how)).headers[cacheStatusHeader], memoryHitStatus)
  }
  for (const path of ['/v1/info', '/v1/estimate_gas_price', events]) await a.get(path)
  // Writes to Redis keep their order, so an earlier write would show by then.
  await a.get('/v1/accounts/0x1/modules?ledger_version=2000')
  await untilWritten(a, 1)
  t.match(await redis.client.keys(`${anySpace} *`), [/ledger_version=2000$/])
  t.equal((await redis.client.keys(`${anySpace} *`)).length, 1)
  t.equal(
    (await b.get(`/v1/accounts/0x1/modules?ledger_version=${version}`)).headers[cacheStatusHeader],
    storedMissStatus
  )
})

t.test('table values are shared by all variants, not-founds by equal text only, also in one lookup', async t => {
  const redis = await startRedis(t)
  const upstream = await startStubUpstream(t, (request, response) => {
    let body = ''
    request.on('data', chunk => {
      body += String(chunk)
    })
    request.on('end', () => {
      const isThere = body.includes('"7"') || body.includes('007')
      if (isThere) respondOk(response, '"1"')
      else {
        response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
          JSON.stringify({ message: body, error_code: 'table_item_not_found', vm_error_code: null })
        )
      }
    })
  })
  const network = await slowRedis(t, redis)
  const a = await varveAt(t, upstream.url, at(redis.url))
  for (const key of ['"7"', '"8"']) await a.get(table, tableItemLookup('u64', key))
  await untilWritten(a, 2)
  const b = await varveAt(t, upstream.url, at(redis.url))
  t.match(await b.get(table, tableItemLookup('u64', '"007"')), {
    status: 200,
    headers: { [cacheStatusHeader]: redisHitStatus }
  })
  t.match(await b.get(table, tableItemLookup('u64', '"08"')), {
    status: 404,
    body: /08/,
    headers: { [cacheStatusHeader]: 'varve; fwd=uri-miss; fwd-status=404; stored' }
  })
  for (const expectedStatus of [redisHitStatus, memoryHitStatus]) {
    t.match(await b.get(table, tableItemLookup('u64', '"8"')), {
      status: 404,
      headers: { [cacheStatusHeader]: expectedStatus }
    })
  }
  await redis.client.del(...await redis.client.keys(`${anySpace} *`))
  const c = await varveAt(t, upstream.url, at(redis.url))
  for (const key of ['"7"', '"8"']) await c.get(table, tableItemLookup('u64', key))
  await untilWritten(c, 2)
  // Orders whose first read has the text in Redis, or another text.
  for (const order of [['"8"', '"08"', '"8"', '"0008"'], ['"08"', '"8"', '"08"', '"0008"']]) {
    const d = await varveAt(t, upstream.url, at(network.url))
    network.withhold()
    const reading: Array<Promise<TestResponse>> = []
    for (const key of order) {
      reading.push(d.get(table, tableItemLookup('u64', key)))
      if (reading.length === 1) await until(() => network.received.includes(' /v1/tables/'), 'the lookup has started')
    }
    // Accepted after all reads, which have thus arrived.
    await d.get('/v1/blocks/by_version/x')
    network.release()
    const got = await Promise.all(reading)
    for (const [nth, key] of order.entries()) {
      t.match(got[nth], { status: 404, body: `\\"key\\":\\${key.slice(0, -1)}\\"` }, `${key} in ${order.join(' ')}`)
    }
    await redis.client.del(
      ...(await redis.client.keys(`${anySpace} *`)).filter(name => name.includes('= ') && /"key":"0/.test(name))
    )
  }
})

t.test('a hit in Redis has the tag, cursors, form and 304 of a hit in memory', async t => {
  const redis = await startRedis(t)
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, at(redis.url))
  const path = '/v1/accounts/0x1/modules?ledger_version=2000&limit=2'
  const first = await a.get(path)
  await untilWritten(a, 1)
  const b = await varveAt(t, sandbox.url, at(redis.url))
  const got = await b.get(path)
  const alike = (
    { status, body, headers }: TestResponse
  ): unknown => [
    status,
    body,
    ...['etag', 'content-type', 'content-length', 'x-node-cursor', 'x-aptos-cursor', 'cache-control', 'vary'].map(
      name => headers[name]
    )
  ]
  t.same(alike(got), alike(first))
  t.ok(got.headers['x-node-cursor'] !== undefined && got.headers['x-node-cursor'] === got.headers['x-aptos-cursor'])
  t.equal(got.headers[cacheStatusHeader], redisHitStatus)
  const c = await varveAt(t, sandbox.url, at(redis.url))
  t.match(await c.get(path, { headers: { 'if-none-match': String(first.headers.etag) } }), {
    status: 304,
    body: '',
    headers: {
      [cacheStatusHeader]: redisHitStatus,
      etag: first.headers.etag,
      'x-node-cursor': first.headers['x-node-cursor'],
      'x-aptos-cursor': first.headers['x-node-cursor']
    }
  })
  const d = await varveAt(t, sandbox.url, at(redis.url))
  const zipped = await d.get(path, { headers: { 'accept-encoding': 'gzip' } })
  t.match(zipped.headers, { [cacheStatusHeader]: redisHitStatus, 'x-node-cursor': first.headers['x-node-cursor'] })
  t.equal(await d.metric('varve_requests_total{endpoint="account_modules",outcome="hit_redis",status="200"}'), 1)
})

t.test('an entry with a position of another chain is a miss; one ahead moves the served head on', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const a = await varveAt(t, upstream.url, at(redis.url))
  await a.get(modules)
  await untilWritten(a, 1)
  const moved =
    (head: object, chainId = 4) => ({ stamped: { position, family } }: StoredEntry): Partial<StoredEntry> => ({
      stamped: { family, position: { ...position, chainId, head: { ...position.head, ...head } } }
    })
  // A higher version at an earlier time, a lower one at a later time, another time, another chain.
  for (
    const lie of [
      moved({ version: 1001n, timestampUsec: 1n }),
      moved({ version: 999n, timestampUsec: 2_000_000n }),
      moved({ timestampUsec: 2_000_000n }),
      moved({}, 5)
    ]
  ) {
    await rewrite(redis, lie)
    const b = await varveAt(t, upstream.url, at(redis.url))
    t.match((await b.get(modules)).headers, {
      [cacheStatusHeader]: storedMissStatus,
      'x-node-ledger-version': '1000',
      'x-node-ledger-timestampusec': '1000000',
      'x-node-chain-id': '4'
    })
    await untilWritten(b, 1)
    t.equal(await b.metric('varve_chain_resets_total'), 0)
  }
  await rewrite(redis, moved({ version: 1500n, timestampUsec: 1_500_000n, blockHeight: 150n }))
  const c = await varveAt(t, upstream.url, at(redis.url))
  t.match((await c.get(modules)).headers, {
    [cacheStatusHeader]: redisHitStatus,
    'x-node-ledger-version': '1500',
    'x-node-block-height': '150',
    'x-node-ledger-oldest-version': '10'
  }, 'no position below that of the entry')
  t.match((await c.get(modules)).headers, { [cacheStatusHeader]: memoryHitStatus, 'x-node-ledger-version': '1500' })
})

t.test('pruned history is served from Redis; without it varve responds 410 itself', async t => {
  const redis = await startRedis(t)
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, at(redis.url))
  const { firstVersion } = sandbox.ledger.block(300)
  const cachedPaths = [
    `/v1/blocks/by_version/${firstVersion}`,
    `/v1/accounts/0x1/modules?ledger_version=${firstVersion}&limit=1`,
    `${events}?start=300&limit=5`
  ]
  for (const path of cachedPaths) await a.get(path)
  await untilWritten(a, 3)
  sandbox.ledger.pruneTo(400)
  const b = await varveAt(t, sandbox.url, at(redis.url))
  sandbox.requests.reset()
  for (const path of cachedPaths) {
    t.match(await b.get(path), {
      status: 200,
      headers: { [cacheStatusHeader]: 'varve; hit; detail=pruned', 'x-node-oldest-block-height': '400' }
    }, path)
  }
  for (const [endpoint, count] of [['block_by_version', 1], ['account_modules', 1], ['account_events', 1]] as const) {
    t.equal(await b.metric(`varve_requests_total{endpoint="${endpoint}",outcome="hit_redis",status="200"}`), count)
    t.equal(await b.metric(`varve_pruned_requests_total{endpoint="${endpoint}",answer="cache"}`), count)
  }
  const before = await lookupCount(b)
  const gone = await b.get(`/v1/accounts/0x1/modules?ledger_version=${firstVersion}&limit=7`)
  t.match(gone, { status: 410, body: /"version_pruned"/, headers: { [cacheStatusHeader]: 'varve; detail=gone' } })
  t.equal(await lookupCount(b), before + 1, 'gone only after a miss in Redis')
  t.equal(
    sandbox.requests.countFor('account_modules') + sandbox.requests.countFor('block_by_version') +
      sandbox.requests.countFor('account_events'),
    0
  )
})

t.test('a Redis lookup that ends in another space is a miss', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const a = await varveAt(t, upstream.url, at(redis.url))
  const { body: old } = await a.get(modules)
  await untilWritten(a, 1)
  const network = await slowRedis(t, redis)
  const b = await varveAt(t, upstream.url, { ...at(network.url), admin: { listen: '127.0.0.1:0', token: 'x' } })
  network.withhold()
  const reading = b.get(modules)
  await until(() => network.received.includes(' /v1/accounts/'), 'the lookup has started')
  const changes = usedSpaces(b).length
  const purging = sendRequest(b.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: 'Bearer x' },
    body: '{"all":true}'
  })
  await until(
    () => usedSpaces(b).length === changes + 1,
    'a space has begun'
  )
  network.release()
  t.match(await reading, {
    status: 200,
    headers: { [cacheStatusHeader]: 'varve; fwd=uri-miss; fwd-status=200; detail=wrong_chain' }
  })
  t.not((await reading).body, old)
  t.match(await purging, { status: 200 })
  t.equal((await b.get(modules)).headers[cacheStatusHeader], storedMissStatus)
})

t.test('an old rendering is replaced from Redis if another replica refreshed it, else upstream', async t => {
  const redis = await startRedis(t)
  const path = '/v1/accounts/0x1/modules?ledger_version=2000&limit=2'
  const often = { ...at(redis.url), head: { pollMs: 20 } }
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, often)
  const b = await varveAt(t, sandbox.url, often)
  for (const varve of [a, b]) await varve.get(path)
  const old = await a.get(path)
  await until(
    async () => (await b.get(path)).headers[cacheStatusHeader] === memoryHitStatus,
    'the second replica has the entry in memory'
  )
  const [key = ''] = await redis.client.keys(`${anySpace} *`)
  const shared = await redis.client.getBuffer(key)
  sandbox.ledger.release = releases.enums
  let fresh = await a.get(path)
  await until(async () => {
    fresh = await a.get(path)
    return fresh.body !== old.body
  }, 'the entry is refreshed')
  await until(
    async () => (await redis.client.getBuffer(key))?.equals(shared ?? Buffer.alloc(0)) === false,
    'the refreshed entry is in Redis'
  )
  const before = sandbox.requests.countFor('account_modules')
  await until(async () => (await b.get(path)).body === fresh.body, 'the second replica serves the refreshed entry')
  t.equal(sandbox.requests.countFor('account_modules'), before, 'from Redis')
  t.ok((await b.metric('varve_requests_total{endpoint="account_modules",outcome="hit_redis",status="200"}') ?? 0) > 0)
})

t.test('an old rendering in Redis is fetched again at once, or served if no upstream can', async t => {
  const redis = await startRedis(t)
  const { state, ...upstream } = await startChangingUpstream(t)
  const { respond } = state
  const a = await varveAt(t, upstream.url, at(redis.url))
  const { body: old } = await a.get(modules)
  await untilWritten(a, 1)
  await rewrite(redis, () => ({ release: 'bbbb' }))
  state.respond = (response, nth) => {
    respondOk(response, `[${nth}]${' '.repeat(2 * 1024 * 1024)}`)
  }
  const small = await varveAt(t, upstream.url, { cache: { ...at(redis.url).cache, maxEntryMb: 1 } })
  t.match(
    await small.get(modules),
    { status: 200, body: old, headers: { [cacheStatusHeader]: redisHitStatus } },
    'not replaced by one too large to store'
  )
  state.respond = response => {
    response.writeHead(503, stamps()).end()
  }
  const b = await varveAt(t, upstream.url, at(redis.url))
  for (const expectedStatus of [redisHitStatus, memoryHitStatus]) {
    t.match(await b.get(modules), { status: 200, body: old, headers: { [cacheStatusHeader]: expectedStatus } })
  }
  state.respond = respond
  const c = await varveAt(t, upstream.url, at(redis.url))
  const before = await lookupCount(c)
  const fresh = await c.get(modules)
  t.not(fresh.body, old)
  t.equal(fresh.headers[cacheStatusHeader], storedMissStatus)
  t.equal(await lookupCount(c), before + 1)
  await untilWritten(c, 1)
  const d = await varveAt(t, upstream.url, at(redis.url))
  t.match(
    await d.get(modules),
    { body: fresh.body, headers: { [cacheStatusHeader]: redisHitStatus } },
    'the new rendering is shared'
  )
  t.equal(upstream.requests.length, 4)
})

t.test('a stale latest read is fetched again only from an upstream that has reached that version', async t => {
  const redis = await startRedis(t)
  const [far, near] = [await startChangingUpstream(t, { stamps: headAt(2000) }), await startChangingUpstream(t)]
  const a = await varveAt(t, far.url, at(redis.url))
  const b = await varveAt(t, near.url, at(redis.url))
  await a.get('/v1/accounts/0x1/modules')
  await until(async () => await b.metric('varve_ledger_version') === 2000, 'the position was published')
  const latest = async (): Promise<[unknown, number]> => {
    const before = near.requests.length
    return [(await b.get('/v1/accounts/0x1/modules')).headers['x-node-ledger-version'], near.requests.length - before]
  }
  t.same(await latest(), ['1000', 1], 'it carries its own stamp')
  near.state.stamps = headAt(2000)
  t.same(await latest(), ['2000', 1])
  near.state.stamps = headAt(1500)
  t.same(await latest(), ['1500', 2])
  t.equal(await b.metric('varve_stale_latest_total'), 2)
})
