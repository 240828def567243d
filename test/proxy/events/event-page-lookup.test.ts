import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { etagOf } from '../../../src/cache/entry.js'
import { serveFromMemory, serveRead } from '../../../src/proxy/serve-read.js'
import { ParsedRequest } from '../../../src/proxy/parsed-request.js'
import { cacheStatusOf, type Outcome } from '../../../src/proxy/outcomes.js'
import { sendRequest } from '../../support/client.js'
import {
  startEventUpstream,
  type EventUpstream,
  type EventUpstreamState,
  handlePath,
  streamPath
} from '../../support/event-upstream.js'
import { contextAt, readOfTarget } from '../../support/proxy-context.js'
import { checkAsync, seedTitle } from '../../support/properties.js'
import { memoryHitStatus, cacheStatusHeader, storedMissStatus } from '../../support/cache-status.js'
import { until } from '../../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../../support/varve.js'

const pruned = 'varve; hit; detail=pruned'
const because = (reason: string): string => `varve; fwd=uri-miss; fwd-status=200; detail=${reason}`
// A latest read of something else, which teaches the position.
const modules = '/v1/accounts/0x42/modules'

async function at (
  t: Test,
  change: Partial<EventUpstreamState> = {},
  settings: Parameters<typeof varveAt>[2] = {}
): Promise<{ node: EventUpstream, varve: TestVarve }> {
  const node = await startEventUpstream(t, change)
  const varve = await varveAt(t, node.url, settings)
  return { node, varve }
}

const pageAt = (path: string, start: number, limit: number): string => `${path}?start=${start}&limit=${limit}`

/** Asks for a page and holds it against the node's own; tells what became of it. */
async function said (
  t: Test,
  { node, varve }: { node: EventUpstream, varve: TestVarve },
  path: string,
  start: number,
  limit: number
): Promise<string> {
  const target = pageAt(path, start, limit)
  const got = await varve.get(target)
  const direct = await sendRequest(node.url, target)
  node.requests.pop()
  t.equal(got.status, direct.status, target)
  t.ok(got.bytes.equals(direct.bytes), `${target} is the node's, byte for byte`)
  if (got.status === 200) {
    t.equal(
      got.headers.etag,
      etagOf('application/json; charset=utf-8', direct.bytes),
      'under the tag that it would have if it were read at once'
    )
  }
  return String(got.headers[cacheStatusHeader])
}

t.test('a page by creation number and the same page by handle are one entry, whichever of them was asked for first', async t => {
  for (const paths of [[handlePath, streamPath(7)], [streamPath(7), handlePath]] as const) {
    const all = await at(t)
    t.equal(await said(t, all, paths[0], 10, 5), storedMissStatus)
    // Where the handle leads is not known before it was asked for.
    if (paths[1] === handlePath) t.equal(await said(t, all, handlePath, 400, 1), storedMissStatus)
    t.equal(await said(t, all, paths[1], 10, 5), memoryHitStatus)
    t.equal(all.node.requests.length, paths[1] === handlePath ? 2 : 1)
    t.equal(await all.varve.metric('varve_cache_entries{tier="memory"}'), all.node.requests.length)
  }
})

t.test('every spelling of an address and a creation number is one read, and what is none is refused', async t => {
  const { node, varve } = await at(t)
  const first = await varve.get(`${streamPath(7)}?start=3&limit=4`)
  t.equal(first.headers[cacheStatusHeader], storedMissStatus)
  const long = `0x${'1'.padStart(64, '0')}`
  for (
    const path of [
      '/v1/accounts/1/events/007',
      `/v1/accounts/${long}/events/+7`,
      '/v1/accounts/0x01/events/%2537',
      '/v1/accounts/%30x1/events/%37'
    ]
  ) {
    t.match(await varve.get(`${path}?limit=4&start=03`), {
      status: 200,
      body: first.body,
      headers: { [cacheStatusHeader]: memoryHitStatus }
    }, path)
  }
  t.same(node.requests, [`GET /v1/accounts/${long}/events/7?start=3&limit=4`])
  for (const creation of ['-1', '0x7', '', ' 7', '18446744073709551616', '7.0', 'a']) {
    t.equal((await varve.get(`/v1/accounts/0x1/events/${encodeURIComponent(creation)}?start=3`)).status, 400, creation)
  }
  t.equal((await varve.get('/v1/accounts/0x1/events/7', { method: 'POST', body: '{}' })).status, 405)
  t.equal(
    await varve.metric('varve_requests_total{endpoint="events_by_creation_number",outcome="hit_memory",status="200"}'),
    4
  )
  t.equal(
    await varve.metric('varve_requests_total{endpoint="events_by_creation_number",outcome="miss",status="200"}'),
    1
  )
})

t.test('a page is found by its own start and limit alone, by both paths of its stream', async t => {
  const all = await at(t)
  const pages = [[0, 40], [40, 10], [45, 30], [200, 100]] as const
  for (const [start, limit] of pages) t.equal(await said(t, all, handlePath, start, limit), storedMissStatus)
  for (const [start, limit] of pages) {
    for (const path of [handlePath, streamPath(7)]) t.equal(await said(t, all, path, start, limit), memoryHitStatus)
  }
  t.equal(all.node.requests.length, pages.length)
  for (const [start, limit] of [[0, 75], [10, 5], [40, 9], [41, 9], [250, 50]] as const) {
    t.equal(
      await said(t, all, handlePath, start, limit),
      storedMissStatus,
      `other pages have all events of ${start} ${limit}`
    )
  }
  t.equal(all.node.requests.length, pages.length + 5)
})

t.test('a page found by its other path is coded, revalidated with 304, and bears the present position', async t => {
  const all = await at(t)
  const { node, varve } = all
  t.equal(await said(t, all, handlePath, 20, 50), storedMissStatus)
  const body = node.page(20, 50)
  node.state.head = 1_000_500
  await varve.get(modules)
  const target = pageAt(streamPath(7), 20, 50)
  t.match(await varve.get(target), {
    body,
    headers: { [cacheStatusHeader]: memoryHitStatus, 'x-node-ledger-version': '1000500' }
  })
  const { etag = '' } = (await varve.get(target)).headers
  for (let round = 0; round < 3; round++) {
    t.match(await varve.get(target, { headers: { 'if-none-match': etag } }), { status: 304, body: '' })
    const coded = await varve.get(target, { headers: { 'accept-encoding': 'gzip' } })
    t.equal(coded.headers['content-encoding'] === 'gzip' ? gunzipSync(coded.bytes).toString() : coded.body, body)
  }
})

t.test(`whatever starts and limits come by either path, each answer is the node's, and the node is asked only for what is not kept (${seedTitle})`, async t => {
  const read = fc.record({
    by: fc.constantFrom(handlePath, streamPath(7)),
    start: fc.integer({ min: 0, max: 5 }),
    limit: fc.constantFrom(1, 25, 100, 130)
  })
  const near = fc.integer({ min: 0, max: 520 }).chain(from =>
    fc.array(read.map(one => ({ ...one, start: from + one.start })), { minLength: 20, maxLength: 60 })
  )
  await checkAsync(
    fc.asyncProperty(near, async reads => {
      const { node, varve } = await at(t)
      const whole = new Set<string>()
      let isNamed = false
      for (const { by, start, limit } of reads) {
        const asked = node.requests.length
        const got = await varve.get(pageAt(by, start, limit))
        const isKept = (by !== handlePath || isNamed) && whole.has(`${start} ${limit}`)
        const page = node.page(start, limit, 7)
        if (got.body !== page) throw new Error(`${by} ${start} ${limit} is not the node's`)
        if ((node.requests.length === asked) !== isKept) {
          throw new Error(
            `${by} ${start} ${limit} was ${isKept ? 'asked for though it is kept' : 'answered from nowhere'}`
          )
        }
        if (isKept !== (got.headers[cacheStatusHeader] === memoryHitStatus)) {
          throw new Error(`${by} ${start} ${limit}: ${String(got.headers[cacheStatusHeader])}`)
        }
        if (by === handlePath && page !== '[]') isNamed = true
        if (limit <= 100 && start + limit <= 500) whole.add(`${start} ${limit}`)
      }
      await varve.stop({ drainMs: 0 })
    }),
    6
  )
})

t.test('a handle that is destroyed and made anew with another stream never gives a page of the old one once that was seen', async t => {
  const all = await at(t)
  const { node, varve } = all
  for (const start of [0, 50]) t.equal(await said(t, all, handlePath, start, 50), storedMissStatus)
  node.state.creation = 8
  t.equal((await varve.get(pageAt(handlePath, 0, 50))).body, node.page(0, 50, 7), 'no response has shown it yet')
  t.equal(await said(t, all, handlePath, 90, 20), storedMissStatus)
  for (const start of [0, 50]) t.equal(await said(t, all, handlePath, start, 50), storedMissStatus, 'of the new one')
  for (const start of [0, 50]) {
    t.equal(await said(t, all, handlePath, start, 50), memoryHitStatus)
    t.equal(await said(t, all, streamPath(7), start, 50), memoryHitStatus, 'the old one is history by its own name')
  }
  const asked = node.requests.length
  node.state.creation = undefined
  t.match(await varve.get(pageAt(handlePath, 600, 5)), { status: 404 })
  t.match(await varve.get(pageAt(handlePath, 0, 50)), { status: 404 }, 'it leads nowhere')
  t.equal(await said(t, all, streamPath(8), 0, 50), memoryHitStatus)
  node.state.creation = 7
  t.equal(await said(t, all, handlePath, 300, 1), storedMissStatus)
  t.equal(await said(t, all, handlePath, 0, 50), memoryHitStatus, 'and back again')
  t.equal(node.requests.length, asked + 3)
})

t.test('also the newest events and a page that is not full tell where a handle leads now, and a node that lags does not tell it back', async t => {
  const all = await at(t)
  const { node, varve } = all
  t.equal(await said(t, all, handlePath, 0, 50), storedMissStatus)
  for (const [nth, query] of ['', '?limit=2', '?start=490'].entries()) {
    node.state.creation = 8 + nth
    await varve.get(handlePath + query)
    t.equal(await said(t, all, handlePath, 0, 50), storedMissStatus, query)
    // Often enough that what was given is given again without a look.
    for (let round = 0; round < 3; round++) t.equal(await said(t, all, handlePath, 0, 50), memoryHitStatus)
  }
  node.state.head -= 100
  node.state.creation = 7
  t.equal((await varve.get(pageAt(handlePath, 100, 5))).body, node.page(100, 5, 7), 'it is given what it says')
  t.equal((await varve.get(pageAt(handlePath, 0, 50))).body, node.page(0, 50, 10))
  t.equal(await said(t, all, streamPath(7), 100, 5), memoryHitStatus)
})

t.test('where a handle leads is believed for as long as a page of it, and no page by another path makes that longer', async t => {
  const node = await startEventUpstream(t)
  const clock = { ms: 0 }
  const { context } = contextAt(t, node.url, clock)
  await context.resolveChain()
  const get = async (target: string): Promise<Outcome> => await serveRead(context, readOfTarget(target))
  const wishes = { ifNoneMatch: undefined, acceptEncoding: undefined }
  t.equal(cacheStatusOf(await get(pageAt(handlePath, 0, 5))), storedMissStatus)
  clock.ms = context.settings.eventsTtlMs / 2
  t.equal(cacheStatusOf(await get(pageAt(streamPath(7), 50, 5))), storedMissStatus)
  const known = new ParsedRequest(readOfTarget(pageAt(handlePath, 50, 5)))
  const hit = serveFromMemory(context, known)
  const reply = { status: 200, rawHeaders: [], body: undefined }
  if (hit !== undefined) known.memoise(context, hit, wishes, reply)
  t.equal(known.getMemo(context, wishes), reply, 'given again without a look')
  node.state.creation = 8
  clock.ms = context.settings.eventsTtlMs + 1
  t.equal(known.getMemo(context, wishes), undefined)
  t.equal(cacheStatusOf(await get(pageAt(streamPath(7), 50, 5))), memoryHitStatus)
  const after = await get(pageAt(handlePath, 50, 5))
  t.equal(cacheStatusOf(after), storedMissStatus)
  t.equal(after.name === 'miss' && String(after.fetched.response.body), node.page(50, 5, 8))
})

t.test('a page is pruned where its first event is, by both paths, and is served or not as an operator chose', async t => {
  for (const serveCached of [true, false]) {
    const all = await at(t, {}, { pruned: { serveCached } })
    const { node, varve } = all
    for (const start of [39, 40]) t.equal(await said(t, all, handlePath, start, 50), storedMissStatus)
    node.state.oldest = node.state.versionOf(40)
    await varve.get(modules)
    t.equal(await said(t, all, handlePath, 40, 50), memoryHitStatus, 'its first event is the oldest that there is')
    const got = await varve.get(pageAt(handlePath, 39, 50))
    t.match(
      got,
      serveCached ? { status: 200, body: node.page(39, 50), headers: { [cacheStatusHeader]: pruned } } : { status: 410 }
    )
    t.equal(await varve.metric('varve_pruned_distance_versions_sum{endpoint="account_events"}'), serveCached ? 2 : 0)
    t.equal((await varve.get(pageAt(streamPath(7), 39, 50))).status, serveCached ? 200 : 410)
  }
})

t.test('a page of an old release is read again by both paths, or given as it is where that fails', async t => {
  const all = await at(t, {}, { head: { pollMs: 50 } })
  const { node, varve } = all
  for (const start of [0, 50, 100]) t.equal(await said(t, all, handlePath, start, 50), storedMissStatus)
  node.state.release = 'bbbb'
  await until(
    async () => (await varve.get(pageAt(handlePath, 0, 50))).headers[cacheStatusHeader] === storedMissStatus,
    'the old release runs no more'
  )
  t.equal(await said(t, all, streamPath(7), 50, 50), storedMissStatus)
  t.equal(await said(t, all, handlePath, 50, 50), memoryHitStatus)
  node.state.max = 10
  const old = await varve.get(pageAt(streamPath(7), 100, 50))
  t.match(old, { status: 200, headers: { [cacheStatusHeader]: memoryHitStatus } })
  t.match(old.body, /"by":"aaaa"/)
})

t.test('a page whose guid cannot be told is kept for the path of its handle, and for no creation number', async t => {
  const all = await at(t, { account: 'one' })
  t.equal(await said(t, all, handlePath, 0, 50), storedMissStatus)
  t.equal(await said(t, all, handlePath, 0, 50), memoryHitStatus)
  for (let round = 0; round < 2; round++) t.equal(await said(t, all, streamPath(7), 0, 50), because('unreadable'))
})

t.test('an answer by creation number of another stream is not kept, and teaches nothing', async t => {
  const all = await at(t, { account: '0x2' })
  for (let round = 0; round < 2; round++) t.equal(await said(t, all, streamPath(7), 0, 50), because('unreadable'))
  t.equal(await said(t, all, streamPath(7), 480, 50), because('unreadable'))
  t.equal(await said(t, all, streamPath(7), 600, 50), because('empty_page'))
  t.equal(await said(t, all, handlePath, 0, 50), storedMissStatus)
})

t.test('an observing varve counts a page by its other path as a hit, and asks all the same', async t => {
  const { node, varve } = await at(t, {}, { mode: 'observe' })
  await varve.get(pageAt(handlePath, 0, 50))
  for (const path of [handlePath, streamPath(7)]) {
    t.equal((await varve.get(pageAt(path, 0, 50))).headers[cacheStatusHeader], 'varve; fwd=bypass; detail=would-hit')
  }
  t.equal(node.requests.length, 3)
})

t.test('a page that the audit finds different takes every page with any of its events with it', async t => {
  const { node, varve } = await at(t, {}, { audit: { share: 1 } })
  for (const [start, limit] of [[0, 50], [50, 50], [30, 40], [110, 5]] as const) {
    await varve.get(pageAt(handlePath, start, limit))
  }
  const audited = async (result: string): Promise<number> =>
    await varve.metric(`varve_audit_total{result="${result}"}`) ?? 0
  // One of two or of three hits is drawn at a share of one.
  const hitUntil = async (target: string, result: string): Promise<void> => {
    await until(async () => {
      await varve.get(target)
      return await audited(result) > 0
    }, result)
  }
  await hitUntil(pageAt(streamPath(7), 30, 40), 'equal')
  node.state.versionOf = sequence => 1001 + sequence * 2
  await hitUntil(pageAt(streamPath(7), 30, 40), 'different')
  const asked = node.requests.length
  for (const start of [0, 50]) t.equal((await varve.get(pageAt(handlePath, start, 50))).body, node.page(start, 50))
  t.ok(node.requests.length >= asked + 2)
  t.equal(
    (await varve.get(pageAt(handlePath, 110, 5))).headers[cacheStatusHeader],
    memoryHitStatus,
    'what has nothing in common with it stays'
  )
})

t.test(`over the embedded node, while it grows and a coin store is made anew, each page by either path is what the node says or said of that stream (${seedTitle})`, async t => {
  const deposits = '/v1/accounts/0xcafe/events/0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E/deposit_events'
  const page = fc.record({
    handled: fc.boolean(),
    start: fc.constantFrom(0, 7, 30, 60),
    limit: fc.constantFrom(1, 10, 30)
  })
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ page }) },
    fc.record({ grow: fc.integer({ min: 1, max: 40 }) })
  )
  await checkAsync(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 50 }), async steps => {
      const { sandbox, varve } = await varveAtSandbox(t, { blocks: 150, remaking: { goneAt: 170, backAt: 175 } })
      const said = new Set<string>()
      for (const done of steps) {
        if ('grow' in done) {
          sandbox.ledger.grow(done.grow)
          continue
        }
        const { handled, start, limit } = done.page
        const [path, asked] = [handled ? deposits : '/v1/accounts/0xcafe/events/2', sandbox.requests.total]
        const got = await varve.get(pageAt(path, start, limit))
        const isHit = got.headers[cacheStatusHeader] === memoryHitStatus
        if (isHit !== (sandbox.requests.total === asked)) {
          throw new Error(
            `${path} ${start} ${limit}: ${String(got.headers[cacheStatusHeader])} with ${
              sandbox.requests.total - asked
            } reads`
          )
        }
        const direct = await sendRequest(sandbox.url, pageAt(path, start, limit))
        const events = got.status === 200 ? JSON.parse(got.body) as Array<{ guid: { creation_number: string } }> : []
        const numbers = new Set(events.map(({ guid }) => guid.creation_number))
        if (numbers.size > 1) throw new Error(`${path} ${start} ${limit} mixes two streams`)
        const [number = ''] = numbers
        // A kept page of where the handle led is what its stream says by its own name.
        const truth = isHit
          ? await sendRequest(sandbox.url, pageAt(`/v1/accounts/0xcafe/events/${number}`, start, limit))
          : direct
        if (got.body !== truth.body) {
          throw new Error(`${path} ${start} ${limit}: ${got.body.slice(0, 200)} is not ${truth.body.slice(0, 200)}`)
        }
        if (!handled) continue
        // Once a later life was shown no page of an earlier one is.
        if (number !== '' && said.has(number) && [...said].at(-1) !== number) throw new Error('the handle led back')
        if (number !== '') said.add(number)
      }
      await Promise.all([varve.stop({ drainMs: 0 }), sandbox.close()])
    }),
    8
  )
})
