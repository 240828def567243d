import fc from 'fast-check'
import t, { type Test } from 'tap'
import { serveRead } from '../../src/proxy/serve-read.js'
import { outcomeNameOf, outcomeOfErrorStatus } from '../../src/proxy/outcomes.js'
import { type ProxyContext, type ProxySettings } from '../../src/proxy/proxy-context.js'
import { type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { releases, type Sandbox, startSandbox } from '#sandbox'
import { sendRequest, type TestRequest, type TestResponse, tableItemLookup } from '../support/client.js'
import { contextAt } from '../support/proxy-context.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { startWithUpstreams } from '../support/multiple-upstreams.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'

const status = 'cache-status'
const bypass = 'varve; fwd=bypass'
const wouldHit = 'varve; fwd=bypass; detail=would-hit'
const table = '/v1/tables/0x5eed/item'
const events = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const observe = { mode: 'observe', latest: { infoMs: 3_600_000, gasMs: 3_600_000 } } as const
const bcs = { headers: { accept: 'application/x-bcs' } }

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
    const before = sandbox.requests.total
    const got = await varve.get(target, options)
    t.equal(sandbox.requests.total, before + 1, `${target} reached the upstream once`)
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
    const before = sandbox.requests.total
    const got = await varve.get(target)
    t.equal(sandbox.requests.total, before + 1, target)
    t.same(gist(got), gist(await sendRequest(sandbox.url, target)), target)
    t.equal(got.status, target.startsWith(events) ? 500 : 410)
    t.equal(got.headers[status], target === cachedTarget ? wouldHit : bypass)
  }
  for (
    const fault of [{ kind: 'error', code: 'internal_error' }, { kind: 'error', code: 'internal_error', status: 503 }, {
      kind: 'rateLimited',
      retryAfter: '7'
    }] as const
  ) {
    sandbox.faults.add(fault)
    for (
      const target of [
        '/v1/info',
        '/v1/estimate_gas_price',
        '/v1/accounts/0x1/modules',
        `/v1/accounts/0x1/modules?ledger_version=${sandbox.ledger.head.version}`
      ]
    ) {
      const before = sandbox.requests.total
      const got = await varve.get(target)
      t.equal(sandbox.requests.total, before + 1)
      t.match(got.headers, { [status]: bypass })
      t.same(
        [got.status, got.body, got.headers['retry-after']],
        (({ status, body, headers }) => [status, body, headers['retry-after']])(await sendRequest(sandbox.url, target))
      )
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

t.test('latest reads are never stale and not-founds differ by text, in observe mode too', async t => {
  const old = {
    'x-aptos-ledger-version': '900',
    'x-aptos-ledger-timestampusec': '900000',
    'x-aptos-block-height': '90'
  }
  const lagging = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`, nth === 1 ? old : {})
  })
  t.match(await (await varveAt(t, lagging.url, observe)).get('/v1/accounts/0x1/modules'), {
    body: '[2]',
    headers: { 'x-node-ledger-version': '1000' }
  })
  const stub = await startStubUpstream(t, (request, response) => {
    request.resume()
    response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
      '{"message":"","error_code":"table_item_not_found","vm_error_code":null}'
    )
  })
  const varve = await varveAt(t, stub.url, observe)
  for (const [key, expectedStatus] of [['"8"', bypass], ['"08"', bypass], ['"8"', wouldHit]] as const) {
    t.match(await varve.get('/v1/tables/0xab/item?ledger_version=500', tableItemLookup('u64', key)), {
      status: 404,
      headers: { [status]: expectedStatus }
    })
  }
})

t.test('observe mode rejects and forwards requests as serve mode does', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, observe)
  t.match(await varve.get('/v1/blocks/by_version/x'), { status: 400, headers: { [status]: 'varve; detail=rejected' } })
  t.equal(sandbox.requests.total, 0)
  t.match(await varve.get('/v1/-/healthy'), { status: 200, headers: { [status]: bypass } })
  t.equal(sandbox.requests.total, 1)
})

t.test('the micro-cache counts its age from the first request of a burst, in observe mode too', async t => {
  const { sandbox, clock, get } = await twinAt(t, { isObserving: true })
  const hold = sandbox.faults.hold('info')
  const first = get({ target: '/v1/info' })
  await hold.arrived
  clock.ms = 400
  const second = get({ target: '/v1/info' })
  while (hold.arrivedCount < 2) {
    await new Promise(resolve => {
      setImmediate(resolve)
    })
  }
  hold.release()
  t.same(await Promise.all([first, second]), ['forwarded', 'forwarded'])
  clock.ms = 999
  t.equal(await get({ target: '/v1/info' }), 'hit_memory')
  clock.ms = 1000
  t.equal(await get({ target: '/v1/info' }), 'forwarded')
  await sandbox.close()
})

t.test('observe mode counts old state and failed refreshes of renderings as serve mode does', async t => {
  for (const isObserving of [false, true]) {
    const { sandbox, clock, change, get } = await twinAt(t, { isObserving, stateMs: 1000 })
    const latest = { target: '/v1/accounts/0xcafe/modules' }
    const counted = [await get(latest)]
    await change('grow')
    counted.push(
      await get(latest),
      await get({ target: `${latest.target}?ledger_version=${sandbox.ledger.head.version}` })
    )
    t.same(counted, ['forwarded', 'hit_memory', 'miss'])
    const old = { target: '/v1/accounts/0x1/modules?ledger_version=1200&limit=3' }
    const rendered = [await get(old)]
    await change('upgrade')
    await change('fail')
    rendered.push(await get(old), await get(old))
    clock.ms += 10_000
    rendered.push(await get(old), await get(old))
    t.same(rendered, ['miss', 'hit_memory', 'hit_memory', 'miss', 'hit_memory'])
    await sandbox.close()
  }
})

t.test(`observe mode counts the outcome of every read as serve mode does (${seedTitle})`, async t => {
  const version = fc.integer({ min: 250, max: 1600 }).map(BigInt)
  const key = fc.constantFrom('"7"', '"007"', '"1000"', '"1001"', '"01001"', '"1002"', '"1003"', '"1004"')
  const target = fc.oneof(
    fc.tuple(fc.constantFrom(400n, 1003n, 1004n, 1005n, 1200n, 1201n), fc.constantFrom('', '?with_transactions=true'))
      .map(([at, flag]) => `/v1/blocks/by_version/${at}${flag}`),
    version.map(at => `/v1/blocks/by_version/${at}`),
    fc.tuple(fc.constantFrom(400n, 1000n, 1200n), fc.constantFrom('1', '42', 'cafe')).map(([at, account]) =>
      `/v1/accounts/0x${account}/modules?ledger_version=${at}&limit=3`
    ),
    fc.tuple(fc.constantFrom(0, 90, 100, 280, 300), fc.constantFrom('', '&limit=5', '&limit=25')).map((
      [start, limit]
    ) => `${events}?start=${start}${limit}`),
    fc.constantFrom(
      '/v1/info',
      '/v1/estimate_gas_price',
      '/v1/accounts/0xcafe/modules',
      events,
      'the head',
      'the item at the head'
    ),
    fc.constantFrom('', '?ledger_version=400', '?ledger_version=1200').map(query => table + query)
  )
  const read = fc.record({ target, key, accept: fc.constantFrom(undefined, undefined, undefined, 'application/x-bcs') })
  const change = fc.constantFrom('grow', 'grow', 'prune', 'later', 'upgrade', 'fail')
  const settings = fc.record({
    stateMs: fc.constantFrom(0, 50),
    infoMs: fc.constantFrom(0, 50),
    gasMs: fc.constantFrom(0, 50),
    servePruned: fc.boolean(),
    answerLocally: fc.boolean(),
    promoteLatest: fc.boolean(),
    eventsTtlMs: fc.constantFrom(20, 1000)
  })
  const seen = new Set<string | undefined>()
  await checkAsync(
    fc.asyncProperty(
      settings,
      fc.array(fc.oneof({ weight: 8, arbitrary: read }, { weight: 2, arbitrary: change }), {
        minLength: 30,
        maxLength: 120
      }),
      async (chosen, trace) => {
        const twins = [
          await twinAt(t, { ...chosen, isObserving: false }),
          await twinAt(t, { ...chosen, isObserving: true })
        ]
        try {
          let reads = 0
          for (const [at, step] of trace.entries()) {
            if (typeof step === 'string') {
              for (const twin of twins) await twin.change(step)
              continue
            }
            reads++
            const [serving, observing] = [await twins[0]?.get(step), await twins[1]?.get(step)]
            seen.add(serving)
            if (serving !== observing) {
              throw new Error(
                `step ${at}, ${JSON.stringify(step)}: ${serving} when serving, counted ${observing} when observing`
              )
            }
            if (twins[1]?.requestCount() !== reads) {
              throw new Error(`step ${at}: the upstream got ${twins[1]?.requestCount()} requests for ${reads} reads`)
            }
          }
        } finally {
          for (const twin of twins) await twin.sandbox.close()
        }
      }
    ),
    8
  )
  t.same([...seen].sort(), ['forwarded', 'gone', 'hit_memory', 'miss'])
})

interface Twin {
  readonly sandbox: Sandbox
  readonly clock: { ms: number }
  /** Number of upstream requests, the index aside. */
  requestCount(): number
  change(step: string): Promise<void>
  /** Returns the outcome under which a read is counted. */
  get(step: { target: string, key?: string, accept?: string | undefined }): Promise<string>
}

/** Starts one of two proxies that differ in one setting; each has its own upstream with the same chain. */
async function twinAt (t: Test, settings: Partial<ProxySettings>): Promise<Twin> {
  const sandbox = await startSandbox({ blockMs: 0, blocks: 320, prunedBlocks: 60 })
  const clock = { ms: 0 }
  const made = contextAt(t, sandbox.url, clock).context
  const parts: ProxyContext = { ...made, settings: { ...made.settings, ...settings } }
  await parts.resolveChain()
  let fails = false
  return {
    sandbox,
    clock,
    requestCount: () => sandbox.requests.total - sandbox.requests.countFor('index'),
    change: async step => {
      if (step === 'grow') sandbox.ledger.grow()
      if (step === 'prune') sandbox.ledger.pruneTo(Number(sandbox.ledger.oldest.blockHeight) + 40)
      if (step === 'later') clock.ms += 15
      if (step === 'upgrade') {
        sandbox.ledger.release = sandbox.ledger.release === releases.variants
          ? releases.enums
          : releases.variants
      }
      if (step === 'fail') fails = true
      else await parts.resolveChain()
    },
    get: async ({ target, key = '', accept }) => {
      const { version } = sandbox.ledger.head
      const at = target === 'the head'
        ? `/v1/blocks/by_version/${version}`
        : target === 'the item at the head'
        ? `${table}?ledger_version=${version}`
        : target
      // Lasts for one read, whether it reaches the upstream or not.
      if (fails) sandbox.faults.add({ kind: 'error', code: 'internal_error' })
      fails = false
      return await serveRead(parts, readAt(at, accept, key)).then(outcomeNameOf, (error: unknown) => {
        if (error instanceof ErrorResponse) return outcomeOfErrorStatus(error.status)
        throw error
      }).finally(() => {
        sandbox.faults.clear()
      })
    }
  }
}

function readAt (target: string, accept: string | undefined, key: string): Read {
  const match = matchEndpoint(target, 'GET')
  if (match === undefined) throw new Error(`no read at ${target}`)
  const { body, method } = target.startsWith(table) ? tableItemLookup('u64', key) : { body: '', method: 'GET' }
  return readRequest(match, {
    method: method ?? 'GET',
    accept,
    contentType: 'application/json',
    body: Buffer.from(body ?? '')
  }, { eventsDefault: 25 })
}

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
