import { type ServerResponse } from 'node:http'
import t from 'tap'
import { type Sandbox } from '#sandbox'
import { type TestRequest, type TestResponse, sendRequest, tableItemLookup } from '../support/client.js'
import { cacheStatusHeader, memoryHitStatus, storedMissStatus } from '../support/cache-status.js'
import { startWithUpstreams } from '../support/multiple-upstreams.js'
import { respondOk, startEmptyUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const version_ = 'x-node-ledger-version'
const forwarded = 'varve; fwd=bypass'
const modules = '/v1/accounts/0xcafe/modules'
const events = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const key = tableItemLookup('u64', '"7"')
const brief = { waitForVersion: { ms: 150 } }

// Latest reads, whose responses carry the position at which they were read.
const moving: Array<[target: string, how?: TestRequest]> = [
  [modules],
  ['/v1/tables/0x5eed/item', key],
  [events],
  [`${events}?start=900000`],
  ['/v1/estimate_gas_price'],
  ['/v1'],
  ['/v1/-/healthy']
]
const storedReads: Array<[target: string, how?: TestRequest]> = [[`${modules}?ledger_version=2000`], [
  '/v1/blocks/by_version/2000'
], [
  '/v1/blocks/by_height/300'
], [`${events}?start=500&limit=5`]]

const headOf = (sandbox: Sandbox | undefined): bigint => sandbox?.ledger.head.version ?? 0n

/** Sends a read with a minimum version. */
async function atLeast (
  varve: TestVarve,
  version: bigint | string | string[],
  [target, options = {}]: [target: string, how?: TestRequest]
): Promise<TestResponse> {
  return await varve.get(target, {
    ...options,
    headers: { ...options.headers, 'X-Varve-Min-Ledger-Version': Array.isArray(version) ? version : String(version) }
  })
}

t.test('a client that saw a write never reads from before it, and gets 503 if no upstream has it', async t => {
  const { upstreams: [one, two], varve, takeRequestCounts } = await startWithUpstreams(t, [{}, {}], {
    head: { pollMs: 600_000 },
    latest: { gasMs: 0, indexMs: 0 }
  })
  two?.ledger.grow(400)
  const seen = headOf(two)
  for (const read of [...moving, ['/v1/info'] as [string]]) {
    const [target, options] = read
    const truth = await sendRequest(two?.url ?? '', target, options)
    for (let nth = 0; nth < 3; nth++) {
      const got = await atLeast(varve, seen, read)
      t.equal(got.status, truth.status, target)
      if (target !== '/v1/info') t.match(got, { body: truth.body, headers: { [version_]: String(seen) } }, target)
    }
  }
  t.equal(takeRequestCounts()[0], 0)
  two?.faults.add({ kind: 'reset' })
  for (const read of moving) {
    t.match(await atLeast(varve, seen, read), {
      status: 503,
      body: /"error_code":"internal_error"/,
      headers: { 'retry-after': '1' }
    }, read[0])
  }
  t.equal(await varve.metric('varve_stale_latest_total'), 0)
  const stale = await varve.get(modules)
  t.match(
    stale,
    { status: 200, headers: { [version_]: String(headOf(one)) } },
    'a read without a minimum version gets what is available'
  )
  t.equal(await varve.metric('varve_stale_latest_total'), 1)
})

t.test('a response older than the served head is used if it reaches the minimum version', async t => {
  const { upstreams: [one, two], varve } = await startWithUpstreams(t, [{}, {}], { head: { pollMs: 600_000 } })
  const before = headOf(one)
  two?.ledger.grow(5)
  await atLeast(varve, headOf(two), [modules])
  two?.faults.add({ kind: 'reset' })
  t.match(await atLeast(varve, before, [modules]), { status: 200, headers: { [version_]: String(before) } })
})

t.test('any read waits for a version not reached yet, and no upstream receives the header', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { waitForVersion: { ms: 5000 } })
  const target = headOf(sandbox) + 1000n
  const reads = [...moving, ...storedReads]
  const pending = Promise.all(reads.map(async read => await atLeast(varve, target, read)))
  await until(
    async () => await varve.metric('varve_waiting_for_version') === reads.length,
    'all reads wait for their versions'
  )
  sandbox.ledger.grow(600)
  for (const { status, headers } of await pending) {
    t.ok((status === 200 || status === 404) && BigInt(String(headers[version_])) >= target)
  }
  t.match(await atLeast(varve, target, storedReads[0] ?? ['']), {
    status: 200,
    headers: { [cacheStatusHeader]: memoryHitStatus }
  })
  const upstream = await startEmptyUpstream(t)
  const other = await varveAt(t, upstream.url)
  for (const read of [[modules], ['/v1/accounts/0x1'], [`${modules}?ledger_version=500`]] as Array<[string]>) {
    t.match(await atLeast(other, 1000n, read), { status: 200 })
  }
  t.same(upstream.rawHeaders.flat().filter(text => /x-varve/i.test(text)), [])
})

t.test('a version not reached in time is a 404 by varve in the full node\'s words, without a fetch', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, brief)
  const head = headOf(sandbox)
  for (const read of storedReads) await varve.get(...read)
  sandbox.requests.reset()
  const all: Array<[target: string, how?: TestRequest]> = [...moving, ...storedReads, ['/v1/info'], [
    `${modules}?ledger_version=${head}`
  ]]
  const responses = await Promise.all(all.map(async read => await atLeast(varve, head + 1n, read)))
  for (const got of responses) {
    const body = JSON.stringify({
      message: `Ledger version not found by Ledger version(${head + 1n})`,
      error_code: 'version_not_found',
      vm_error_code: null
    })
    t.match(got, {
      status: 404,
      body,
      headers: {
        [cacheStatusHeader]: 'varve; detail=rejected',
        [version_]: String(head),
        'cache-control': 'no-store',
        'content-type': 'application/json'
      }
    })
  }
  t.same(Object.keys(sandbox.requests.counts), ['index'])
  t.equal(await varve.metric('varve_version_waits_total{result="timeout"}'), all.length)
})

t.test('a read with a minimum version waits up to a second even if other reads do not wait', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const began = performance.now()
  t.match(await atLeast(varve, headOf(sandbox) + 1n, [modules]), { status: 404 })
  const tookMs = performance.now() - began
  t.ok(tookMs >= 990 && tookMs < 5000)
})

t.test('the minimum version and the version read may both be in the future', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { waitForVersion: { ms: 5000 } })
  const head = headOf(sandbox)
  const pending = atLeast(varve, head + 1n, [`${modules}?ledger_version=${head + 20n}`])
  await until(async () => await varve.metric('varve_waiting_for_version') === 1, 'the read waits for its version')
  sandbox.ledger.grow(1)
  await until(
    async () => await varve.metric('varve_version_waits_total{result="reached"}') === 1,
    'the first wait has ended'
  )
  sandbox.ledger.grow(20)
  t.match(await pending, { status: 200 })
  t.equal(await varve.metric('varve_version_waits_total{result="reached"}'), 2)
})

t.test('the micro-cache serves only responses at the minimum version, and stores newer ones', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { latest: { stateMs: 60_000, gasMs: 60_000, infoMs: 60_000 } })
  for (const read of [[modules], ['/v1/tables/0x5eed/item', key], ['/v1/estimate_gas_price']] as typeof moving) {
    const before = headOf(sandbox)
    await varve.get(...read)
    t.match(await atLeast(varve, before, read), { headers: { [cacheStatusHeader]: memoryHitStatus } })
    sandbox.ledger.grow(5)
    const after = headOf(sandbox)
    t.match(await atLeast(varve, after, read), {
      headers: { [cacheStatusHeader]: forwarded, [version_]: String(after) }
    })
    t.match(await atLeast(varve, after, read), {
      headers: { [cacheStatusHeader]: memoryHitStatus, [version_]: String(after) }
    })
    t.match(await varve.get(...read), { headers: { [cacheStatusHeader]: memoryHitStatus, [version_]: String(after) } })
  }
  await varve.get('/v1/info')
  t.match(await varve.get('/v1/info'), { headers: { [cacheStatusHeader]: memoryHitStatus } })
  t.match(
    await atLeast(varve, 5n, ['/v1/info']),
    { status: 200, headers: { [cacheStatusHeader]: forwarded } },
    'info does not carry its version'
  )
})

t.test('a read with a minimum version is not coalesced with reads without it or with another', async t => {
  const open: ServerResponse[] = []
  const upstream = await startStubUpstream(t, (_request, response) => open.push(response))
  const varve = await varveAt(t, upstream.url)
  for (const target of [modules, `${events}?start=5&limit=5`]) {
    const pending = [varve.get(target), atLeast(varve, 900n, [target]), atLeast(varve, 901n, [target])]
    await until(() => open.length === 3, 'the upstream got three requests')
    for (const response of open.splice(0)) respondOk(response, '[]')
    for (const got of await Promise.all(pending)) t.match(got, { status: 200 })
  }
  const same = [atLeast(varve, 900n, [`${modules}?ledger_version=500`]), varve.get(`${modules}?ledger_version=500`)]
  await until(() => open.length === 1, 'history is fetched once')
  respondOk(open.splice(0)[0] as ServerResponse, '[]')
  t.same(
    (await Promise.all(same)).map(({ headers }) => headers[cacheStatusHeader]).sort(),
    [storedMissStatus, 'varve; fwd=uri-miss; collapsed'].sort()
  )
  t.equal(upstream.requests.length, 7)
})

t.test('an invalid or repeated minimum version is rejected for any read, but ignored for writes', async t => {
  const upstream = await startEmptyUpstream(t)
  const varve = await varveAt(t, upstream.url, { passThrough: 'all' })
  const posted = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
  const view: [target: string, how: TestRequest] = ['/v1/view', {
    ...posted,
    body: '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'
  }]
  const reads: Array<[target: string, how?: TestRequest]> = [
    ...moving,
    ...storedReads,
    ['/v1/info'],
    ['/v1/accounts/0x1'],
    ['/v1/-/healthy'],
    view,
    ['/v1/accounts/0x1', { method: 'HEAD' }]
  ]
  for (const version of ['', 'x', '-1', '1.5', '0x5', '18446744073709551616', ['5', '5']]) {
    for (const read of reads) {
      t.match(await atLeast(varve, version, read), {
        status: 400,
        ...(read[1]?.method !== 'HEAD' && { body: /"error_code":"invalid_input"/ })
      }, `${String(version)} ${read[0]}`)
    }
    t.match(await atLeast(varve, version, ['/v1/transactions', posted]), { status: 200 })
  }
  t.match(await atLeast(varve, '18446744073709551615', ['/v1/transactions', posted]), { status: 200 })
  t.match(await atLeast(varve, '0900', view), { status: 200 })
})

t.test('a known request variant does not bypass the minimum version', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, brief)
  const read = storedReads[0] ?? ['']
  const head = headOf(sandbox)
  t.match(await atLeast(varve, head, read), { headers: { [cacheStatusHeader]: storedMissStatus } })
  for (let nth = 0; nth < 3; nth++) {
    t.match(await atLeast(varve, head, read), { headers: { [cacheStatusHeader]: memoryHitStatus } })
    t.match(await varve.get(...read), { headers: { [cacheStatusHeader]: memoryHitStatus } })
    t.match(await atLeast(varve, head + 1n, read), { status: 404 })
  }
})

t.test('a response without a proven version does not satisfy a minimum version', async t => {
  const upstream = await startStubUpstream(t, (request, response) => {
    const isCode = request.url?.includes('gas') !== true
    response.writeHead(404, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        message: 'm',
        error_code: isCode ? 'table_item_not_found' : 'web_framework_error',
        vm_error_code: null
      })
    )
  })
  const varve = await varveAt(t, upstream.url)
  t.match(await varve.get('/v1/tables/0x5eed/item', key), { status: 404 })
  t.match(await atLeast(varve, 1000n, ['/v1/tables/0x5eed/item', key]), { status: 503 })
  t.match(await atLeast(varve, 1000n, ['/v1/-/healthy']), { status: 503 })
  t.match(await atLeast(varve, 1000n, [`/v1/transactions/by_hash/0x${'1'.repeat(64)}`]), { status: 503 })
  t.match(
    await atLeast(varve, 1000n, ['/v1/estimate_gas_price']),
    { status: 404 },
    'an endpoint missing upstream is no state'
  )
})

t.test('a response too large to store is discarded if it is older than the minimum version', async t => {
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, 'x'.repeat(3 * 2 ** 20), {
      'x-aptos-ledger-version': '900',
      'x-aptos-ledger-timestampusec': '900000'
    })
  })
  const varve = await varveAt(t, upstream.url, { cache: { maxEntryMb: 1 }, upstream: { maxConcurrent: 2 } })
  for (let nth = 0; nth < 3; nth++) {
    t.match(await atLeast(varve, 1000n, [modules]), { status: 503 })
    t.match(await atLeast(varve, 1000n, ['/v1/accounts/0x1']), { status: 503 })
    t.match(
      await atLeast(varve, 1000n, ['/v1/accounts/0x1?ledger_version=500']),
      { status: 200 },
      'the state at a version is the same at any head'
    )
  }
  const noSlot = 'varve_upstream_requests_total{upstream="node",endpoint="account",status="no_slot"}'
  t.equal(await varve.metric(noSlot), undefined, 'no retry waits for the slot of a discarded body')
})

t.test('while the head is unknown, a version cannot be reported as not found', async t => {
  const varve = await varveAt(t, 'http://127.0.0.1:1', { ...brief, chainId: 4 })
  t.match(await atLeast(varve, 5n, [modules]), { status: 503 })
})
