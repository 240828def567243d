import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { tagOf } from '../../../src/cache/entry.js'
import { answerAtHand, answerRead } from '../../../src/proxy/answer-read.js'
import { KnownRead } from '../../../src/proxy/known-read.js'
import { cacheStatusOf, type Outcome } from '../../../src/proxy/outcomes.js'
import { ask } from '../../support/client.js'
import { eventNode, type EventNode, type EventNodeState, handle, stream } from '../../support/event-node.js'
import { partsAt, readOf } from '../../support/parts.js'
import { checkAsync, seeded } from '../../support/properties.js'
import { fromMemory, status, stored } from '../../support/said.js'
import { until } from '../../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../../support/varve.js'

const pruned = 'varve; hit; detail=pruned'
const because = (reason: string): string => `varve; fwd=uri-miss; fwd-status=200; detail=${reason}`
// A latest read of something else, which teaches the position.
const modules = '/v1/accounts/0x42/modules'

async function at (
  t: Test,
  change: Partial<EventNodeState> = {},
  settings: Parameters<typeof varveAt>[2] = {}
): Promise<{ node: EventNode, varve: TestVarve }> {
  const node = await eventNode(t, change)
  const varve = await varveAt(t, node.url, settings)
  return { node, varve }
}

const pageAt = (path: string, start: number, limit: number): string => `${path}?start=${start}&limit=${limit}`

/** Asks for a page and holds it against the node's own; tells what became of it. */
async function said (
  t: Test,
  { node, varve }: { node: EventNode, varve: TestVarve },
  path: string,
  start: number,
  limit: number
): Promise<string> {
  const target = pageAt(path, start, limit)
  const got = await varve.get(target)
  const direct = await ask(node.url, target)
  node.asked.pop()
  t.equal(got.status, direct.status, target)
  t.ok(got.bytes.equals(direct.bytes), `${target} is the node's, byte for byte`)
  if (got.status === 200) {
    t.equal(
      got.headers.etag,
      tagOf(node.state.contentType, direct.bytes),
      'under the tag that it would have if it were read at once'
    )
  }
  return String(got.headers[status])
}

t.test('a page by creation number and the same page by handle are one entry, whichever of them was asked for first', async t => {
  for (const paths of [[handle, stream(7)], [stream(7), handle]] as const) {
    const all = await at(t)
    t.equal(await said(t, all, paths[0], 10, 5), stored)
    // Where the handle leads is not known before it was asked for.
    if (paths[1] === handle) t.equal(await said(t, all, handle, 400, 1), stored)
    t.equal(await said(t, all, paths[1], 10, 5), fromMemory)
    t.equal(all.node.asked.length, paths[1] === handle ? 2 : 1)
    t.equal(await all.varve.metric('varve_cache_entries{tier="memory"}'), all.node.asked.length)
  }
})

t.test('every spelling of an address and a creation number is one read, and what is none is refused', async t => {
  const { node, varve } = await at(t)
  const first = await varve.get(`${stream(7)}?start=3&limit=4`)
  t.equal(first.headers[status], stored)
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
      headers: { [status]: fromMemory }
    }, path)
  }
  t.same(node.asked, [`GET /v1/accounts/${long}/events/7?start=3&limit=4`])
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

t.test('a page is put together from any that have its events between them, overlapping or not, and from a part of one', async t => {
  const all = await at(t)
  for (const [start, limit] of [[0, 40], [40, 10], [45, 30], [200, 100]] as const) {
    t.equal(await said(t, all, handle, start, limit), stored)
  }
  const asked = all.node.asked.length
  for (const [start, limit] of [[0, 75], [10, 5], [39, 2], [39, 11], [49, 26], [74, 1], [250, 50]] as const) {
    for (const path of [handle, stream(7)]) {
      t.equal(await said(t, all, path, start, limit), fromMemory, `${path} ${start} ${limit}`)
    }
  }
  t.equal(all.node.asked.length, asked)
  t.equal(
    await all.varve.metric('varve_requests_total{endpoint="account_events",outcome="hit_memory",status="200"}'),
    7
  )
  for (const [start, limit] of [[74, 2], [199, 2], [70, 100]] as const) {
    t.equal(await said(t, all, handle, start, limit), stored, 'an event that is not kept')
  }
  t.equal(all.node.asked.length, asked + 3)
})

t.test('what was put together is given in coded forms and as not modified like any other page, and its position is the present one', async t => {
  const all = await at(t)
  const { node, varve } = all
  for (const start of [0, 50]) t.equal(await said(t, all, handle, start, 50), stored)
  const body = node.page(20, 50)
  node.state.head = 1_000_500
  await varve.get(modules)
  const target = pageAt(handle, 20, 50)
  t.match(await varve.get(target), { body, headers: { [status]: fromMemory, 'x-node-ledger-version': '1000500' } })
  const { etag = '' } = (await varve.get(target)).headers
  for (let round = 0; round < 3; round++) {
    t.match(await varve.get(target, { headers: { 'if-none-match': etag } }), { status: 304, body: '' })
    const coded = await varve.get(target, { headers: { 'accept-encoding': 'gzip' } })
    t.equal(coded.headers['content-encoding'] === 'gzip' ? gunzipSync(coded.bytes).toString() : coded.body, body)
  }
})

t.test('no page is put together that has more events than a node was seen to give: nodes cut what is more without a word', async t => {
  const all = await at(t, { max: 40 })
  for (const start of [0, 30, 60]) t.equal(await said(t, all, handle, start, 30), stored)
  t.equal(await said(t, all, handle, 10, 31), stored, 'nobody knew yet that it gives so many')
  t.equal(await said(t, all, stream(7), 50, 31), fromMemory)
  for (let round = 0; round < 2; round++) t.equal(await said(t, all, handle, 10, 41), because('short_page'))
  t.equal(await said(t, all, handle, 20, 40), stored)
  t.equal(await said(t, all, handle, 30, 40), fromMemory)
  all.node.state.max = 35
  // As short as that a page is only where the node cut it.
  await all.varve.get(`${handle}?limit=1`)
  t.equal(await said(t, all, handle, 300, 40), because('short_page'))
  t.equal(await said(t, all, handle, 25, 40), because('short_page'), 'it gives fewer now')
  t.equal(await said(t, all, handle, 25, 35), fromMemory)
  t.equal((await all.varve.get(`${handle}?start=30&limit=0`)).status, 400)
  t.equal((await all.varve.get(`${handle}?start=18446744073709551615&limit=40`)).headers[status], because('empty_page'))
})

t.test(`whatever starts and limits come by either path, each answer is the node's, and the node is asked only for what is not kept (${seeded})`, async t => {
  const read = fc.record({
    by: fc.constantFrom(handle, stream(7)),
    start: fc.integer({ min: 0, max: 520 }),
    limit: fc.oneof(fc.integer({ min: 1, max: 130 }), fc.constantFrom(1, 25, 100))
  })
  const near = fc.integer({ min: 0, max: 400 }).chain(from =>
    fc.array(read.map(one => ({ ...one, start: from + one.start % 120 })), { minLength: 20, maxLength: 60 })
  )
  await checkAsync(
    fc.asyncProperty(near, async reads => {
      const { node, varve } = await at(t)
      const events = new Set<number>()
      const whole = new Set<string>()
      let most = 0
      let isNamed = false
      for (const { by, start, limit } of reads) {
        const asked = node.asked.length
        const got = await varve.get(pageAt(by, start, limit))
        const wanted = Array.from({ length: limit }, (_, nth) => start + nth)
        const isKept = (by !== handle || isNamed) &&
          (whole.has(`${start} ${limit}`) || (limit <= most && wanted.every(sequence => events.has(sequence))))
        const page = node.page(start, limit, 7)
        if (got.body !== page) throw new Error(`${by} ${start} ${limit} is not the node's`)
        if ((node.asked.length === asked) !== isKept) {
          throw new Error(
            `${by} ${start} ${limit} was ${isKept ? 'asked for though it is kept' : 'answered from nowhere'}`
          )
        }
        if (isKept !== (got.headers[status] === fromMemory)) {
          throw new Error(`${by} ${start} ${limit}: ${String(got.headers[status])}`)
        }
        const isFull = limit <= 100 && start + limit <= 500
        if (by === handle && page !== '[]') isNamed = true
        if (!isFull) continue
        most = Math.max(most, limit)
        whole.add(`${start} ${limit}`)
        for (const sequence of wanted) events.add(sequence)
      }
      await varve.stop({ drainMs: 0 })
    }),
    6
  )
})

t.test('a handle that is destroyed and made anew with another stream never gives a page of the old one once that was seen, and never one of both', async t => {
  const all = await at(t)
  const { node, varve } = all
  for (const start of [0, 50]) t.equal(await said(t, all, handle, start, 50), stored)
  t.equal(await said(t, all, handle, 25, 50), fromMemory)
  node.state.creation = 8
  t.equal((await varve.get(pageAt(handle, 25, 50))).body, node.page(25, 50, 7), 'nobody has seen it yet')
  t.equal(await said(t, all, handle, 90, 20), stored)
  for (const [start, limit] of [[25, 50], [0, 50], [50, 50]] as const) {
    t.equal(await said(t, all, handle, start, limit), stored, 'of the new one')
  }
  for (const [start, limit] of [[85, 25], [25, 50], [30, 50]] as const) {
    t.equal(await said(t, all, handle, start, limit), fromMemory)
  }
  for (const [start, limit] of [[0, 50], [25, 50], [20, 31]] as const) {
    t.equal(await said(t, all, stream(7), start, limit), fromMemory, 'the old one is history by its own name')
  }
  const asked = node.asked.length
  node.state.creation = undefined
  t.match(await varve.get(pageAt(handle, 600, 5)), { status: 404 })
  t.match(await varve.get(pageAt(handle, 25, 50)), { status: 404 }, 'it leads nowhere')
  t.equal(await said(t, all, stream(8), 25, 50), fromMemory)
  node.state.creation = 7
  t.equal(await said(t, all, handle, 300, 1), stored)
  t.equal(await said(t, all, handle, 25, 50), fromMemory, 'and back again')
  t.equal(node.asked.length, asked + 3)
})

t.test('also the newest events and a page that is not full tell where a handle leads now, and a node that lags does not tell it back', async t => {
  const all = await at(t)
  const { node, varve } = all
  t.equal(await said(t, all, handle, 0, 50), stored)
  for (const [nth, query] of ['', '?limit=2', '?start=490'].entries()) {
    node.state.creation = 8 + nth
    await varve.get(handle + query)
    t.equal(await said(t, all, handle, 0, 50), stored, query)
    // Often enough that what was given is given again without a look.
    for (let round = 0; round < 3; round++) t.equal(await said(t, all, handle, 0, 50), fromMemory)
  }
  node.state.head -= 100
  node.state.creation = 7
  t.equal((await varve.get(pageAt(handle, 100, 5))).body, node.page(100, 5, 7), 'it is given what it says')
  t.equal((await varve.get(pageAt(handle, 0, 50))).body, node.page(0, 50, 10))
  t.equal(await said(t, all, stream(7), 100, 5), fromMemory)
})

t.test('where a handle leads is believed for as long as a page of it, and no page by another path makes that longer', async t => {
  const node = await eventNode(t)
  const clock = { ms: 0 }
  const { parts } = partsAt(t, node.url, clock)
  await parts.settle()
  const get = async (target: string): Promise<Outcome> => await answerRead(parts, readOf(target))
  const wishes = { ifNoneMatch: undefined, acceptEncoding: undefined }
  t.equal(cacheStatusOf(await get(pageAt(handle, 0, 5))), stored)
  clock.ms = parts.settings.eventsTtlMs / 2
  t.equal(cacheStatusOf(await get(pageAt(stream(7), 50, 5))), stored)
  const known = new KnownRead(readOf(pageAt(handle, 50, 5)))
  const hit = answerAtHand(parts, known)
  const reply = { status: 200, lines: [], body: undefined }
  if (hit !== undefined) known.give(parts, hit, wishes, reply)
  t.equal(known.again(parts, wishes), reply, 'given again without a look')
  node.state.creation = 8
  clock.ms = parts.settings.eventsTtlMs + 1
  t.equal(known.again(parts, wishes), undefined)
  t.equal(cacheStatusOf(await get(pageAt(stream(7), 50, 5))), fromMemory)
  const after = await get(pageAt(handle, 50, 5))
  t.equal(cacheStatusOf(after), stored)
  t.equal(after.name === 'miss' && String(after.fetched.answer.body), node.page(50, 5, 8))
})

t.test('a page of parts is pruned where its first event is, whatever else its parts have, and is served or not as an operator chose', async t => {
  for (const serveCached of [true, false]) {
    const all = await at(t, {}, { pruned: { serveCached } })
    const { node, varve } = all
    for (const start of [0, 50]) t.equal(await said(t, all, handle, start, 50), stored)
    node.state.oldest = node.state.versionOf(40)
    await varve.get(modules)
    t.equal(await said(t, all, handle, 40, 50), fromMemory, 'its first event is the oldest that there is')
    const got = await varve.get(pageAt(handle, 39, 50))
    t.match(
      got,
      serveCached ? { status: 200, body: node.page(39, 50), headers: { [status]: pruned } } : { status: 410 }
    )
    t.equal(await varve.metric('varve_pruned_distance_versions_sum{endpoint="account_events"}'), serveCached ? 2 : 0)
    t.equal((await varve.get(pageAt(handle, 39, 50))).status, serveCached ? 200 : 410)
  }
})

t.test('no page is put together of what two releases rendered; one of the old release alone is read afresh, or given as it is where that fails', async t => {
  const all = await at(t, {}, { head: { pollMs: 50 } })
  const { node, varve } = all
  for (const start of [0, 50]) t.equal(await said(t, all, handle, start, 50), stored)
  node.state.release = 'bbbb'
  await until(
    async () => (await varve.get(pageAt(handle, 0, 50))).headers[status] === stored,
    'the old release runs no more'
  )
  t.equal(await said(t, all, stream(7), 30, 40), stored, 'all of it was kept, but not of one release')
  t.equal(await said(t, all, handle, 45, 20), fromMemory, 'what is of today goes first')
  t.equal(await said(t, all, handle, 60, 20), stored, 'read afresh')
  node.state.max = 10
  const old = await varve.get(pageAt(handle, 75, 20))
  t.match(old, { status: 200, headers: { [status]: fromMemory } })
  t.match(old.body, /"by":"aaaa"/)
  t.notMatch(old.body, /"by":"bbbb"/)
})

t.test('what does not stand in one line of events is kept for its own start and limit alone', async t => {
  for (const change of [{ between: ' ' }, { between: '\n' }]) {
    const all = await at(t, change)
    for (const start of [0, 50]) t.equal(await said(t, all, handle, start, 50), stored)
    for (const path of [handle, stream(7)]) t.equal(await said(t, all, path, 0, 50), fromMemory)
    t.equal(await said(t, all, handle, 10, 5), stored)
  }
})

t.test('a page whose guid cannot be told is kept for the path of its handle, and for no creation number', async t => {
  const all = await at(t, { account: 'one' })
  for (const start of [0, 50]) t.equal(await said(t, all, handle, start, 50), stored)
  t.equal(await said(t, all, handle, 0, 50), fromMemory)
  t.equal(await said(t, all, handle, 10, 5), stored)
  for (let round = 0; round < 2; round++) t.equal(await said(t, all, stream(7), 0, 50), because('unreadable'))
})

t.test('an answer by creation number of another stream is not kept, and teaches nothing', async t => {
  const all = await at(t, { account: '0x2' })
  for (let round = 0; round < 2; round++) t.equal(await said(t, all, stream(7), 0, 50), because('unreadable'))
  t.equal(await said(t, all, stream(7), 480, 50), because('unreadable'))
  t.equal(await said(t, all, stream(7), 600, 50), because('empty_page'))
  t.equal(await said(t, all, handle, 0, 50), stored)
})

t.test('parts of two content types, or in which versions fall from one to the other, are not put together', async t => {
  const all = await at(t)
  t.equal(await said(t, all, handle, 0, 50), stored)
  all.node.state.contentType = 'application/json'
  t.equal(await said(t, all, handle, 50, 50), stored)
  t.equal(await said(t, all, handle, 60, 30), fromMemory)
  t.equal(await said(t, all, handle, 30, 40), stored)
  const others = await at(t)
  t.equal(await said(t, others, handle, 0, 50), stored)
  others.node.state.versionOf = sequence => 900 + sequence
  t.equal(await said(t, others, handle, 50, 50), stored)
  t.equal((await others.varve.get(pageAt(handle, 30, 40))).headers[status], stored)
})

t.test('an observing varve counts what would have been put together as a hit, and asks all the same', async t => {
  const { node, varve } = await at(t, {}, { mode: 'observe' })
  for (const start of [0, 50]) await varve.get(pageAt(handle, start, 50))
  t.equal((await varve.get(pageAt(handle, 30, 40))).headers[status], 'varve; fwd=bypass; detail=would-hit')
  t.equal((await varve.get(pageAt(stream(7), 31, 40))).headers[status], 'varve; fwd=bypass; detail=would-hit')
  t.equal(node.asked.length, 4)
})

t.test('what was put together is audited as a whole; where it is not what the node says, all parts of it are forgotten', async t => {
  const { node, varve } = await at(t, {}, { audit: { share: 1 } })
  for (const start of [0, 50, 100]) await varve.get(pageAt(handle, start, 50))
  const audited = async (result: string): Promise<number> =>
    await varve.metric(`varve_audit_total{result="${result}"}`) ?? 0
  // One of two or of three hits is drawn at a share of one.
  const hitUntil = async (target: string, result: string): Promise<void> => {
    await until(async () => {
      await varve.get(target)
      return await audited(result) > 0
    }, result)
  }
  await hitUntil(pageAt(stream(7), 30, 40), 'equal')
  node.state.versionOf = sequence => 1001 + sequence * 2
  await hitUntil(pageAt(stream(7), 30, 40), 'different')
  const asked = node.asked.length
  for (const start of [0, 50]) t.equal((await varve.get(pageAt(handle, start, 50))).body, node.page(start, 50))
  t.ok(node.asked.length >= asked + 2)
  t.equal(
    (await varve.get(pageAt(handle, 110, 5))).headers[status],
    fromMemory,
    'what has nothing in common with it stays'
  )
})

t.test(`over the embedded node, while it grows and a coin store is made anew, each page by either path is what the node says or said of that stream (${seeded})`, async t => {
  const deposits = '/v1/accounts/0xcafe/events/0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E/deposit_events'
  const page = fc.record({
    handled: fc.boolean(),
    start: fc.integer({ min: 0, max: 60 }),
    limit: fc.integer({ min: 1, max: 30 })
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
        const [path, asked] = [handled ? deposits : '/v1/accounts/0xcafe/events/2', sandbox.asked.total]
        const got = await varve.get(pageAt(path, start, limit))
        const isHit = got.headers[status] === fromMemory
        if (isHit !== (sandbox.asked.total === asked)) {
          throw new Error(
            `${path} ${start} ${limit}: ${String(got.headers[status])} with ${sandbox.asked.total - asked} reads`
          )
        }
        const direct = await ask(sandbox.url, pageAt(path, start, limit))
        const events = got.status === 200 ? JSON.parse(got.body) as Array<{ guid: { creation_number: string } }> : []
        const numbers = new Set(events.map(({ guid }) => guid.creation_number))
        if (numbers.size > 1) throw new Error(`${path} ${start} ${limit} mixes two streams`)
        const [number = ''] = numbers
        // A kept page of where the handle led is what its stream says by its own name.
        const truth = isHit
          ? await ask(sandbox.url, pageAt(`/v1/accounts/0xcafe/events/${number}`, start, limit))
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

t.test('pages that cost no node anything push nothing out of memory that did', async t => {
  const node = await eventNode(t, { count: 1000 })
  const varve = await varveAt(t, node.url, { cache: { memory: { maxMb: 2 } } })
  const history = '/v1/accounts/0x5/resources?ledger_version=100'
  await varve.get(history)
  t.equal((await varve.get(history)).headers[status], fromMemory)
  for (let start = 0; start < 1000; start += 100) await varve.get(pageAt(stream(7), start, 100))
  const asked = node.asked.length
  for (let start = 100; start < 120; start++) {
    for (let limit = 91; limit <= 100; limit++) await varve.get(pageAt(stream(7), start, limit))
  }
  t.equal(node.asked.length, asked, 'all of them were put together')
  t.equal((await varve.get(history)).headers[status], fromMemory)
})
