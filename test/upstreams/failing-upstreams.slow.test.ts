import t, { type Test } from 'tap'
import { startSandboxNode } from '../support/replicas.js'
import { cacheStatusHeader } from '../support/cache-status.js'
import {
  type VarveWithUpstreams,
  startInFrontOf,
  startWithTwoUpstreams,
  startWithUpstreams
} from '../support/multiple-upstreams.js'
import { stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const modules = (version: number | bigint): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const page = (start: number, limit = 5): string =>
  `/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=${start}&limit=${limit}`
const shape = /"error_code":"internal_error","vm_error_code":null/

t.test('varve reads a version below one upstream\'s window at once from the upstream that has it', async t => {
  const { upstreams, get, takeRequestCounts } = await startWithUpstreams(t, [{ prunedBlocks: 500 }, {}])
  const oldest = String(upstreams[1]?.ledger.block(0).firstVersion)
  for (let version = 20; version < 30; version++) {
    t.match(await get(modules(version)), { status: 200, headers: { 'x-node-ledger-oldest-version': oldest } })
  }
  t.same(takeRequestCounts(), [0, 10])
})

t.test('the oldest version shown is the oldest that a healthy upstream can serve', async t => {
  const { upstreams, get, upStates } = await startWithUpstreams(t, [{ prunedBlocks: 500 }, {}])
  const [pruned = '', whole = ''] = upstreams.map(({ ledger }, at) =>
    String(ledger.block(at === 0 ? 500 : 0).firstVersion)
  )
  const version = upstreams[0]?.ledger.head.version ?? 0n
  const oldestServed = async (): Promise<unknown> =>
    (await get(modules(version))).headers['x-node-ledger-oldest-version']
  t.equal(await oldestServed(), whole)
  upstreams[1]?.faults.add({ kind: 'reset' })
  await until(async () => await upStates() === '1,0', 'only the first upstream is up')
  t.equal(await oldestServed(), pruned)
  upstreams[1]?.faults.clear()
  await until(async () => await upStates() === '1,1', 'both upstreams are up', 2000)
  t.equal(await oldestServed(), whole)
})

t.test('no client sees an upstream fail while another is healthy; a fixed one is used within 2 s', async t => {
  const { upstreams: [one], get, upStates, takeRequestCounts } = await startWithTwoUpstreams(t, { timeoutMs: 3000 })
  const faults = [
    { kind: 'reset' },
    { kind: 'garbage' },
    { kind: 'html' },
    { kind: 'panic200' },
    { kind: 'cutShort' },
    { kind: 'cutShort', chunked: true },
    { kind: 'error', code: 'internal_error', status: 500 },
    { kind: 'error', code: 'internal_error', status: 502 },
    { kind: 'error', code: 'internal_error', status: 503 },
    { kind: 'error', code: 'internal_error', status: 504 },
    { kind: 'headers', set: { 'content-encoding': 'gzip' } },
    { kind: 'headers', set: { 'content-type': 'text/plain' } },
    // Last, because a slow upstream loses its rank. Polls pass, so the upstream keeps its place until a read meets it.
    { kind: 'hang', match: 'account_modules' }
  ] as const
  let version = 2000
  takeRequestCounts()
  for (const fault of faults) {
    one?.faults.add(fault)
    const name = JSON.stringify(fault)
    let asked = 0
    // On a busy machine the other upstream may rank first until a poll is quick again.
    for (let nth = 0; nth < 8 || (asked === 0 && nth < 100); nth++) {
      t.match(await get(modules(version++)), { status: 200, headers: { 'cache-control': 'no-cache' } }, name)
      asked += takeRequestCounts()[0] ?? 0
    }
    t.ok(asked > 0, `${name} met a read`)
    one?.faults.clear()
    await until(async () => await upStates() === '1,1', 'both upstreams are up', 2000)
    takeRequestCounts()
  }
})

/** Reads while the first of two upstreams fails: reads succeed, it becomes unhealthy, then only polls reach it. */
async function leavesAlone (
  t: Test,
  { upstreams: [first], get, takeRequestCounts, upStates, statusOf }: VarveWithUpstreams
): Promise<void> {
  const read = async (version: number): Promise<boolean> => t.match(await get(modules(version)), { status: 200 })
  for (let version = 2000; version < 2300 && (await statusOf('n1'))['circuit'] !== 'open'; version++) {
    await read(version)
  }
  t.equal(await upStates(), '0,1', 'the upstream is unhealthy')
  takeRequestCounts()
  for (let nth = 0; nth < 30; nth++) await read(2400 + nth)
  const { index: polls = 0 } = first?.requests.counts ?? {}
  const [again = 30] = takeRequestCounts()
  t.ok(again <= polls + 2, `${again} times, with ${polls} polls`)
}

t.test('five failures in a row open an upstream\'s circuit; a lone upstream still gets reads', async t => {
  const served = await startWithTwoUpstreams(t)
  const { upstreams: [one, two], get, takeRequestCounts, statusOf, varve } = served
  one?.faults.add({ kind: 'error', code: 'internal_error' })
  await leavesAlone(t, served)
  t.match(await statusOf('n1'), { state: 'down', reason: 'status 500' })
  await until(
    () =>
      varve.log.some(({ upstream, msg, reason }) =>
        upstream === 'n1' && /upstream is down/.test(String(msg)) && reason === 'status 500'
      ),
    'the log reports the upstream as down'
  )
  two?.faults.add({ kind: 'reset' })
  t.match(await get(modules(2200)), { status: 500, body: shape }, 'the real response of the upstream that gave one')
  t.ok((takeRequestCounts()[0] ?? 0) >= 1)
  two?.faults.clear()
})

t.test('an upstream that fails reads but responds to polls is unhealthy until that read succeeds', async t => {
  for (
    const fault of [{ kind: 'error', code: 'internal_error', match: 'account_modules' }, {
      kind: 'panic200',
      match: 'account_modules'
    }] as const
  ) {
    const served = await startWithTwoUpstreams(t)
    const { upstreams: [one], upStates, statusOf, varve } = served
    one?.faults.add(fault)
    await leavesAlone(t, served)
    t.match(await statusOf('n1'), { state: 'down' })
    one?.faults.clear()
    await until(async () => await upStates() === '1,1', 'both upstreams are up', 2000)
    await until(() => varve.log.filter(({ upstream }) => upstream === 'n1').length === 3, 'a line for each change')
  }
})

t.test('an upstream on which a read hangs loses its rank: the next reads do not wait for it', async t => {
  // Turns polls off: each poll response improves the rank, and their number depends on the speed of the machine.
  // A busy machine makes the other slower, but not by as much as half of the time limit.
  const { upstreams: [one], get, takeRequestCounts } = await startWithTwoUpstreams(t, { timeoutMs: 4000 }, {
    head: { pollMs: 600_000 },
    hedge: { share: 0 }
  })
  one?.faults.add({ kind: 'hang', match: 'account_modules' })
  // Ends before a node closes its idle connections, after five seconds, and is verified again.
  for (let version = 2000; version < 2020; version++) t.match(await get(modules(version)), { status: 200 })
  t.same(takeRequestCounts(), [1, 20], 'the first read went to it')
})

t.test('a 429 backs off that upstream alone for as long as it says; a lone 429 is forwarded', async t => {
  const { upstreams: [busy, other], get, takeRequestCounts, statusOf, upStates } = await startWithTwoUpstreams(t)
  const fault = busy?.faults.add({ kind: 'rateLimited', retryAfter: '3', match: 'account_modules' })
  const backedOffAt = performance.now()
  for (let version = 2100; version < 2110; version++) t.match(await get(modules(version)), { status: 200 })
  t.same(takeRequestCounts(), [1, 10])
  t.match(await statusOf('n1'), { state: 'backing_off' })
  t.equal(await upStates(), '1,1', 'a rate-limiting upstream is not unhealthy')
  other?.faults.add({ kind: 'reset' })
  t.match(await get(modules(2200)), { status: 429, headers: { 'content-type': /text\/plain/, 'retry-after': '3' } })
  fault?.remove()
  other?.faults.clear()
  await until(async () => (await statusOf('n1'))['state'] === 'up', 'upstream n1 is up', 6000)
  t.ok(performance.now() - backedOffAt > 2950)
})

t.test('varve responds 410 only when every upstream lacks the version; 503 if one is unknown', async t => {
  const { upstreams: [one, two], get, takeRequestCounts, upStates } = await startWithUpstreams(t, [{
    prunedBlocks: 500
  }, {}], {
    head: { pollMs: 600_000 }
  })
  // Prunes more than the upstream has reported so far.
  one?.ledger.pruneTo(800)
  const between = one?.ledger.block(700).firstVersion ?? 0n
  for (let nth = 0n; nth < 6n; nth++) t.match(await get(modules(between + nth)), { status: 200 })
  two?.faults.add({ kind: 'reset' })
  t.match(await get(modules(5)), { status: 503, headers: { 'retry-after': /^\d+$/ }, body: shape })
  t.match(await get(modules(between + 8n)), { status: 503, body: shape })
  two?.faults.clear()
  await until(async () => await upStates() === '1,1', 'both upstreams are up', 2000)
  two?.ledger.pruneTo(900)
  t.match(
    await get(modules(6)),
    { status: 410, body: /"version_pruned"/ },
    'the body comes from the last upstream that had it'
  )
  takeRequestCounts()
  t.match(await get(modules(7)), {
    status: 410,
    body: /"version_pruned"/,
    headers: { [cacheStatusHeader]: 'varve; detail=gone' }
  })
  t.same(takeRequestCounts(), [0, 0], 'and no upstream gets a request')
})

t.test('varve does not trust a 410 while an unhealthy or backing-off upstream may have the version', async t => {
  for (
    const fault of [{ kind: 'error', code: 'internal_error', status: 503 }, {
      kind: 'rateLimited',
      retryAfter: '1'
    }] as const
  ) {
    const { upstreams: [one, two], get } = await startWithUpstreams(t, [{}, {}], { head: { pollMs: 600_000 } })
    one?.ledger.pruneTo(500)
    two?.faults.add({ ...fault, match: 'account_modules' })
    two?.faults.add({ ...fault, match: 'account_events' })
    t.match(await get(modules(5)), { status: 503, headers: { 'retry-after': '1' }, body: shape })
    if (one !== undefined) one.ledger.prunedEvents = 'gone410'
    t.match(await get(page(5)), { status: 503, body: shape })
  }
})

t.test('varve serves cached reads after the upstream that had them is gone and the rest is pruned', async t => {
  const { upstreams: [, two], get, upStates } = await startWithUpstreams(t, [{ prunedBlocks: 500 }, {}], {
    pruned: { serveCached: false }
  })
  t.match(await get(modules(20)), { status: 200 })
  two?.faults.add({ kind: 'reset' })
  await until(async () => await upStates() === '1,0', 'only the first upstream is up')
  t.match(await get(modules(20)), { status: 200, headers: { [cacheStatusHeader]: /hit/ } })
  two?.faults.clear()
  two?.ledger.pruneTo(500)
  await until(
    async () => await upStates() === '1,1' && (await get(modules(20))).status === 410,
    'both upstreams are up and have pruned the version'
  )
})

t.test('varve does not halve a slow response\'s time for the sake of an unhealthy upstream', async t => {
  const { upstreams: [one, two], get, varve } = await startWithUpstreams(t, [{}, {}], {}, { timeoutMs: 3000 })
  two?.faults.add({ kind: 'reset' })
  // Before its first failure it is unknown, not down.
  await until(
    async () => varve.log.some(({ msg }) => msg === 'upstream is down'),
    'the log reports the upstream as down'
  )
  one?.faults.add({ kind: 'slow', ms: 2000, match: 'account_modules' })
  t.match(await get(modules(2000)), { status: 200 })
})

t.test('a read does not wait for an upstream that never responded if another is ahead of all', async t => {
  const silent = await startStubUpstream(t, () => {}, () => {})
  const healthy = await startSandboxNode(t, { prunedBlocks: 0 })
  const { get, upStates } = await startInFrontOf(t, [healthy, silent as never])
  await until(async () => await upStates() === '1,0', 'only the first upstream is up')
  const requestCount = silent.requests.length
  for (let nth = 0n; nth < 5n; nth++) {
    t.match(await get(modules(healthy.ledger.head.version + 1000n + nth)), { status: 404 })
  }
  t.equal(silent.requests.length, requestCount)
})

t.test('varve reads a version above one head from another, above all heads from the furthest', async t => {
  const { upstreams: [one, two], get, takeRequestCounts, varve } = await startWithUpstreams(t, [{}, {}])
  two?.ledger.grow(20)
  const head = two?.ledger.head.version ?? 0n
  await until(async () => await varve.metric('varve_ledger_version') === Number(head), 'the furthest was polled')
  t.match(await get(modules(head)), { status: 200, headers: { 'x-node-ledger-version': String(head) } })
  takeRequestCounts()
  t.match(await get(modules(head - 1n)), { status: 200 })
  t.same(takeRequestCounts(), [0, 1])
  t.match(await get(modules(head + 1000n)), { status: 404, body: /"version_not_found"/ })
  t.same(takeRequestCounts(), [0, 1])
  two?.faults.add({ kind: 'reset' })
  t.match(
    await get(modules(head - 2n)),
    { status: 503, body: shape },
    'the other denies a served version: not a usable response'
  )
  one?.ledger.grow(20)
  t.match(await get(modules(head - 3n)), { status: 200 }, 'it may have reached the version by now')
})

t.test('varve reads events from the longest history and trusts no shorter one in its absence', async t => {
  const { upstreams: [short, long], get, takeRequestCounts, upStates, varve } = await startWithUpstreams(t, [{
    prunedBlocks: 500
  }, {}])
  t.match(await get(page(5000)), { status: 200, body: '[]' }, 'the longest history is trusted')
  for (let nth = 0; nth < 5; nth++) {
    t.match(await get(page(10 * nth)), { status: 200, body: new RegExp(`"sequence_number":"${10 * nth}"`) })
  }
  t.match(await get(page(990, 9)), { status: 200 })
  t.same(takeRequestCounts(), [0, 7])
  long?.faults.add({ kind: 'reset' })
  await until(async () => await upStates() === '1,0', 'only the first upstream is up')
  t.match(
    await get(page(991, 9)),
    { status: 200, body: /"sequence_number":"991"/ },
    'pages that the other upstream has in full'
  )
  for (const way of ['gone410', 'error500', 'gaps', 'empty'] as const) {
    if (short !== undefined) short.ledger.prunedEvents = way
    t.match(await get(page(100 + way.length)), { status: 503, body: shape }, way)
    t.match(
      await varve.get(page(200), { headers: { accept: 'application/x-bcs' } }),
      { status: 503, body: shape },
      `${way} in BCS, which varve cannot parse`
    )
  }
})

t.test('varve retries a forwarded read before its first byte, and trusts no 410 of one upstream', async t => {
  const { upstreams: [one, two], get } = await startWithUpstreams(t, [{ prunedBlocks: 500 }, {}])
  const passed = '/v1/-/healthy'
  const wasRequested = (): boolean => one?.requests.latest.some(({ url }) => url.startsWith(passed)) === true
  for (let nth = 0; nth < 5; nth++) t.match(await get(`${passed}?ledger_version=${30 + nth}`), { status: 200 })
  t.notOk(wasRequested(), 'the shorter history lacks it')
  const pruned = one?.faults.add({ kind: 'error', code: 'version_pruned', match: 'healthy' })
  // Sends many at once, so that both upstreams are busy enough to get some.
  for (
    const got of await Promise.all(Array.from({ length: 20 }, async (_, nth) => await get(`${passed}?nth=${nth}`)))
  ) t.match(got, { status: 200 }, 'a 410 of one upstream goes to another')
  t.ok(wasRequested())
  pruned?.remove()
  two?.faults.add({ kind: 'reset' })
  one?.faults.add({ kind: 'error', code: 'version_pruned', match: 'healthy' })
  t.match(await get(passed), { status: 503, body: shape }, 'the upstream that may have it is down')
})

t.test('varve reads a block by height from any upstream that has it', async t => {
  const { upstreams: [, two], get, takeRequestCounts } = await startWithUpstreams(t, [{ prunedBlocks: 500 }, {}])
  for (let nth = 0; nth < 10; nth++) {
    t.match(await get(`/v1/blocks/by_height/${30 + nth}`), { status: 200 }, 'a 410 of one upstream goes to another')
  }
  two?.faults.add({ kind: 'reset' })
  t.match(
    await get('/v1/blocks/by_height/45'),
    { status: 503, body: shape },
    'the upstream that may have it is down'
  )
  t.match(await get('/v1/blocks/by_height/900'), { status: 200 })
  takeRequestCounts()
  t.match(
    await get('/v1/blocks/by_height/35'),
    { status: 200, headers: { [cacheStatusHeader]: /hit/ } },
    'the block is cached'
  )
  t.same(takeRequestCounts(), [0, 0])
})

t.test('varve does not forward the denial of a version that it has already served', async t => {
  const lags = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
      '{"message":"not yet","error_code":"version_not_found","vm_error_code":null}'
    )
  })
  const ahead = await startSandboxNode(t, { prunedBlocks: 0 })
  const { get, upStates } = await startInFrontOf(t, [ahead, lags as never])
  await until(async () => await upStates() === '1,0' || await upStates() === '1,1', 'both upstreams are up')
  ahead.faults.add({ kind: 'reset' })
  t.match(await get('/v1/-/healthy?ledger_version=15000'), { status: 503, body: shape })
})

t.test('varve retries a POST read like any other, and sends a possible write to one upstream only', async t => {
  const requests: string[] = []
  const failing = await startStubUpstream(t, (request, response) => {
    requests.push(`failing ${request.url}`)
    response.writeHead(502).end('{}')
  })
  const able = await startStubUpstream(t, (request, response) => {
    requests.push(`able ${request.url}`)
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('[]')
  })
  const { varve, upStates } = await startInFrontOf(t, [failing, able] as never, { passThrough: 'all' })
  await until(async () => await upStates() === '1,1', 'both upstreams are up')
  const post = async (target: string, body: string): Promise<Array<number | string>> => {
    requests.length = 0
    const { status } = await varve.get(target, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body
    })
    return [status, ...requests.filter(one => one.endsWith(target)).sort()]
  }
  for (let nth = 0; nth < 4; nth++) {
    t.equal((await post('/v1/view', `{"function":"0x1::a::f","type_arguments":[],"arguments":[${nth}]}`))[0], 200)
  }
  for (let nth = 0; nth < 4; nth++) {
    t.equal((await post('/v1/transactions', '{}')).length, 2, 'one status and one upstream')
  }
})
