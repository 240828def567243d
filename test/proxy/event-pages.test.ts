import t from 'tap'
import { cacheStatusOf, type Outcome, outcomeNameOf } from '../../src/proxy/outcomes.js'
import { type PrunedEventsMode, type Sandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { bodyOf, contextAtSandbox as proxyAt } from '../support/proxy-context.js'
import { handlePath, respondOk, startEventUpstream, startStubUpstream, streamPath } from '../support/stub-upstream.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const token = 't0ken'

const status = 'cache-status'
const version_ = 'x-node-ledger-version'
const hit = 'varve; hit; detail=memory'
const stored = 'varve; fwd=uri-miss; fwd-status=200; stored'
const bypass = 'varve; fwd=bypass'
const because = (reason: string, code = 200): string => `varve; fwd=uri-miss; fwd-status=${code}; detail=${reason}`
const bcs = { headers: { accept: 'application/x-bcs' } }

// One event per block, numbered by height; the sandbox is at height 999.
const blocks = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const deposits = '/v1/accounts/0xcafe/events/0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E/deposit_events'
const withdrawals = deposits.replace('deposit_', 'withdraw_')
// Latest read of another endpoint, which moves the position on.
const modules = '/v1/accounts/0x42/modules'
const requestCountOf = (sandbox: Sandbox): number => sandbox.requests.countFor('account_events')
const versionIn = (outcome: Outcome): bigint | undefined => outcome.position?.head.version
const countIn = (body: string): number => (JSON.parse(body) as unknown[]).length
/** Gives a pending request time to read its state. */
const eventLoopTurn = async (): Promise<void> => {
  await new Promise(resolve => {
    setImmediate(resolve)
  })
}
const counted = async (varve: TestVarve, outcome: string, code = 200): Promise<number | undefined> =>
  await varve.metric(`varve_requests_total{endpoint="account_events",outcome="${outcome}",status="${code}"}`)

t.test('a page is cached for the configured time, and read again afterwards', async t => {
  const { sandbox, clock, get, missed } = await proxyAt(t, {}, { pages: { eventsTtlSeconds: 60 } })
  const names: string[] = []
  for (const ms of [0, 1, 59_999, 60_000, 119_999, 120_000]) {
    clock.ms = ms
    names.push(outcomeNameOf(await get(`${deposits}?start=100&limit=3`)))
  }
  t.same(names, ['miss', 'hit_memory', 'hit_memory', 'miss', 'hit_memory', 'miss'])
  t.same(missed, ['first', 'expired', 'expired'])
  t.equal(requestCountOf(sandbox), 3)
})

t.test('a missing limit counts as 25, and all request variants share one entry', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { eventsDefault: 10 })
  const first = await varve.get(`${deposits}?start=100`)
  t.match(first, { headers: { [status]: stored } })
  t.equal(countIn(first.body), 25, 'whatever the upstream\'s default is')
  const long = `/v1/accounts/0x${'cafe'.padStart(64, '0')}/events`
  const spelled = [
    `${deposits}?start=100&limit=25`,
    `${deposits}?limit=025&start=%2B0100`,
    `${deposits}?x=y&start=100`,
    `${long}/0x01::coin::CoinStore%3C0X1::aptos_coin::AptosCoin%3E/deposit_events?start=100`,
    `/v1/accounts/CAFE/events/${
      encodeURIComponent(encodeURIComponent(' 0x1 :: coin::CoinStore< 0x01::aptos_coin::AptosCoin >'))
    }/deposit%5Fevents?start=100`
  ]
  for (const target of spelled) {
    t.match(await varve.get(target), { status: 200, body: first.body, headers: { [status]: hit } }, target)
  }
  t.same(
    sandbox.requests.latest.filter(({ endpoint }) => endpoint === 'account_events').map(({ url }) =>
      new URL(url, 'http://n').search
    ),
    ['?start=100&limit=25']
  )
})

t.test('pages by handle and by creation number are two entries, hit by their start and limit', async t => {
  const upstream = await startEventUpstream(t)
  const varve = await varveAt(t, upstream.url, { admin: { listen: '127.0.0.1:0', token } })
  const statusOf = async (target: string): Promise<unknown> => {
    const got = await varve.get(target)
    const [, path = '', start = '', limit = ''] = /(.*)\?start=(\d+)&limit=(\d+)/.exec(target) ?? []
    t.equal(got.body, upstream.page(Number(start), Number(limit), path === streamPath(7) ? 7 : undefined), target)
    return got.headers[status]
  }
  const pages = [handlePath, streamPath(7)].flatMap(path =>
    ['start=0&limit=40', 'start=40&limit=10', 'start=45&limit=30'].map(query => `${path}?${query}`)
  )
  for (const page of pages) t.equal(await statusOf(page), stored, page)
  for (const page of pages) t.equal(await statusOf(page), hit, page)
  for (const query of ['start=0&limit=75', 'start=10&limit=5', 'start=40&limit=9']) {
    t.equal(await statusOf(`${handlePath}?${query}`), stored, `not assembled from other pages: ${query}`)
  }
  const [purged, ...others] = pages
  t.match(
    await sendRequest(varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ url: purged })
    }),
    { status: 200, body: /"purged":true/ }
  )
  for (const page of others) t.equal(await statusOf(page), hit, `a purge names the page that it purges: ${page}`)
  t.equal(await statusOf(String(purged)), stored)
})

t.test('a page whose guid is not of its creation number is not stored; by handle it is', async t => {
  for (const account of ['one', '0x2']) {
    const upstream = await startEventUpstream(t, { account })
    const varve = await varveAt(t, upstream.url)
    for (const start of [0, 480]) {
      for (let round = 0; round < 2; round++) {
        t.match(await varve.get(`${streamPath(7)}?start=${start}&limit=50`), {
          headers: { [status]: because('unreadable') }
        })
      }
    }
    t.match(await varve.get(`${streamPath(7)}?start=600&limit=50`), { headers: { [status]: because('empty_page') } })
    for (const cacheStatus of [stored, hit]) {
      t.match(await varve.get(`${handlePath}?start=0&limit=50`), { headers: { [status]: cacheStatus } })
    }
  }
})

t.test('a recreated handle keeps its full pages until they expire, and ends with its new stream', async t => {
  const upstream = await startEventUpstream(t)
  const varve = await varveAt(t, upstream.url)
  const page = (start: number): string => `${handlePath}?start=${start}&limit=5`
  const statusOf = async (target: string): Promise<unknown> => (await varve.get(target)).headers[status]
  t.equal(await statusOf(page(0)), stored)
  await varve.get(handlePath)
  upstream.state.count = 20
  for (const creation of [8, 9, 10]) {
    t.equal(await statusOf(page(300)), because('pruned_page'), 'events of the old stream are known')
    upstream.state.creation = creation
    // Shows the new stream by its newest events, by a page, or by the lack of any.
    if (creation === 8) await varve.get(handlePath)
    if (creation === 9) await varve.get(page(15))
    if (creation === 10) {
      upstream.state.creation = undefined
      t.equal((await varve.get(page(300))).status, 404)
      upstream.state.creation = creation
    }
    t.equal(await statusOf(page(300)), because('empty_page'), String(creation))
    t.equal(await statusOf(page(0)), hit)
    upstream.state.count = 500
    await varve.get(handlePath)
    upstream.state.count = 20
  }
  const { head } = upstream.state
  Object.assign(upstream.state, { head: 1100, creation: 7 })
  t.equal(await statusOf(page(10)), stored)
  upstream.state.head = head
  t.equal(await statusOf(page(300)), because('pruned_page'), 'a lagging upstream does not change it')
})

t.test('anything but a full page from a start is fetched each time, with the reason', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const head = String(sandbox.ledger.head.version)
  const cases: [string, object, string, string, number?][] = [
    [`${blocks}?start=990&limit=50`, {}, because('short_page'), 'miss'],
    [`${blocks}?start=500&limit=101`, {}, because('short_page'), 'miss'],
    [`${blocks}?start=500&limit=65535`, {}, because('short_page'), 'miss'],
    [`${blocks}?start=1000`, {}, because('empty_page'), 'miss'],
    [`${blocks}?start=18446744073709551615&limit=1`, {}, because('empty_page'), 'miss'],
    [`${withdrawals}?start=0`, {}, because('empty_page'), 'miss'],
    [`${blocks}?start=500&limit=0`, {}, because('status', 400), 'miss', 400],
    [`${blocks.replace('new_block', 'no')}?start=500`, {}, because('status', 404), 'miss', 404],
    [blocks, {}, bypass, 'forwarded'],
    [`${blocks}?limit=5`, {}, bypass, 'forwarded'],
    [`${blocks}?start=500&limit=5`, bcs, bypass, 'forwarded'],
    [`${blocks}?start=500`, bcs, bypass, 'forwarded']
  ]
  for (const [target, how, cacheStatus, outcome, code = 200] of cases) {
    const direct = await sendRequest(sandbox.url, target, how)
    const before = [requestCountOf(sandbox), await counted(varve, outcome, code) ?? 0]
    for (let round = 0; round < 2; round++) {
      const got = await varve.get(target, how)
      t.match(
        got,
        { status: code, headers: { [status]: cacheStatus, [version_]: head, 'cache-control': 'no-store' } },
        target
      )
      t.same(got.bytes, direct.bytes)
    }
    t.same(
      [requestCountOf(sandbox), await counted(varve, outcome, code)],
      [(before[0] ?? 0) + 2, (before[1] ?? 0) + 2],
      target
    )
  }
  t.equal(await varve.metric('varve_not_stored_total{endpoint="account_events",reason="short_page"}'), 6)
  t.equal(await varve.metric('varve_not_stored_total{endpoint="account_events",reason="empty_page"}'), 6)
  t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 0)
  sandbox.faults.add({
    kind: 'error',
    code: 'internal_error',
    message: 'ledger version too new',
    match: 'account_events',
    times: 1
  })
  t.match(await varve.get(`${blocks}?start=500&limit=5`), {
    status: 500,
    body: /too new/,
    headers: { [status]: because('status', 500) }
  })
  t.equal(
    await varve.metric('varve_pruned_requests_total{endpoint="account_events",answer="upstream"}'),
    0,
    'neither a stream end nor an upstream error counts as pruned'
  )
})

t.test('a page with gaps, of two streams or in an unknown form is forwarded and never stored', async t => {
  const event = (sequence: bigint | number, version: bigint | number, creation = 3): string =>
    `{"version":"${version}","guid":{"creation_number":"${creation}","account_address":"0x1"},"sequence_number":"${sequence}","type":"0x1::a::B","data":{}}`
  const big = 2n ** 53n
  const window = { 'x-aptos-ledger-oldest-version': String(big + 1n), 'x-aptos-ledger-version': String(big + 9n) }
  const cases: [string, string, string, object?][] = [
    ['5', 'gapped_page', `[${event(5, 20)},${event(7, 21)}]`],
    ['5', 'gapped_page', `[${event(5, 20)},${event(6, 21, 4)}]`],
    ['5', 'gapped_page', `[${event(5, 20)},${event(6, 21)},${event(7, 22)}]`],
    ['5', 'gapped_page', `[${event(4, 20)},${event(5, 21)}]`],
    ['5', 'pruned_page', `[${event(6, 20)},${event(7, 21)}]`],
    ['5', 'outside_window', `[${event(5, 1000)},${event(6, 1001)}]`],
    ['5', 'unreadable', `[${event(5, 20)},{"message":"more"}]`],
    [String(big), 'pruned_page', `[${event(big + 1n, 20)},${event(big + 2n, 21)}]`],
    [String(big), 'gapped_page', `[${event(big, 20)},${event(big, 21)}]`],
    ['5', 'outside_window', `[${event(5, big)},${event(6, big + 2n)}]`, window],
    ['5', 'outside_window', `[${event(5, big + 2n)},${event(6, big + 10n)}]`, window],
    ['5', 'vetoed', `[${event(5, 20)},${event(6, 21)}]`, { 'cache-control': 'private' }]
  ]
  for (const [start, reason, body, headers = {}] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => {
      respondOk(response, body, { ...headers })
    }, (_request, response) => {
      respondOk(response, '{}', { ...headers })
    })
    const varve = await varveAt(t, stub.url)
    for (let round = 0; round < 2; round++) {
      t.match(await varve.get(`${blocks}?start=${start}&limit=2`), {
        status: 200,
        body,
        headers: { [status]: because(reason) }
      }, `${reason} ${body.slice(0, 30)}`)
    }
    t.equal(stub.requests.length, 2)
    t.equal(await varve.metric(`varve_not_stored_total{endpoint="account_events",reason="${reason}"}`), 2)
  }
  const full = `[${event(big, big + 1n)},${event(big + 1n, big + 9n)}]`
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, full, window)
  }, (_request, response) => {
    respondOk(response, '{}', window)
  })
  const varve = await varveAt(t, stub.url)
  for (const cacheStatus of [stored, hit]) {
    t.match(
      await varve.get(`${blocks}?start=${big}&limit=2`),
      { body: full, headers: { [status]: cacheStatus } },
      'the same within the window is stored'
    )
  }
})

t.test('a short page grows with its stream, and is stored once it is full', async t => {
  const { sandbox, get } = await proxyAt(t)
  const seen: string[] = []
  for (let round = 0; round < 5; round++) {
    const outcome = await get(`${blocks}?start=998&limit=4`)
    seen.push(`${outcomeNameOf(outcome)} ${countIn(bodyOf(outcome))} ${cacheStatusOf(outcome).split('; ').at(-1)}`)
    t.equal(
      versionIn(outcome),
      sandbox.ledger.position(Math.min(sandbox.ledger.height, 1001)).version,
      'not fetched since it was full'
    )
    sandbox.ledger.grow()
  }
  t.same(seen, [
    'miss 2 detail=short_page',
    'miss 3 detail=short_page',
    'miss 4 stored',
    'hit_memory 4 detail=memory',
    'hit_memory 4 detail=memory'
  ])
  t.equal(requestCountOf(sandbox), 3)
})

t.test('a read coalesced with a short page gets a response no older than its request', async t => {
  const { sandbox, parts, get } = await proxyAt(t)
  const page = `${blocks}?start=998&limit=4`
  const hold = sandbox.faults.hold('account_events', { late: true })
  const early = get(page)
  await hold.arrived
  await eventLoopTurn()
  sandbox.ledger.grow(9)
  await parts.resolveChain()
  const late = Array.from({ length: 30 }, async () => await get(page))
  sandbox.faults.add({ kind: 'lag', blocks: 3, match: 'account_events' })
  hold.release()
  t.equal(countIn(bodyOf(await early)), 2)
  for (const outcome of await Promise.all(late)) {
    t.same(
      [countIn(bodyOf(outcome)), versionIn(outcome)],
      [4, sandbox.ledger.head.version],
      'though its upstream lags'
    )
  }
  t.equal(outcomeNameOf(await get(page)), 'hit_memory')
  t.equal(requestCountOf(sandbox), 2)
})

t.test('a thousand equal misses cost one read for a full page, two for a short, three for a pruned', async t => {
  const { sandbox, get } = await proxyAt(t)
  const cases: [string, number, string][] = [[`${blocks}?start=300&limit=5`, 1, 'collapsed'], [
    `${blocks}?start=998&limit=9`,
    2,
    'forwarded'
  ], [`${blocks}?start=3&limit=5`, 3, 'forwarded']]
  for (const [page, reads, name] of cases) {
    sandbox.requests.reset()
    const hold = sandbox.faults.hold('account_events')
    const burst = Array.from({ length: 1000 }, async () => await get(page))
    await hold.arrived
    hold.release()
    t.same(new Set((await Promise.all(burst)).slice(1).map(outcomeNameOf)), new Set([name]))
    t.equal(requestCountOf(sandbox), reads, page)
  }
})

t.test('a short page of a lagging upstream is fetched again, counted, and not taken for pruned', async t => {
  const { sandbox, parts, reported, get } = await proxyAt(t)
  await get(blocks)
  const short = `${blocks}?start=990&limit=50`
  sandbox.requests.reset()
  sandbox.faults.add({ kind: 'lag', blocks: 5, times: 1 })
  const again = await get(short)
  t.same([countIn(bodyOf(again)), versionIn(again), requestCountOf(sandbox), ...reported.splice(0)], [
    10,
    sandbox.ledger.head.version,
    2,
    'short_page'
  ])
  const lag = sandbox.faults.add({ kind: 'lag', blocks: 5 })
  const laggingVersion = sandbox.ledger.position(994).version
  const late = await get(short)
  t.same([countIn(bodyOf(late)), versionIn(late), ...reported.splice(0)], [5, laggingVersion, 'stale', 'short_page'])
  const beyond = await get(`${blocks}?start=996&limit=5`)
  t.same(
    [bodyOf(beyond), versionIn(beyond), ...reported.splice(0)],
    ['[]', laggingVersion, 'stale', 'empty_page'],
    'the upstream does not have those events yet'
  )
  sandbox.requests.reset()
  const full = await get(`${blocks}?start=985&limit=5`)
  t.same([cacheStatusOf(full), versionIn(full), requestCountOf(sandbox), ...reported.splice(0)], [
    stored,
    parts.tracker.position?.head.version,
    1
  ], 'a full page is history at any head')
  await get(blocks)
  lag.remove()
  sandbox.ledger.prunedEvents = 'empty'
  sandbox.ledger.pruneTo(998)
  reported.length = 0
  t.same(
    [bodyOf(await get(`${blocks}?start=996&limit=5`)), ...reported],
    ['[]', 'pruned_page', 'pruned by upstream'],
    'its newest events did not lower the stream end'
  )
})

t.test('responses of a pruned upstream are forwarded, counted and never stored', async t => {
  const modes: [PrunedEventsMode, number, string, number][] = [
    ['error500', 500, because('status', 500), 2],
    ['gone410', 410, because('status', 410), 2],
    ['empty', 200, because('pruned_page'), 2],
    ['gaps', 200, because('pruned_page'), 2],
    ['served', 200, because('outside_window'), 0]
  ]
  for (const [mode, code, cacheStatus, prunings] of modes) {
    const { sandbox, varve } = await varveAtSandbox(t, { prunedBlocks: 500 })
    sandbox.ledger.prunedEvents = mode
    await varve.get(blocks)
    const page = `${blocks}?start=498&limit=5`
    const direct = await sendRequest(sandbox.url, page)
    sandbox.requests.reset()
    for (let round = 0; round < 2; round++) {
      t.match(await varve.get(page), {
        status: code,
        body: direct.body,
        headers: { [status]: cacheStatus, etag: code === 200 ? /^"/ : undefined }
      }, mode)
    }
    t.equal(requestCountOf(sandbox), 2, mode)
    t.equal(
      await varve.metric('varve_pruned_requests_total{endpoint="account_events",answer="upstream"}'),
      prunings,
      mode
    )
    t.equal(
      await varve.metric('varve_pruned_requests_total{endpoint="account_events",answer="local"}'),
      0,
      'no page is reported gone without a fetch'
    )
  }
})

t.test('an empty page below the known stream end is pruned; above it, or if unknown, it is not', async t => {
  const { sandbox, reported, get } = await proxyAt(t, { prunedBlocks: 998 })
  sandbox.ledger.prunedEvents = 'empty'
  const bodyAndEvents = async (target: string): Promise<string[]> => [bodyOf(await get(target)), ...reported.splice(0)]
  t.same(await bodyAndEvents(`${blocks}?start=5`), ['[]', 'empty_page'], 'an unseen end is not guessed')
  t.same(await bodyAndEvents(`${blocks}?limit=1`), [(await sendRequest(sandbox.url, `${blocks}?start=999`)).body])
  t.same(await bodyAndEvents(`${blocks}?start=5`), ['[]', 'pruned_page', 'pruned by upstream'])
  t.same(await bodyAndEvents(`${blocks}?start=1000`), ['[]', 'empty_page'], 'the very next number')
  t.same(await bodyAndEvents(`${deposits}?start=5`), ['[]', 'empty_page'], 'another stream')
  sandbox.ledger.grow(3)
  t.same(await bodyAndEvents(`${blocks}?start=1001&limit=2`), [
    (await sendRequest(sandbox.url, `${blocks}?start=1001&limit=2`)).body
  ])
  t.same(await bodyAndEvents(`${blocks}?start=997`), ['[]', 'pruned_page', 'pruned by upstream'])
  t.same(await bodyAndEvents(`${blocks}?start=1003`), ['[]', 'empty_page'])
  t.same((await bodyAndEvents(`${deposits}?start=332&limit=1`)).slice(1), [])
  t.same(
    await bodyAndEvents(`${deposits}?start=5`),
    ['[]', 'pruned_page', 'pruned by upstream'],
    'any page of a stream shows how far it reaches'
  )
})

t.test('stream ends and pages of one chain do not apply to the chain that replaces it', async t => {
  const { sandbox, reported, get } = await proxyAt(t)
  const page = `${blocks}?start=300&limit=5`
  await get(page)
  t.equal(outcomeNameOf(await get(page)), 'hit_memory')
  sandbox.faults.add({ kind: 'otherChain', blocks: 600 })
  t.equal((await get(modules)).position?.head.blockHeight, 599n)
  reported.length = 0
  sandbox.faults.add({ kind: 'body', body: '[]', match: 'account_events' })
  const other = await get(page)
  t.same([other.name, bodyOf(other), ...reported], ['miss', '[]', 'empty_page'])
})

t.test('a cached page beyond the window is served and counted with its distance, if configured', async t => {
  for (const serveCached of [true, false]) {
    const { sandbox, varve } = await varveAtSandbox(t, {}, { pruned: { serveCached } })
    const page = `${blocks}?start=300&limit=5`
    const cached = await varve.get(page)
    const edge = sandbox.ledger.block(300).firstVersion
    sandbox.ledger.pruneTo(300)
    await varve.get(modules)
    t.match(await varve.get(page), { headers: { [status]: hit } }, 'its lowest version is the oldest that is left')
    sandbox.ledger.pruneTo(302)
    await varve.get(modules)
    sandbox.requests.reset()
    const got = await varve.get(page)
    t.match(
      got,
      serveCached
        ? { status: 200, body: cached.body, headers: { [status]: 'varve; hit; detail=pruned' } }
        : { status: 500, body: /pruned/, headers: { [status]: because('status', 500) } }
    )
    t.equal(requestCountOf(sandbox), serveCached ? 0 : 1)
    t.equal(
      await varve.metric(
        `varve_pruned_requests_total{endpoint="account_events",answer="${serveCached ? 'cache' : 'upstream'}"}`
      ),
      1
    )
    t.equal(
      await varve.metric('varve_pruned_distance_versions_sum{endpoint="account_events"}'),
      serveCached ? Number(sandbox.ledger.oldest.version - edge) : undefined
    )
  }
})
