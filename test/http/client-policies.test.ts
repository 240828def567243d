import t, { type Test } from 'tap'
import { type TestResponse, sendRequest, tableItemLookup } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import {
  respondOk,
  stamps,
  startCountingUpstream,
  startEmptyUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const keys = [{ name: 'shop', key: 'k-shop-51', requestsPerSecond: null }, {
  name: 'wallet',
  key: 'k-wallet-52',
  requestsPerSecond: null
}]
const bearer = (key: string): { headers: Record<string, string> } => ({ headers: { authorization: `Bearer ${key}` } })
const clientLimits = { requestsPerSecond: 1, burst: 3 }
const untouched = { prunedBlocks: 0 }

/** Reads `count` versions at once that were never requested before; returns the number of responses per status. */
async function misses (
  varve: TestVarve,
  count: number,
  options: Parameters<TestVarve['get']>[1] = {},
  from = 100
): Promise<Record<number, number>> {
  return counts(
    await Promise.all(
      Array.from({ length: count }, async (_, nth) => (await varve.get(modules(from + nth), options)).status)
    )
  )
}

function counts (statuses: readonly number[]): Record<number, number> {
  return Object.fromEntries(
    [...new Set(statuses)].sort().map(status => [status, statuses.filter(one => one === status).length])
  )
}

/** Sends requests until one is rate limited; on a slow machine one more may pass meanwhile. */
async function untilLimited (fetchNth: (nth: number) => Promise<TestResponse>): Promise<TestResponse> {
  for (let nth = 0; nth < 20; nth++) {
    const got = await fetchNth(nth)
    if (got.status === 429) return got
  }
  throw new Error('it was never too much')
}

async function isLimited (t: Test, fetchNth: (nth: number) => Promise<TestResponse>): Promise<void> {
  const got = await untilLimited(fetchNth)
  t.match(got, {
    status: 429,
    headers: {
      'content-type': 'application/json',
      'retry-after': '1',
      'ratelimit-policy': '"address";q=3;w=3',
      ratelimit: '"address";r=0;t=1',
      'cache-status': 'varve; detail=limited',
      'cache-control': 'no-store'
    }
  })
  const message = 'too many requests: 1 per second for an address (limits.client.requestsPerSecond)'
  t.same(JSON.parse(got.body), { message, error_code: 'web_framework_error', vm_error_code: null })
}

t.test('an address may read so many times a second from upstreams; hits are not limited', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, untouched, { limits: { client: clientLimits } })
  const began = performance.now()
  const seen = await misses(varve, 30)
  const most = clientLimits.burst + Math.ceil((performance.now() - began) / 1000)
  t.equal(seen[200], sandbox.requests.countFor('account_modules'), 'a rejected read never reaches the upstream')
  t.ok((seen[200] ?? 0) >= 3 && (seen[200] ?? 0) <= most, JSON.stringify(seen))
  t.equal((seen[200] ?? 0) + (seen[429] ?? 0), 30)
  await isLimited(t, async nth => await varve.get(modules(300 + nth)))
  await isLimited(t, async () => await varve.get('/v1/accounts/0x1/modules'))
  await isLimited(t, async () => await varve.get('/v1/-/healthy?limit=1'))
  await isLimited(t, async nth => await varve.get('/v1/tables/0x5eed/item', tableItemLookup('u64', `"${nth}"`)))
  t.match(await untilLimited(async nth => await varve.get(modules(400 + nth))), {
    headers: { 'x-node-ledger-version': /^\d+$/ }
  }, 'a 429 for a known read carries the position too')
  const hit = { status: 200, headers: { 'cache-status': 'varve; hit; detail=memory' } }
  const free: Array<[why: string, target: string, response: object]> = [
    ['a hit', modules(100), hit],
    ['another request variant', '/v1/accounts/1/modules?limit=01&ledger_version=100', hit],
    ['a request that varve rejects', '/v1/accounts/xyz/modules', { status: 400 }],
    ['an unknown path', '/v2/no', { status: 404 }]
  ]
  for (let round = 0; round < 9; round++) {
    for (const [why, target, response] of free) t.match(await varve.get(target), response, `${why} costs nothing`)
  }
  const limited = await varve.metric('varve_requests_total{endpoint="account_modules",outcome="limited",status="429"}')
  t.equal(limited, (seen[429] ?? 0) + 3)
  t.equal(await varve.metric('varve_limited_total{by="address"}'), Number(limited) + 2)
  t.equal(await varve.metric('varve_limited_total{by="key"}'), 0)
})

t.test('a 410 for a version that no upstream has any more costs nothing', async t => {
  const { varve } = await varveAtSandbox(t, {}, { limits: { client: clientLimits } })
  await varve.get('/v1')
  for (let nth = 0; nth < 6; nth++) t.match(await varve.get(modules(nth + 1)), { status: 410 })
})

t.test('a rate-limited client is served again as soon as its Retry-After is over', async t => {
  const { varve } = await varveAtSandbox(t, untouched, { limits: { client: { requestsPerSecond: 20, burst: 1 } } })
  let nth = 0
  await untilLimited(async () => await varve.get(modules(++nth)))
  await until(async () => (await varve.get(modules(++nth))).status === 200, 'the client may read again', 1000)
})

t.test('with exemptHits off, hits and rejected requests count too', async t => {
  const { varve } = await varveAtSandbox(t, untouched, { limits: { client: { ...clientLimits, exemptHits: false } } })
  await isLimited(t, async () => await varve.get(modules(100)))
  await isLimited(t, async () => await varve.get('/v1/accounts/xyz/modules'))
})

t.test('each client has its own limit, by address, IPv6 network, or what a trusted proxy forwards', async t => {
  const { varve } = await varveAtSandbox(t, untouched, {
    limits: { client: { requestsPerSecond: 1, burst: 10 } },
    trustProxy: ['127.0.0.0/30', '10.0.0.0/8']
  })
  let version = 0
  const from = async (localAddress: string, forwarded?: string): Promise<TestResponse> =>
    await varve.get(modules(++version), {
      localAddress,
      ...(forwarded !== undefined && { headers: { 'x-forwarded-for': forwarded } })
    })
  /** Returns true if two clients have one burst of ten together, and some seconds of a busy machine, not one each. */
  const areOne = async (one: Parameters<typeof from>, other: Parameters<typeof from>): Promise<boolean> => {
    const clients = Array.from({ length: 12 }, () => [one, other]).flat()
    const responses = await Promise.all(clients.map(async client => await from(...client)))
    return responses.filter(({ status }) => status === 200).length < 18
  }
  t.notOk(await areOne(['127.0.0.9'], ['127.0.0.10']))
  t.ok(await areOne(['127.0.0.11'], ['127.0.0.11', '203.0.113.1']), 'an untrusted client cannot choose its address')
  t.ok(await areOne(['127.0.0.1', '203.0.113.2'], ['127.0.0.2', '203.0.113.2']))
  t.notOk(await areOne(['127.0.0.1', '203.0.113.3'], ['127.0.0.1', '203.0.113.4']))
  t.ok(
    await areOne(['127.0.0.1', '203.0.113.5'], ['127.0.0.1', '203.0.113.99, 203.0.113.5']),
    'a trusted proxy appends to what its client claims, which is not trusted'
  )
  t.ok(
    await areOne(['127.0.0.1', '203.0.113.6'], ['127.0.0.1', '203.0.113.6, 10.1.2.3']),
    'through two trusted proxies'
  )
  t.ok(await areOne(['127.0.0.1', '2001:db8:1:2::1'], ['127.0.0.1', '[2001:db8:1:2:3::2]:99']))
  t.notOk(await areOne(['127.0.0.1', '2001:db8:1:3::1'], ['127.0.0.1', '2001:db8:1:4::1']))
})

t.test('upstreams get the client address from a trusted proxy, never one that a client makes up', async t => {
  const stub = await startEmptyUpstream(t)
  const clientAddress = async (trustProxy: string[]): Promise<string | undefined> => {
    const varve = await varveAt(t, stub.url, { trustProxy })
    await varve.get('/v1/-/healthy', { headers: { 'x-forwarded-for': '203.0.113.1' } })
    const lines = stub.rawHeaders.at(-1) ?? []
    return lines[lines.findIndex(line => line.toLowerCase() === 'x-forwarded-for') + 1]
  }
  t.equal(await clientAddress([]), '127.0.0.1')
  t.equal(await clientAddress(['10.0.0.1']), '127.0.0.1')
  t.equal(await clientAddress(['loopback']), '203.0.113.1')
})

t.test('a known key has its own limit from any address; without one the address is limited', async t => {
  const clients = {
    keys: [{ name: 'shop', key: 'k-shop-51', requestsPerSecond: 1000 }, {
      name: 'wallet',
      key: 'k-wallet-52',
      requestsPerSecond: null
    }]
  }
  const { varve } = await varveAtSandbox(t, untouched, {
    limits: { client: { requestsPerSecond: 1, burst: 4 } },
    clients
  })
  t.equal(
    await varve.metric('varve_client_requests_total{client="shop",outcome="hit_memory"}'),
    0,
    'counted from the start'
  )
  const wallet = await misses(varve, 20, bearer('k-wallet-52'), 100)
  t.ok((wallet[200] ?? 0) >= 4 && (wallet[200] ?? 0) < 7, 'a key without its own limit has the limit of an address')
  t.match(
    await untilLimited(async nth =>
      await varve.get(modules(200 + nth), { ...bearer('k-wallet-52'), localAddress: '127.0.0.7' })
    ),
    { status: 429 },
    'from any address'
  )
  t.match(
    await misses(varve, 12, { headers: { 'x-api-key': 'k-shop-51' } }, 300),
    { 200: 12 },
    'its own rate is its burst too'
  )
  for (let nth = 0; nth < 8; nth++) {
    t.match(await varve.get(modules(100), bearer('k-shop-51')), { status: 200 })
  }
  await untilLimited(async nth => await varve.get(modules(400 + nth), bearer('k-unknown')))
  t.match(
    await untilLimited(async nth => await varve.get(modules(500 + nth))),
    { status: 429 },
    'an unknown key is ignored'
  )
  t.equal(await varve.metric('varve_client_requests_total{client="shop",outcome="miss"}'), 12)
  const bytes = await varve.metric('varve_client_response_bytes_total{client="shop"}')
  const { totals } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as { totals: unknown }
  t.match(totals, { clients: [{ client: 'shop', requests: 20, bytes }, { client: 'wallet' }] })
  t.equal(await varve.metric('varve_client_requests_total{client="shop",outcome="hit_memory"}'), 8)
  t.equal(
    await varve.metric('varve_client_requests_total{client="wallet",outcome="limited"}'),
    await varve.metric('varve_limited_total{by="key"}')
  )
  t.ok(Number(await varve.metric('varve_limited_total{by="address"}')) >= 2)
})

t.test('a key for some endpoints or origins gets 403 for all else, cached or not', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, untouched, {
    clients: {
      keys: [
        { name: 'modules', key: 'k-modules', endpoints: ['account_modules'] },
        { name: 'page', key: 'k-page', origins: ['https://app.example'] },
        ...keys
      ]
    }
  })
  const [block, spec] = ['/v1/blocks/by_version/2000', '/v1/spec.json']
  for (const target of [modules(100), block, spec]) await varve.get(target, bearer('k-shop-51'))
  sandbox.requests.reset()
  const from = async (target: string, key: string, origin?: string): Promise<TestResponse> =>
    await varve.get(target, { headers: { ...bearer(key).headers, ...(origin !== undefined && { origin }) } })
  // Repeats: the bytes of a request that memory answered are remembered.
  for (let round = 0; round < 3; round++) {
    t.match(await from(modules(100), 'k-modules'), { status: 200, headers: { 'cache-status': /hit/ } })
    for (const target of [block, spec, '/v1/nowhere']) {
      t.match(await from(target, 'k-modules'), {
        status: 403,
        body: /"this key is not for the endpoint (?:block_by_version|other)".*"api_disabled"/,
        headers: { 'cache-status': 'varve; detail=rejected' }
      }, target)
    }
    t.match(await from(block, 'k-page', 'https://app.example'), { status: 200 })
    for (const origin of [undefined, 'https://other.example', 'null']) {
      t.match(await from(block, 'k-page', origin), {
        status: 403,
        body: /"this key is not for requests of this Origin"/
      })
    }
    t.match(await from(block, 'k-shop-51'), { status: 200, headers: { 'cache-status': /hit/ } })
  }
  t.equal(sandbox.requests.countFor('block_by_version'), 0)
})

t.test('a quota of a day can be used at once, and comes back evenly; its 429 names it', async t => {
  for (const exemptHits of [true, false]) {
    const { varve } = await varveAtSandbox(t, untouched, {
      limits: { client: { exemptHits } },
      clients: { keys: [{ name: 'daily', key: 'k-daily', requestsPerSecond: 1000, requestsPerDay: 5 }] }
    })
    t.same(await misses(varve, 12, bearer('k-daily')), { 200: 5, 429: 7 })
    const limited = await varve.get(modules(999), bearer('k-daily'))
    t.match(limited, {
      body: /"too many requests: 5 per day for this key"/,
      headers: { 'ratelimit-policy': '"key-day";q=5;w=86400', ratelimit: /^"key-day";r=0;t=172\d\d$/ }
    })
    t.equal(limited.headers['retry-after'], limited.headers.ratelimit?.toString().split('t=')[1])
    t.equal((await varve.get(modules(100), bearer('k-daily'))).status, exemptHits ? 200 : 429, 'a hit')
    t.equal((await varve.get(modules(999))).status, 200, 'an address has no such quota')
  }
})

t.test('where a key is required, nothing is served without one, cached or not; preflights pass', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, untouched, { clients: { required: true, keys } })
  const targets = [
    modules(100),
    '/v1/accounts/0x1/modules',
    '/v1/info',
    '/v1',
    '/v1/transactions',
    '/v1/-/healthy',
    '/v1/accounts/xyz/modules',
    '/nowhere'
  ]
  for (const target of targets) {
    for (
      const how of [{}, bearer('k-shop-5'), { headers: { 'x-api-key': '' } }, { method: 'HEAD' }, {
        method: 'POST',
        body: '{}'
      }, { method: 'DELETE' }]
    ) {
      const got = await varve.get(target, how)
      t.match(
        got,
        { status: 401, headers: { 'www-authenticate': 'Bearer', 'cache-status': 'varve; detail=rejected' } },
        `${target} ${JSON.stringify(how)}`
      )
    }
  }
  t.same(JSON.parse((await varve.get(modules(100))).body), {
    message: 'expected a client key: Authorization: Bearer KEY, or X-Api-Key: KEY',
    error_code: 'web_framework_error',
    vm_error_code: null
  })
  t.equal(sandbox.requests.total, 0)
  for (let nth = 0; nth < 3; nth++) t.match(await varve.get(modules(100), bearer('k-shop-51')), { status: 200 })
  t.match(await varve.get(modules(100), bearer('k-shop-51')), {
    headers: { 'cache-status': 'varve; hit; detail=memory' }
  })
  t.match(await varve.get(modules(100)), { status: 401 }, 'a hit needs a key too')
  t.match(await varve.get(modules(100), { headers: { 'x-api-key': 'k-wallet-52' } }), { status: 200 })
  const preflight = {
    method: 'OPTIONS',
    headers: {
      origin: 'https://app.example',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'authorization,x-api-key'
    }
  }
  t.match(await varve.get(modules(100), preflight), {
    status: 200,
    headers: { 'access-control-allow-headers': 'authorization,x-api-key' }
  })
  t.match(await varve.get(modules(100), { headers: { origin: 'https://app.example' } }), {
    status: 401,
    headers: { 'access-control-allow-origin': 'https://app.example' }
  })
})

t.test('a client without a key has the limit of its address, which never limits a key there', async t => {
  const { varve } = await varveAtSandbox(t, untouched, {
    clients: { required: true, keys },
    limits: { client: { requestsPerSecond: 1, burst: 3 } }
  })
  const tried = await misses(varve, 30, bearer('guess'))
  t.ok((tried[401] ?? 0) >= 3 && (tried[401] ?? 0) < 6 && tried[200] === undefined, JSON.stringify(tried))
  t.match(
    await varve.get(modules(100), bearer('k-shop-51')),
    { status: 200 },
    'a known key is not limited by its neighbour'
  )
})

t.test('a rejection never shows the position, whatever is rejected', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, untouched, {
    clients: { required: true, keys },
    limits: { bodyKb: 1, client: { requestsPerSecond: 1, burst: 2 } },
    cors: { origins: ['https://app.example'] }
  })
  // A third request from one address is rate limited, except on a slow machine; a preflight of another origin gets a
  // 403 without a key.
  const cases: Array<[statuses: number[], how: Parameters<TestVarve['get']>[1]]> = [
    [[401], {}],
    [[401], { method: 'POST', body: 'x'.repeat(2000) }],
    [[401, 429], {}],
    [[401, 429], { headers: Object.fromEntries(Array.from({ length: 1001 }, (_, nth) => [`x${nth}`, ''])) }],
    [[403], { method: 'OPTIONS', headers: { origin: 'https://other.example', 'access-control-request-method': 'GET' } }]
  ]
  for (const [statuses, options] of cases) {
    const got = await varve.get(modules(100), options)
    t.ok(statuses.includes(got.status), String(got.status))
    t.notMatch(got.rawNames.join(' '), /ledger|chain-id|epoch/i, String(got.status))
  }
  t.equal(sandbox.requests.total, 0)
  t.match(
    (await varve.get('/v1/accounts/0xzz/modules', bearer('k-shop-51'))).rawNames.join(' '),
    /X-NODE-LEDGER-VERSION/
  )
})

t.test('an old rendering is served to a client whose limit does not allow fetching the new one', async t => {
  let release = 'aaaa'
  const stub = await startStubUpstream(t, (_request, response) => respondOk(response, '[]'), (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end(`{"git_hash":"${release}"}`)
  })
  const varve = await varveAt(t, stub.url, {
    limits: { client: { requestsPerSecond: 1, burst: 5 } },
    head: { pollMs: 20 }
  })
  const versions = [101, 102, 103, 104]
  for (const version of versions) await varve.get(modules(version))
  release = 'bbbb'
  await until(
    async () => JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body).upstreams[0].release === 'bbbb',
    'the new release is known'
  )
  const before = stub.requests.length
  for (const version of versions) t.equal((await varve.get(modules(version))).status, 200)
  t.ok(stub.requests.length - before < versions.length, `${stub.requests.length - before} upstream requests`)
})

t.test('a read that waits for a version and is then fetched counts once', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, untouched, {
    limits: { client: { requestsPerSecond: 1, burst: 2 } },
    head: { pollMs: 20 }
  })
  await until(
    async () => (await sendRequest(varve.adminUrl, '/readyz')).status === 200,
    'varve is ready'
  )
  const ahead = sandbox.ledger.head.version + 1n
  const pending = varve.get('/v1/accounts/0x1/modules', { headers: { 'x-varve-min-ledger-version': String(ahead) } })
  await until(async () => await varve.metric('varve_waiting_for_version') === 1, 'the read waits for its version')
  sandbox.ledger.grow(1)
  t.match(await pending, { status: 200 })
  t.match(await varve.get(modules(100)), { status: 200 })
})

t.test('where keys are required, responses are private to caches before varve', async t => {
  const { varve } = await varveAtSandbox(t, untouched, {
    clients: { required: true, keys },
    downstream: { cacheControl: 'immutable' }
  })
  t.match(await varve.get(modules(100), bearer('k-shop-51')), {
    headers: { 'cache-control': 'private, max-age=86400' }
  })
  t.match(await varve.get('/v1/blocks/by_version/100', bearer('k-shop-51')), {
    headers: { 'cache-control': 'private, max-age=31536000, immutable' }
  })
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { 'cache-control': 'public, max-age=600' })
  })
  for (const [cacheControl, stored] of [['off', 'private'], ['revalidate', 'private, no-cache']] as const) {
    const other = await varveAt(t, stub.url, {
      clients: { required: true, keys },
      downstream: { cacheControl },
      upstream: { ignoreCacheControl: true }
    })
    for (const [target, wanted] of [[modules(100), stored], ['/v1/spec.json', 'private, no-store']] as const) {
      const { headers } = await other.get(target, bearer('k-shop-51'))
      t.equal(headers['cache-control'], wanted, `${cacheControl} ${target}, whatever the upstream sends`)
    }
  }
})

t.test('a key goes nowhere else: not upstream, nor into the log, metrics, status or responses', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    request.url?.includes('fail') === true ? response.destroy() : respondOk(response, '[]')
  })
  const varve = await varveAt(t, stub.url, {
    log: { level: 'trace', access: true },
    clients: { required: false, keys },
    limits: { client: { requestsPerSecond: 2 } }
  })
  const seen = []
  for (
    const target of [
      modules(100),
      modules(100),
      '/v1/-/healthy',
      '/v1/fail',
      modules(101),
      modules(102),
      modules(103)
    ]
  ) {
    for (const options of [bearer('k-shop-51'), { headers: { 'x-api-key': 'k-wallet-52' } }, bearer('k-guess-53')]) {
      seen.push(await varve.get(target, options))
    }
  }
  for (const page of ['/metrics', '/readyz', '/status.json']) seen.push(await sendRequest(varve.adminUrl, page))
  t.ok(seen.some(({ status }) => status === 429))
  const all = JSON.stringify([stub.rawHeaders, stub.requests, varve.log, seen])
  t.notMatch(all, /k-shop-51|k-wallet-52|k-guess-53|bearer|x-api-key/i)
  t.match(
    varve.log.find(({ msg }) => msg === 'request completed'),
    { client: 'shop' },
    'a client is logged by its name'
  )
})

t.test('replicas that share Redis share limits and hits; without Redis each counts alone', async t => {
  const redis = await startRedis(t)
  const upstream = await startCountingUpstream(t)
  const change = { limits: { client: { requestsPerSecond: 1, burst: 4 } }, cache: { redis: { url: redis.url } } }
  const [one, other] = [await varveAt(t, upstream.url, change), await varveAt(t, upstream.url, change)]
  const together = (await misses(one, 3, {}, 100))[200] ?? 0
  const all = together + ((await misses(other, 20, {}, 200))[200] ?? 0)
  t.ok(all >= 4 && all < 7, `${all} in all`)
  t.equal(upstream.reads(), all)
  await until(
    async () => await one.metric('varve_cache_writes_total{tier="redis"}') === together,
    'all entries are written to Redis'
  )
  for (const version of [100, 101, 102]) {
    t.match(await other.get(modules(version)), { status: 200, headers: { 'cache-status': 'varve; hit; detail=redis' } })
  }
  t.equal(upstream.reads(), all)
  await redis.kill()
  let version = 500
  for (const varve of [one, other]) {
    await until(
      async () => (await varve.get(modules(version++))).status === 200,
      'the replica counts without Redis',
      3000
    )
  }
  const alone = [await misses(one, 20, {}, 300), await misses(other, 20, {}, 400)]
  for (const seen of alone) t.ok((seen[200] ?? 0) >= 3 && (seen[200] ?? 0) < 7, JSON.stringify(seen))
})
