import t from 'tap'
import { outcomeNameOf } from '../../src/proxy/outcomes.js'
import { type ProxyContext } from '../../src/proxy/proxy-context.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { type Sandbox } from '#sandbox'
import { sendRequest, type TestRequest, type TestResponse, tableItemLookup } from '../support/client.js'
import { readOfTarget, resolvedContextAt } from '../support/proxy-context.js'
import {
  respondOk,
  stamps,
  startChangingUpstream,
  startHeldUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { startWithUpstreams } from '../support/multiple-upstreams.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'

const status = 'cache-status'
const bypass = 'varve; fwd=bypass'
const wouldHit = 'varve; fwd=bypass; detail=would-hit'
const table = '/v1/tables/0x5eed/item'
const events = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const observe = { mode: 'observe', latest: { infoMs: 3_600_000, gasMs: 3_600_000 } } as const
const bcs = { headers: { accept: 'application/x-bcs' } }

/** Number of reads at the upstream, without those of varve itself. */
const readCount = ({ requests }: Sandbox): number =>
  requests.total - requests.countFor('index') - requests.countFor('block_by_height')

/** Reduces a response to what a client can distinguish. */
const gist = (
  { status, bytes, headers }: TestResponse
): unknown => [
  status,
  bytes.toString('latin1'),
  headers['content-type'],
  headers['retry-after'],
  ...[
    'chain-id',
    'ledger-version',
    'ledger-oldest-version',
    'ledger-timestampusec',
    'epoch',
    'block-height',
    'oldest-block-height',
    'cursor'
  ].map(name => headers[`x-aptos-${name}`])
]

t.test('observe mode fetches every read, forwards it unchanged, and reports would-be hits', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { ...observe, pages: { eventsTtlSeconds: 3600 } })
  const { firstVersion, lastVersion } = sandbox.ledger.block(600)
  const big = sandbox.ledger.block(502)
  const trace: readonly [string, TestRequest, string, string][] = [
    [`${table}?ledger_version=${lastVersion}`, tableItemLookup('u64', '"7"'), 'miss', bypass],
    [`${table}?ledger_version=${lastVersion}`, tableItemLookup('u64', '"007"'), 'hit_memory', wouldHit],
    [`${table}?ledger_version=${lastVersion}`, tableItemLookup('u64', '"8"'), 'miss', bypass],
    [`/v1/accounts/0x1/modules?ledger_version=${lastVersion}&limit=2`, {}, 'miss', bypass],
    [`/v1/accounts/0x1/modules?ledger_version=${lastVersion}&limit=2`, {}, 'hit_memory', wouldHit],
    [`/v1/accounts/0x1/modules?ledger_version=${lastVersion}&limit=2`, bcs, 'miss', bypass],
    [`/v1/blocks/by_version/${firstVersion}`, {}, 'miss', bypass],
    [`/v1/blocks/by_version/${lastVersion}`, {}, 'hit_memory', wouldHit],
    [`/v1/blocks/by_version/${lastVersion}?with_transactions=true`, {}, 'miss', bypass],
    [`/v1/blocks/by_version/${firstVersion}?with_transactions=true`, {}, 'hit_memory', wouldHit],
    [`/v1/blocks/by_version/${big.firstVersion}`, {}, 'miss', bypass],
    [`/v1/blocks/by_version/${sandbox.ledger.head.version}`, {}, 'miss', bypass],
    [`/v1/blocks/by_version/${sandbox.ledger.head.version}`, {}, 'miss', bypass],
    [`${events}?start=300&limit=5`, {}, 'miss', bypass],
    [`${events}?start=300&limit=5`, {}, 'hit_memory', wouldHit],
    [`${events}?start=990&limit=50`, {}, 'miss', bypass],
    [`${events}?start=990&limit=50`, {}, 'miss', bypass],
    [events, {}, 'forwarded', bypass],
    [`${events}?start=300&limit=5`, bcs, 'forwarded', bypass],
    ['/v1/estimate_gas_price', {}, 'forwarded', bypass],
    ['/v1/estimate_gas_price', {}, 'hit_memory', wouldHit],
    [table, tableItemLookup('u64', '"9"'), 'forwarded', bypass],
    [table, tableItemLookup('u64', '"9"'), 'forwarded', bypass],
    [`${table}?ledger_version=${sandbox.ledger.head.version}`, tableItemLookup('u64', '"9"'), 'hit_memory', wouldHit],
    [`/v1/accounts/0x1/modules?ledger_version=${sandbox.ledger.head.version + 1000n}`, {}, 'miss', bypass]
  ]
  const counts: Record<string, number> = {}
  for (const [target, options, outcome, expectedStatus] of trace) {
    const before = readCount(sandbox)
    const got = await varve.get(target, options)
    t.equal(readCount(sandbox), before + 1, `${target} reached the upstream once`)
    t.match(got.headers, {
      [status]: expectedStatus,
      'cache-control': 'no-store',
      'x-node-ledger-version': got.headers['x-aptos-ledger-version']
    }, target)
    t.same(gist(got), gist(await sendRequest(sandbox.url, target, options)), target)
    counts[outcome] = (counts[outcome] ?? 0) + 1
  }
  t.same(await countsOf(varve), { ...counts, gone: 0, collapsed: 0 })
})

t.test('in observe mode history carries the present position, and a moving response its own', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, observe)
  const { lastVersion } = sandbox.ledger.block(500)
  const history = [
    `/v1/blocks/by_version/${lastVersion}`,
    `/v1/blocks/by_version/${lastVersion}`,
    `${events}?start=300&limit=5`,
    `${events}?start=300&limit=5`
  ]
  for (const target of [...history, `${events}?limit=5`, '/v1/accounts/0x1/modules?limit=1']) {
    await varve.get('/v1')
    const lag = sandbox.faults.add({ kind: 'lag', blocks: 5 })
    const [got, direct] = [await varve.get(target), await sendRequest(sandbox.url, target)]
    lag.remove()
    t.same(got.bytes, direct.bytes, target)
    t.equal(
      got.headers['x-node-block-height'],
      history.includes(target) ? '999' : direct.headers['x-aptos-block-height'],
      target
    )
  }
})

t.test('observe mode serves nothing from the cache, even if the upstream now differs', async t => {
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`)
  })
  const varve = await varveAt(t, stub.url, { ...observe, latest: { ...observe.latest, stateMs: 3_600_000 } })
  const targets = [
    '/v1/info',
    '/v1/estimate_gas_price',
    '/v1/accounts/0x1/modules',
    '/v1/accounts/0x1/modules?ledger_version=500'
  ]
  let requestCount = 0
  for (const target of targets) {
    for (const expectedStatus of [bypass, wouldHit, wouldHit]) {
      t.match(await varve.get(target), {
        body: `[${++requestCount}]`,
        headers: { [status]: expectedStatus, 'cache-control': 'no-store' }
      }, target)
    }
  }
  const tag = (await varve.get('/v1/info')).headers.etag
  t.match(await varve.get('/v1/info', { headers: { 'if-none-match': String(tag) } }), {
    status: 200,
    body: `[${requestCount + 2}]`
  }, 'nor is a tag compared with a cached one')
  t.match(await varve.get('/v1/info', { method: 'HEAD' }), { status: 200, body: '', headers: { [status]: wouldHit } })
  t.equal(stub.requests.length, requestCount + 3)
})

t.test('observe mode forwards errors untouched, 410s too, and makes up none', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, observe)
  const { firstVersion } = sandbox.ledger.block(50)
  const cachedTarget = `/v1/blocks/by_version/${sandbox.ledger.block(300).firstVersion}`
  await varve.get(cachedTarget)
  sandbox.ledger.pruneTo(400)
  await varve.get('/v1')
  const targets = [
    `/v1/blocks/by_version/${firstVersion}`,
    cachedTarget,
    `/v1/accounts/0x1/modules?ledger_version=${firstVersion}`,
    `${events}?start=3&limit=5`
  ]
  for (const target of targets) {
    const before = readCount(sandbox)
    const got = await varve.get(target)
    t.equal(readCount(sandbox), before + 1, target)
    t.same(gist(got), gist(await sendRequest(sandbox.url, target)), target)
    t.equal(got.status, target.startsWith(events) ? 500 : 410)
    t.equal(got.headers[status], target === cachedTarget ? wouldHit : bypass)
  }
  const faults = [
    { kind: 'error', code: 'internal_error' },
    { kind: 'error', code: 'internal_error', status: 503 },
    { kind: 'rateLimited', retryAfter: '7' }
  ] as const
  const latest = '/v1/accounts/0x1/modules'
  const moving = ['/v1/info', '/v1/estimate_gas_price', latest]
  for (const fault of faults) {
    sandbox.faults.add(fault)
    for (const target of [...moving, `${latest}?ledger_version=${sandbox.ledger.head.version}`]) {
      const before = readCount(sandbox)
      const got = await varve.get(target)
      t.equal(readCount(sandbox), before + 1)
      const direct = await sendRequest(sandbox.url, target)
      t.match(got, {
        status: direct.status,
        body: direct.body,
        headers: { [status]: bypass, 'retry-after': direct.headers['retry-after'] }
      }, target)
    }
    sandbox.faults.clear()
  }
})

t.test('in observe mode each read of a burst is fetched: one is a miss, the others collapsed', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, observe)
  const target = `/v1/blocks/by_version/${sandbox.ledger.block(500).firstVersion}`
  const hold = sandbox.faults.hold('block_by_version')
  const burst = Array.from({ length: 20 }, async () => await varve.get(target))
  while (hold.arrivedCount < 20) {
    await new Promise(resolve => {
      setImmediate(resolve)
    })
  }
  hold.release()
  const got = await Promise.all(burst)
  const truth = gist(await sendRequest(sandbox.url, target))
  for (const one of got) t.same(gist(one), truth)
  for (const { headers } of got) t.match(headers, { [status]: bypass })
  t.same(await countsOf(varve), { miss: 1, collapsed: 19, hit_memory: 0, forwarded: 0, gone: 0 })
})

t.test('in observe mode a response too large to store goes through whole to each of a burst', async t => {
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, JSON.stringify([10 + nth, 'x'.repeat(2 * 1024 * 1024)]))
  })
  const varve = await varveAt(t, stub.url, { ...observe, cache: { maxEntryMb: 1 } })
  for (const target of ['/v1/accounts/0x1/modules?ledger_version=500', '/v1/accounts/0x1/modules']) {
    const got = await Promise.all(Array.from({ length: 5 }, async () => await varve.get(target)))
    t.same(new Set(got.map(({ bytes }) => bytes.length)), new Set([2 * 1024 * 1024 + 7]))
    t.equal(new Set(got.map(({ body }) => body.slice(0, 4))).size, 5, 'each has its own')
  }
  t.equal(stub.requests.length, 10)
})

t.test('observe mode rejects and forwards requests as serve mode does', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, observe)
  t.match(await varve.get('/v1/blocks/by_version/x'), { status: 400, headers: { [status]: 'varve; detail=rejected' } })
  t.equal(readCount(sandbox), 0)
  t.match(await varve.get('/v1/-/healthy'), { status: 200, headers: { [status]: bypass } })
  t.equal(readCount(sandbox), 1)
})

async function countsOf (
  varve: { metric: (series: string) => Promise<number | undefined>, adminUrl: string }
): Promise<Record<string, number>> {
  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  const counts: Record<string, number> = { hit_memory: 0, miss: 0, collapsed: 0, forwarded: 0, gone: 0 }
  for (const [, outcome = '', count] of body.matchAll(/^varve_requests_total\{.*outcome="(\w+)".*\} (\d+)$/gm)) {
    counts[outcome] = (counts[outcome] ?? 0) + Number(count)
  }
  return counts
}

t.test('in observe mode a would-be hit is fetched from an upstream at the served head, like a miss', async t => {
  const { upstreams: [first, second], get } = await startWithUpstreams(t, [{}, {}], { mode: 'observe' })
  if (first === undefined || second === undefined) throw new Error('there are two')
  const { hash } = JSON.parse(
    (await sendRequest(first.url, `/v1/transactions/by_version/${first.ledger.head.version - 2n}`)).body
  ) as { hash: string }
  const target = `/v1/transactions/by_hash/${hash}`
  t.equal((await get(target)).status, 200)
  for (const replica of [first, second]) {
    const lag = replica.faults.add({ kind: 'lag', blocks: 5 })
    t.match(await get(target), {
      status: 200,
      headers: { [status]: wouldHit, 'x-node-ledger-version': String(first.ledger.head.version) }
    })
    lag.remove()
  }
})

t.test('observe mode counts old renderings and ages of micro-cached responses as serve mode does', async t => {
  const clock = { ms: 0 }
  const observing = async (
    url: string
  ): Promise<{ context: ProxyContext, count: (target: string) => Promise<string> }> => {
    const { context: parts } = await resolvedContextAt(t, url, clock)
    const context = { ...parts, settings: { ...parts.settings, isObserving: true } }
    return { context, count: async target => outcomeNameOf(await serveRead(context, readOfTarget(target))) }
  }
  const changing = await startChangingUpstream(t)
  const { context, count } = await observing(changing.url)
  const history = '/v1/accounts/0x1/modules?ledger_version=500'
  t.same([await count(history), await count(history)], ['miss', 'hit_memory'])
  changing.state.release = 'bbbb'
  await context.resolveChain()
  changing.state.respond = response => {
    response.writeHead(500, stamps()).end()
  }
  t.same([await count(history), await count(history)], ['hit_memory', 'hit_memory'], 'no upstream can make it again')

  const held = await startHeldUpstream(t)
  const { count: countHeld } = await observing(held.url)
  const reads = [countHeld('/v1/info')]
  const first = await held.next()
  clock.ms = 400
  reads.push(countHeld('/v1/info'))
  for (const response of [first, await held.next()]) respondOk(response, '{}')
  t.same(await Promise.all(reads), ['forwarded', 'forwarded'])
  for (const [ms, outcome] of [[999, 'hit_memory'], [1000, 'forwarded']] as const) {
    clock.ms = ms
    const read = countHeld('/v1/info')
    respondOk(await held.next(), '{}')
    t.equal(await read, outcome, `after ${ms} ms`)
  }
})
