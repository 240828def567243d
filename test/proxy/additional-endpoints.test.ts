import t from 'tap'
import { type TestRequest, type TestResponse, sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import { readiness, untilWritten } from '../support/replicas.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { respondOk, stamps, startHeldUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const bypass = 'varve; fwd=bypass'
const version_ = 'x-node-ledger-version'
const because = (reason: string, code = 200): string => `varve; fwd=uri-miss; fwd-status=${code}; detail=${reason}`
const bcs: TestRequest = { headers: { accept: 'application/x-bcs' } }
const posted = (body: string): TestRequest => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body
})
const purge = async ({ adminUrl }: TestVarve, url: string): Promise<TestResponse> =>
  await sendRequest(adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: 'Bearer t' },
    body: JSON.stringify({ url })
  })

t.test('a block read by height is a hit for its versions, and one read by version for its height', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  for (const [height, how] of [[452, {}], [501, bcs]] as const) {
    for (const query of ['', '?with_transactions=true']) {
      const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(height)
      const byHeight = `/v1/blocks/by_height/${height}${query}`
      const got = await varve.get(query === '' ? byHeight : `/v1/blocks/by_version/${last}${query}`, how)
      t.match(got, { status: 200, headers: { [cacheStatusHeader]: storedMissStatus } })
      for (
        const target of [
          byHeight,
          `/v1/blocks/by_version/${first}${query}`,
          `/v1/blocks/by_version/${last}${query}`,
          byHeight.replace('height/', 'height/00')
        ]
      ) {
        const again = await varve.get(target, how)
        t.match(again.headers, { [cacheStatusHeader]: memoryHitStatus, etag: got.headers.etag }, target)
        t.ok(again.bytes.equals((await sendRequest(sandbox.url, target, how)).bytes), target)
      }
    }
  }
})

t.test('replicas share a block by height, and a purge by either path removes all its forms', async t => {
  const redis = await startRedis(t)
  const admin = { cache: { redis: { url: redis.url } }, admin: { listen: '127.0.0.1:0', token: 't' } }
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, admin)
  const b = await varveAt(t, sandbox.url, admin)
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(501)
  const [byHeight, byVersion] = ['/v1/blocks/by_height/501', `/v1/blocks/by_version/${last}`]
  let writes = 0
  for (const purged of [byHeight, `/v1/blocks/by_version/${first}`]) {
    for (const target of [byHeight, `${byVersion}?with_transactions=true`]) {
      t.equal((await a.get(target)).headers[cacheStatusHeader], storedMissStatus)
    }
    await untilWritten(a, writes += 2)
    for (const target of [byVersion, `${byHeight}?with_transactions=true`]) {
      t.equal((await b.get(target)).headers[cacheStatusHeader], redisHitStatus, target)
    }
    t.match(await purge(a, purged), { status: 200 })
    t.equal((await redis.client.keys('varve:1:*501')).length, 0)
    for (const target of [byHeight, `${byVersion}?with_transactions=true`]) {
      t.equal((await a.get(target)).headers[cacheStatusHeader], storedMissStatus, `${target} after ${purged}`)
    }
    await untilWritten(a, writes += 2)
    t.match(await purge(a, byVersion), { status: 200 })
  }
})

t.test('a block below the served head is never denied, and the newest block is not stored', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const head = sandbox.ledger.height
  t.match(await varve.get(`/v1/blocks/by_height/${head}`), {
    status: 200,
    headers: { [cacheStatusHeader]: because('newest_block') }
  })
  t.match(await varve.get(`/v1/blocks/by_height/${head + 1}`), { status: 404, body: /block_not_found/ })
  sandbox.faults.add({ kind: 'lag', blocks: 50 })
  t.match(await varve.get(`/v1/blocks/by_height/${head - 1}`), { status: 503, headers: { 'retry-after': '1' } })
  t.match(await varve.get('/v1/blocks/by_height/50'), { status: 410, body: /block_pruned/ })
})

t.test('a transaction is stored by hash once committed; a pending or unknown one never is', async t => {
  const hash = `0x${'ab'.repeat(32)}`
  const pending = { status: 404, body: '{"message":"m","error_code":"transaction_not_found","vm_error_code":null}' }
  const upstream = await startStubUpstream(t, (_request, response) => {
    response.writeHead(pending.status, { 'content-type': 'application/json', ...stamps() }).end(pending.body)
  })
  const varve = await varveAt(t, upstream.url)
  const target = `/v1/transactions/by_hash/${hash}`
  for (let nth = 1; nth <= 2; nth++) {
    t.match(await varve.get(target), {
      status: 404,
      body: pending.body,
      headers: { [cacheStatusHeader]: because('status', 404), [version_]: '1000' }
    })
  }
  Object.assign(pending, { status: 200, body: `{"hash":"${hash}","sender":"0x1","type":"pending_transaction"}` })
  for (let nth = 1; nth <= 2; nth++) {
    t.match(await varve.get(target), {
      status: 200,
      body: pending.body,
      headers: { [cacheStatusHeader]: because('pending_transaction'), 'cache-control': 'no-store' }
    })
  }
  // Nodes send this shape for a moment.
  pending.body = `{"version":"900","hash":"${hash}","type":"user_transaction","accumulator_root_hash":"${hash}"}`
  t.match((await varve.get(target)).headers, { [cacheStatusHeader]: because('pending_transaction') })
  pending.body = pending.body.replace('{', '{"success":true,')
  t.match(await varve.get(target), { body: pending.body, headers: { [cacheStatusHeader]: storedMissStatus } })
  t.match(await varve.get(target.replace('0xabab', 'ABAB')), {
    body: pending.body,
    headers: { [cacheStatusHeader]: memoryHitStatus, 'cache-control': 'no-cache' }
  })
  t.equal(upstream.requests.length, 6)
  pending.body = pending.body.replace('"hash":"0xabab', '"hash":"0xacab')
  t.match(
    await varve.get(`/v1/transactions/by_hash/0x${'cd'.repeat(32)}`),
    { status: 503 },
    'a response with another transaction is rejected'
  )
})

t.test('a read coalesced with a pending transaction gets a response newer than its request', async t => {
  const hash = `0x${'ab'.repeat(32)}`
  const upstream = await startHeldUpstream(t)
  const varve = await varveAt(t, upstream.url)
  const first = varve.get(`/v1/transactions/by_hash/${hash}`)
  const early = await upstream.next()
  const second = varve.get(`/v1/transactions/by_hash/${hash}`)
  // The second read has joined by then.
  await varve.get('/none')
  respondOk(early, `{"hash":"${hash}","type":"pending_transaction"}`)
  t.match((await first).body, /pending_transaction/)
  respondOk(await upstream.next(), `{"version":"900","hash":"${hash}","type":"user_transaction"}`)
  t.match((await second).body, /user_transaction/, 'the first response may predate the second request')
})

t.test('a transaction list that is full, or cut at the upstream\'s limit, is stored', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const { head } = sandbox.ledger
  const start = head.version - 2000n
  for (
    const [query, count] of [[`start=${start}&limit=7`, 7], [`start=${start}`, 25], [
      `start=${start}&limit=1000`,
      100
    ]] as const
  ) {
    const got = await varve.get(`/v1/transactions?${query}`)
    t.equal(got.headers[cacheStatusHeader], storedMissStatus)
    t.equal((JSON.parse(got.body) as unknown[]).length, count)
    sandbox.ledger.grow()
    await varve.get('/v1/accounts/0x42/modules')
    t.match(await varve.get(`/v1/transactions?${query}`), {
      body: got.body,
      headers: { [cacheStatusHeader]: memoryHitStatus, [version_]: String(sandbox.ledger.head.version) }
    })
  }
  const newest = sandbox.ledger.head.version
  t.equal(
    (await varve.get(`/v1/transactions?start=${newest - 2n}&limit=3`)).headers[cacheStatusHeader],
    storedMissStatus,
    'it ends with the ledger and is full'
  )
  for (const limit of ['&limit=4', '']) {
    const got = await varve.get(`/v1/transactions?start=${newest - 2n}${limit}`)
    t.equal(got.headers[cacheStatusHeader], because('short_page'), `more may follow, ${limit}`)
  }
  t.equal((await varve.get('/v1/transactions?limit=4')).headers[cacheStatusHeader], bypass)
  t.match(await varve.get(`/v1/transactions?start=${newest + 1n}`), { status: 400 })
  t.match(await varve.get('/v1/transactions?start=5'), {
    status: 410,
    body: /version_pruned/,
    headers: { [cacheStatusHeader]: 'varve; detail=gone' }
  }, 'no upstream has it any more')
})

t.test('a submitted transaction is rejected, or forwarded where passThrough is all', async t => {
  const upstream = await startStubUpstream(t, (request, response) => {
    request.resume().on('end', () => {
      respondOk(response, '{}')
    })
  })
  const varve = await varveAt(t, upstream.url)
  t.match(await varve.get('/v1/transactions', posted('{}')), { status: 404 })
  t.equal(upstream.requests.length, 0)
  const all = await varveAt(t, upstream.url, { passThrough: 'all' })
  t.match(await all.get('/v1/transactions', posted('{}')), { status: 200, headers: { [cacheStatusHeader]: bypass } })
  t.same(upstream.requests, ['POST /v1/transactions'])
})

t.test('the index is micro-cached, and never shows a version below the served head', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { latest: { indexMs: 3_600_000 } })
  const first = await varve.get('/v1')
  t.match(first, { status: 200, headers: { [cacheStatusHeader]: bypass } })
  for (const target of ['/v1', '/v1/', '/v1?x=1']) {
    t.match(await varve.get(target), {
      body: first.body,
      headers: { [cacheStatusHeader]: memoryHitStatus, 'cache-control': 'no-store' }
    })
  }
  t.equal(sandbox.requests.countFor('index'), 1)
  sandbox.ledger.grow()
  t.equal((await varve.get('/v1')).headers[cacheStatusHeader], memoryHitStatus, 'no newer block is known yet')
  await varve.get('/v1/accounts/0x1/modules')
  const next = await varve.get('/v1')
  t.match(next.headers, { [cacheStatusHeader]: bypass, [version_]: String(sandbox.ledger.head.version) })
  t.equal((JSON.parse(next.body) as { ledger_version: string }).ledger_version, String(sandbox.ledger.head.version))
  t.match(await varve.get('/v1', bcs), {
    status: 200,
    headers: { [cacheStatusHeader]: bypass, 'content-type': 'application/x-bcs' }
  })
  const open = await varveAt(t, sandbox.url, { latest: { indexMs: 0 } })
  for (let nth = 1; nth <= 2; nth++) t.equal((await open.get('/v1')).headers[cacheStatusHeader], bypass)
})

t.test('a 400 for a list start above the head is forwarded only above the served head', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const { version } = sandbox.ledger.head
  await varve.get('/v1')
  sandbox.faults.add({ kind: 'lag', blocks: 5 })
  t.match(await varve.get(`/v1/transactions?start=${version}&limit=1`), {
    status: 503,
    headers: { [version_]: String(version) }
  })
  t.match(await varve.get(`/v1/transactions?start=${version + 1n}&limit=1`), {
    status: 400,
    body: /higher than the current ledger version/
  })
})

t.test('a block whose record in Redis is lost is a miss by height, until it is stored again', async t => {
  const redis = await startRedis(t)
  const admin = { cache: { redis: { url: redis.url, timeoutMs: 2000 } }, admin: { listen: '127.0.0.1:0', token: 't' } }
  const { sandbox, varve: a } = await varveAtSandbox(t, {}, admin)
  const { firstVersion } = sandbox.ledger.block(501)
  const target = '/v1/blocks/by_height/501'
  t.equal((await a.get(target)).headers[cacheStatusHeader], storedMissStatus)
  await untilWritten(a, 1)
  const [record = '', ...others] = (await redis.client.keys('varve:1:* blocks *')).filter(key => / from \d+$/.test(key))
  t.same(others, [])
  await redis.client.del(record)
  const b = await varveAt(t, sandbox.url, admin)
  t.equal((await b.get(target)).headers[cacheStatusHeader], storedMissStatus)
  await until(async () => await redis.client.exists(record) === 1, 'the block is indexed again')
  // A host that learns of a purge late deletes again what it has just written, which may be newer by then.
  await b.stop({ drainMs: 0 })
  const statusAtAnother = async (): Promise<unknown> => {
    const another = await varveAt(t, sandbox.url, admin)
    await until(async () => !/not read/.test(String((await readiness(another)).degraded)), 'it reads from Redis')
    return (await another.get(target)).headers[cacheStatusHeader]
  }
  t.equal(await statusAtAnother(), redisHitStatus)
  await redis.client.del(record)
  t.match(await purge(a, `/v1/blocks/by_version/${firstVersion}`), { status: 200 })
  t.equal((await a.get(target)).headers[cacheStatusHeader], storedMissStatus)
  await untilWritten(a, 2)
  t.equal(await statusAtAnother(), redisHitStatus)
})
