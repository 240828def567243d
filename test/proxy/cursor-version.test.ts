import t, { type Test } from 'tap'
import { makeEntry } from '../../src/cache/entry.js'
import { ResponseBuilder } from '../../src/proxy/response-builder.js'
import { pinCursor, readPinnedCursor } from '../../src/api/pinned-cursor.js'
import { type Sandbox } from '#sandbox'
import { type TestResponse, sendRequest } from '../support/client.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { startRedis } from '../support/redis-server.js'
import { untilWritten } from '../support/replicas.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus, storedMissStatus } from '../support/cache-status.js'
import { respondOk, stamps, startHeldUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const modules = '/v1/accounts/0xcafe/modules'
const pinned = { pages: { pinned: true } }
const families = ['x-node-cursor', 'x-aptos-cursor'] as const
// Exact match, since a pinned cursor ends like a real one.
const real = /^00ab$/
const forwarded = 'varve; fwd=bypass'

/** Walks a listing page by page while the chain grows and changes the listing. */
async function walk (
  varve: TestVarve,
  sandbox: Sandbox,
  first = `${modules}?limit=1`,
  name: string = families[0]
): Promise<TestResponse[]> {
  const pages: TestResponse[] = []
  for (let target: string | undefined = first; target !== undefined;) {
    const page = await varve.get(target)
    pages.push(page)
    sandbox.ledger.grow(150)
    const cursor = page.headers[name]
    target = cursor === undefined ? undefined : `${modules}?limit=1&start=${String(cursor)}`
  }
  return pages
}

const listed = (pages: readonly TestResponse[]): unknown[] => pages.flatMap(({ body }) => JSON.parse(body) as unknown[])
const wholeAt = async (sandbox: Sandbox, version: unknown): Promise<unknown> =>
  JSON.parse((await sendRequest(sandbox.url, `${modules}?ledger_version=${String(version)}`)).body)
const statuses = (pages: readonly TestResponse[]): unknown[] => pages.map(({ headers }) => headers[cacheStatusHeader])

/** Starts an upstream whose page has a next one at every version. */
async function startPageUpstream (t: Test, cursor = '00ab'): Promise<Awaited<ReturnType<typeof startStubUpstream>>> {
  return await startStubUpstream(t, (_request, response) => {
    respondOk(response, '["page"]', { 'x-aptos-cursor': cursor })
  })
}

t.test('a listing without a version is pinned to the version of its first page, and hits next time', async t => {
  for (const name of families) {
    const { sandbox, varve } = await varveAtSandbox(t, {}, pinned)
    const pages = await walk(varve, sandbox, undefined, name)
    const version = pages[0]?.headers['x-node-ledger-version']
    const whole = await wholeAt(sandbox, version)
    t.ok(pages.length > 3)
    t.same(listed(pages), whole)
    t.not(
      String(pages[1]?.headers['x-node-ledger-version']),
      version,
      'the served position is still the present one'
    )
    t.same(statuses(pages), [forwarded, ...pages.slice(1).map(() => storedMissStatus)])
    const before = sandbox.requests.countFor('account_modules')
    const again = await walk(varve, sandbox, `${modules}?limit=1&start=${String(pages[0]?.headers[name])}`, name)
    t.same(listed(again), listed(pages.slice(1)))
    t.same(statuses(again), again.map(() => memoryHitStatus))
    t.equal(sandbox.requests.countFor('account_modules'), before)
  }
})

t.test('without pinned paging a walk is not consistent, and its cursors are the upstream\'s', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const pages = await walk(varve, sandbox)
  t.strictNotSame(listed(pages), await wholeAt(sandbox, pages[0]?.headers['x-node-ledger-version']))
  for (const { headers } of pages.slice(0, -1)) t.equal(readPinnedCursor(String(headers['x-node-cursor'])), undefined)
})

t.test('a pinned cursor works with pinning off, and a real cursor with pinning on', async t => {
  const upstream = await startPageUpstream(t)
  const plain = await varveAt(t, upstream.url)
  t.match(await plain.get(`${modules}?start=${pinCursor(500n, '00cd')}`), {
    status: 200,
    headers: { 'x-node-cursor': pinCursor(500n, '00ab'), 'x-aptos-cursor': pinCursor(500n, '00ab') }
  })
  const pinning = await varveAt(t, upstream.url, pinned)
  t.match(await pinning.get(`${modules}?start=00cd`), {
    status: 200,
    headers: { 'x-node-cursor': pinCursor(1000n, '00ab'), [cacheStatusHeader]: forwarded }
  })
  t.same(upstream.requests.map(target => target.split('?')[1]), ['ledger_version=500&start=00cd', 'start=00cd'])
})

t.test('explicit and pinned reads share an entry, and each gets its own cursor in every outcome', async t => {
  const upstream = await startPageUpstream(t)
  const varve = await varveAt(t, upstream.url, pinned)
  const explicit = `${modules}?ledger_version=500&start=00cd`
  const walked = `${modules}?start=${pinCursor(500n, '00cd')}`
  const own = { 'x-node-cursor': real, 'x-aptos-cursor': real }
  const carried = { 'x-node-cursor': pinCursor(500n, '00ab'), 'x-aptos-cursor': pinCursor(500n, '00ab') }
  t.match(await varve.get(walked), { headers: { ...carried, [cacheStatusHeader]: storedMissStatus } })
  for (let nth = 0; nth < 3; nth++) {
    t.match(await varve.get(explicit), { headers: { ...own, [cacheStatusHeader]: memoryHitStatus }, body: '["page"]' })
    t.match(await varve.get(walked), {
      headers: { ...carried, [cacheStatusHeader]: memoryHitStatus },
      body: '["page"]'
    })
    const beside = await varve.get(`${walked}&ledger_version=500`)
    t.match(beside, { headers: { ...carried, [cacheStatusHeader]: memoryHitStatus } })
    const headers = { 'if-none-match': String(beside.headers.etag) }
    t.match(await varve.get(explicit, { headers }), { status: 304, headers: own })
    t.match(await varve.get(walked, { headers }), { status: 304, headers: carried })
    t.match(await varve.get(explicit, { headers: { 'accept-encoding': 'gzip' } }), { headers: own })
    t.match(await varve.get(walked, { headers: { 'accept-encoding': 'gzip' } }), { headers: carried })
    t.match(await varve.get(walked, { method: 'HEAD' }), { headers: carried, body: '' })
  }
  t.equal(upstream.requests.length, 1)
  t.match(await varve.get(`${walked}&ledger_version=501`), { status: 400, body: /"error_code":"invalid_input"/ })
})

t.test('a miss and the reads coalesced with it get their own cursors', async t => {
  const upstream = await startHeldUpstream(t)
  const varve = await varveAt(t, upstream.url, pinned)
  const targets = [
    `${modules}?ledger_version=500&start=00cd`,
    `${modules}?start=${pinCursor(500n, '00cd')}`,
    `${modules}?start=00cd&ledger_version=0500`
  ]
  const reading = targets.map(async target => await varve.get(target))
  const response = await upstream.next()
  // All have arrived by then.
  await varve.get('/none')
  respondOk(response, '[]', { 'x-aptos-cursor': '00ab' })
  const cursors = (await Promise.all(reading)).map(({ headers }) => headers['x-node-cursor'])
  t.same(cursors, ['00ab', pinCursor(500n, '00ab'), '00ab'])
  t.equal(upstream.requests.length, 1)
})

t.test('a micro-cached response is pinned to its version, and an explicit read has the real cursor', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { ...pinned, latest: { stateMs: 60_000 } })
  const first = await varve.get(`${modules}?limit=1`)
  const version = BigInt(String(first.headers['x-node-ledger-version']))
  sandbox.ledger.grow(5)
  await varve.get('/v1/blocks/by_version/1500')
  for (let nth = 0; nth < 3; nth++) {
    t.match(await varve.get(`${modules}?limit=1`), {
      headers: { [cacheStatusHeader]: memoryHitStatus, 'x-node-cursor': String(first.headers['x-node-cursor']) }
    })
  }
  t.equal(readPinnedCursor(String(first.headers['x-node-cursor']))?.version, version)
  const explicit = await varve.get(`${modules}?ledger_version=${version}&limit=1`)
  t.match(explicit, { body: first.body, headers: { [cacheStatusHeader]: memoryHitStatus } })
  t.equal(explicit.headers['x-node-cursor'], readPinnedCursor(String(first.headers['x-node-cursor']))?.upstreamCursor)
})

t.test('Redis stores the upstream\'s own cursor, so that a walk continues at another replica', async t => {
  const redis = await startRedis(t)
  const upstream = await startPageUpstream(t)
  const pinningVarve = await varveAt(t, upstream.url, { ...pinned, cache: { redis: { url: redis.url } } })
  const plainVarve = await varveAt(t, upstream.url, { cache: { redis: { url: redis.url } } })
  const walked = `${modules}?start=${pinCursor(500n, '00cd')}`
  t.match(await pinningVarve.get(walked), { headers: { 'x-node-cursor': pinCursor(500n, '00ab') } })
  await untilWritten(pinningVarve, 1)
  t.match(await plainVarve.get(walked), {
    headers: { [cacheStatusHeader]: redisHitStatus, 'x-node-cursor': pinCursor(500n, '00ab') }
  })
  t.match(await plainVarve.get(`${modules}?ledger_version=500&start=00cd`), {
    headers: { [cacheStatusHeader]: memoryHitStatus, 'x-node-cursor': real }
  })
})

t.test('in front of a pinning varve real cursors are stored; each varve pins for its own clients', async t => {
  const upstream = await startPageUpstream(t, pinCursor(1000n, '00ab'))
  const plain = await varveAt(t, upstream.url)
  t.match(await plain.get(modules), { headers: { 'x-node-cursor': real } })
  t.match(await plain.get(`${modules}?ledger_version=1000`), {
    headers: { [cacheStatusHeader]: memoryHitStatus, 'x-node-cursor': real }
  })
  t.match(await (await varveAt(t, upstream.url, pinned)).get(modules), {
    headers: { 'x-node-cursor': pinCursor(1000n, '00ab') }
  })
})

t.test('unprintable headers are not prebuilt but rejected per response, pinned or not', async t => {
  const { context } = contextAt(t, (await startPageUpstream(t)).url)
  const entry = makeEntry({
    key: 'k',
    status: 200,
    contentType: 'a\u0001',
    body: Buffer.from('[]'),
    cursorAndGasHeaders: ['x-aptos-cursor', '00ab'],
    release: undefined
  })
  const responseTo = (target: string) =>
    new ResponseBuilder(context, 'off').respond(
      readOfTarget(target),
      { name: 'hit', tier: 'memory', kind: 'history', entry, position: undefined },
      { ifNoneMatch: undefined, acceptEncoding: undefined }
    )
  for (
    const [target, cursor] of [[`${modules}?ledger_version=500`, '00ab'], [
      `${modules}?start=${pinCursor(500n, '00cd')}`,
      pinCursor(500n, '00ab')
    ]] as const
  ) {
    const { headerText, rawHeaders } = responseTo(target)
    t.equal(headerText, undefined)
    t.ok(rawHeaders.includes(cursor))
  }
})

t.test('resource listings are pinned like module listings; a last page and an error are not', async t => {
  const upstream = await startStubUpstream(t, (request, response) => {
    if (request.url?.includes('resources') === true) respondOk(response, '[]', { 'x-aptos-cursor': '00ab' })
    else if (request.url?.includes('2/modules') === true) {
      response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
        '{"message":"m","error_code":"account_not_found","vm_error_code":null}'
      )
    } else respondOk(response, '[]')
  })
  const varve = await varveAt(t, upstream.url, pinned)
  t.equal(
    (await varve.get('/v1/accounts/0x1/resources')).headers['x-node-cursor'],
    `${Buffer.from('varve').toString('hex')}${1000n.toString(16).padStart(16, '0')}00ab`
  )
  t.equal((await varve.get(modules)).headers['x-node-cursor'], undefined)
  t.match(await varve.get('/v1/accounts/0x2/modules'), { status: 404 })
})
