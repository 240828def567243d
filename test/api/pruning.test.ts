import t from 'tap'
import { type Sandbox } from '#sandbox'
import { sendRequest, tableItemLookup } from '../support/client.js'
import {
  respondOk,
  respondToIndex,
  stamps,
  startChangingUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { startWithUpstreams } from '../support/multiple-upstreams.js'
import { until } from '../support/until.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'

const status = 'cache-status'
const local = 'varve; detail=gone'
const modulesAt = '/v1/accounts/0x1/modules?ledger_version='
const table = tableItemLookup('u64', '"7"')
/** Number of reads at the upstream, without those of varve itself. */
const readCount = ({ requests }: Sandbox): number =>
  requests.total -
  (['index', 'block_by_height', 'transaction_by_version'] as const).reduce(
    (sum, name) => sum + requests.countFor(name),
    0
  )
const words = (more: object, version: string, code = 'block_pruned'): string =>
  JSON.stringify({ error_code: code, message: `Ledger version(${version}) has been pruned`, ...more })
const gone: Array<[string, Parameters<typeof sendRequest>[2]]> = [
  ['/v1/tables/0x5eed/item?ledger_version=2000', table],
  ['/v1/accounts/0x1/modules?ledger_version=2000&limit=1', {}],
  ['/v1/blocks/by_version/2000', {}],
  ['/v1/blocks/by_version/2000?with_transactions=true', { headers: { accept: 'application/x-bcs' } }]
]
const endpoints = ['table_item', 'account_modules', 'block_by_version', 'block_by_version']

t.test('a pruned version that is not cached gets the node\'s own 410 without an upstream request', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  sandbox.ledger.pruneTo(600)
  await varve.get('/v1/accounts/0x1/modules?limit=1')
  sandbox.requests.reset()
  for (const [at, [target, options]] of gone.entries()) {
    const got = await varve.get(target, options)
    t.equal(readCount(sandbox), at, 'only the test sent requests upstream')
    const direct = await sendRequest(sandbox.url, target, options)
    t.same([got.status, got.body], [410, direct.body], target)
    t.same([got.headers[status], got.headers['cache-control']], [local, 'no-store'])
    for (
      const name of [
        'ledger-version',
        'ledger-oldest-version',
        'ledger-timestampusec',
        'block-height',
        'oldest-block-height',
        'epoch',
        'chain-id'
      ]
    ) t.equal(got.headers[`x-node-${name}`], direct.headers[`x-aptos-${name}`], name)
    t.ok(await varve.metric(`varve_requests_total{endpoint="${endpoints[at]}",outcome="gone",status="410"}`))
  }
  const distance = Number(sandbox.ledger.oldest.version) - 2000
  for (const [endpoint, times] of [['table_item', 1], ['account_modules', 1], ['block_by_version', 2]] as const) {
    t.equal(await varve.metric(`varve_pruned_requests_total{endpoint="${endpoint}",answer="local"}`), times)
    t.equal(await varve.metric(`varve_pruned_distance_versions_sum{endpoint="${endpoint}"}`), times * distance)
  }
  t.equal(await varve.metric('varve_not_stored_total{endpoint="table_item",reason="status"}'), 0)
})

t.test('a pruned version is served if cached and configured, else a 410, local or upstream', async t => {
  const cached = [true, false].flatMap(serveCached =>
    [true, false].map(answerLocally => [`cached ${serveCached}`, true, { serveCached, answerLocally }] as const)
  )
  const rows = [...cached, ['not cached', false, { serveCached: true, answerLocally: false }] as const]
  for (const [why, isCached, pruned] of rows) {
    const { sandbox, varve } = await varveAtSandbox(t, {}, { pruned })
    const bodies = isCached ? await Promise.all(gone.map(async read => (await varve.get(...read)).body)) : []
    sandbox.ledger.grow(3)
    sandbox.ledger.pruneTo(600)
    await varve.get('/v1/accounts/0x1/modules?limit=1')
    sandbox.requests.reset()
    const isServed = isCached && pruned.serveCached
    const answer = isServed ? 'cache' : pruned.answerLocally ? 'local' : 'upstream'
    const detail = { cache: 'varve; hit; detail=pruned', local, upstream: /; fwd-status=410/ }[answer]
    for (const [at, [target, options]] of gone.entries()) {
      t.match(await varve.get(target, options), {
        status: isServed ? 200 : 410,
        ...isServed && { body: bodies[at] },
        headers: {
          [status]: detail,
          'x-node-ledger-oldest-version': String(sandbox.ledger.oldest.version),
          'x-node-block-height': '1002'
        }
      }, `${why}, ${answer}: ${target}`)
    }
    t.equal(readCount(sandbox), answer === 'upstream' ? gone.length : 0)
    for (const [endpoint, times] of [['table_item', 1], ['block_by_version', 2]] as const) {
      t.equal(await varve.metric(`varve_pruned_requests_total{endpoint="${endpoint}",answer="${answer}"}`), times, why)
      t.equal(await varve.metric(`varve_pruned_distance_versions_count{endpoint="${endpoint}"}`), times, why)
    }
  }
})

t.test('an upstream gets reads of a restored history, and reads above its known head', async t => {
  const { state, ...stub } = await startChangingUpstream(t, { stamps: { 'x-aptos-ledger-oldest-version': '600' } })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get(`${modulesAt}599`), { status: 410 })
  t.match(await varve.get(`${modulesAt}600`), { status: 200 })
  t.match(await varve.get(`${modulesAt}99999`), { status: 503 }, 'the stub rejects it by its own head')
  state.stamps = {}
  t.match(await varve.get(`${modulesAt}700`), { status: 200 }, 'any response updates the window')
  t.match(await varve.get(`${modulesAt}599`), { status: 200, headers: { [status]: /stored/ } })
  t.equal(stub.requests.length, 4)
})

t.test('a window edge inside a cached block makes only its older versions pruned', async t => {
  const body = JSON.stringify({
    block_height: '50',
    block_hash: '0xab',
    block_timestamp: '5',
    first_version: '500',
    last_version: '509',
    transactions: null
  })
  for (const serveCached of [true, false]) {
    const stub = await startStubUpstream(t, (_request, response) => {
      respondOk(response, body, { 'x-aptos-ledger-oldest-version': '505' })
    })
    const varve = await varveAt(t, stub.url, { pruned: { serveCached } })
    const got: unknown[] = []
    for (const version of [505, 504, 509, 505, 500]) {
      got.push((await varve.get(`/v1/blocks/by_version/${version}`)).headers[status])
    }
    const below = serveCached ? 'varve; hit; detail=pruned' : local
    t.same(got, [
      'varve; fwd=uri-miss; fwd-status=200; stored',
      below,
      'varve; hit; detail=memory',
      'varve; hit; detail=memory',
      below
    ])
    t.equal(stub.requests.length, 1)
    t.equal(await varve.metric('varve_pruned_distance_versions_sum{endpoint="block_by_version"}'), 1 + 5)
  }
})

t.test('a pruned entry of an old release is served unchanged without an upstream request', async t => {
  const { state, ...stub } = await startChangingUpstream(t)
  const varve = await varveAt(t, stub.url, { head: { pollMs: 10 } })
  const read = async (): Promise<unknown> => (await varve.get(`${modulesAt}100`)).headers[status]
  t.equal(await read(), 'varve; fwd=uri-miss; fwd-status=200; stored')
  // One poll learns both.
  state.release = 'bbbb'
  state.stamps = { 'x-aptos-ledger-oldest-version': '200' }
  await until(async () => await read() === 'varve; hit; detail=pruned', 'the poll has learned both')
  t.equal(stub.requests.length, 1)
})

t.test('a 410 within the known window applies to that response only, and has no distance', async t => {
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    if (nth > 2) respondOk(response, '[]')
    else response.writeHead(410, { 'content-type': 'application/json', ...stamps() }).end(words({}, '500'))
  })
  const varve = await varveAt(t, stub.url)
  for (const code of [410, 410, 200]) {
    t.equal((await varve.get('/v1/accounts/0x1/modules?ledger_version=500')).status, code)
  }
  t.same([
    await varve.metric('varve_pruned_requests_total{endpoint="account_modules",answer="upstream"}'),
    await varve.metric('varve_pruned_distance_versions_count{endpoint="account_modules"}')
  ], [2, undefined])
})

t.test('a response of another chain does not change the window', async t => {
  const { state, ...stub } = await startChangingUpstream(t)
  const varve = await varveAt(t, stub.url)
  state.stamps = { 'x-aptos-chain-id': '9', 'x-aptos-ledger-oldest-version': '900' }
  for (let round = 0; round < 2; round++) t.match(await varve.get(`${modulesAt}500`), { status: 503 })
  t.equal(stub.requests.length, 1, 'no data request before its chain is verified')
})

t.test('an upstream\'s 410 is forwarded unchanged, and local 410s copy its allow-listed members', async t => {
  let more: Record<string, unknown> = {
    hint: 'use the archive',
    oldest_ledger_version: '11',
    archival_endpoint: 'https://archive.example/v1',
    secret: 'x'
  }
  let header: Record<string, string> = { 'x-aptos-archival-endpoint': 'https://archive.example/v1', 'x-secret': 'x' }
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(410, { 'content-type': 'application/json', ...stamps(), ...header }).end(words(more, '12'))
  }, respondToIndex)
  const varve = await varveAt(t, stub.url)
  const plain = { message: 'Ledger version(5) has been pruned', error_code: 'version_pruned', vm_error_code: null }
  const localOne = async (): Promise<{ body: unknown, archive: unknown }> => {
    const got = await varve.get('/v1/blocks/by_version/5')
    t.match(got, { status: 410, headers: { [status]: local, 'x-secret': undefined } })
    return { body: JSON.parse(got.body), archive: got.headers['x-aptos-archival-endpoint'] }
  }
  const passed = async (): Promise<void> => {
    const got = await varve.get('/v1/blocks/by_version/12')
    t.match(got, {
      status: 410,
      body: words(more, '12'),
      headers: { 'x-aptos-archival-endpoint': header['x-aptos-archival-endpoint'], 'x-secret': undefined }
    })
  }
  t.same(await localOne(), { body: plain, archive: undefined }, 'nothing seen yet')
  await passed()
  t.same(await localOne(), {
    body: {
      ...plain,
      hint: 'use the archive',
      oldest_ledger_version: '10',
      archival_endpoint: 'https://archive.example/v1'
    },
    archive: 'https://archive.example/v1'
  }, 'the oldest version is the current one')
  more = { hint: 'x'.repeat(5000), archival_endpoint: ['https://archive.example'], oldest_ledger_version: '10' }
  header = {}
  await passed()
  t.same(
    await localOne(),
    { body: { ...plain, oldest_ledger_version: '10' }, archive: undefined },
    'too long texts and other types are left out'
  )
  more = {}
  header = { 'x-aptos-archival-endpoint': 'x'.repeat(3000) }
  t.match(await varve.get('/v1/blocks/by_version/12'), { status: 410, body: words(more, '12') })
  t.same(await localOne(), { body: plain, archive: undefined }, 'the newest 410 decides')
})

t.test('a 410 with another error code teaches nothing about pruning', async t => {
  const bodies = [
    words({ hint: 'first' }, '12', 'version_pruned'),
    JSON.stringify({ error_code: 'internal_error', message: 'x', hint: 'other' }),
    'gone',
    'null'
  ]
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    response.writeHead(410, { 'content-type': 'application/json', ...stamps() }).end(bodies[nth - 1])
  })
  const varve = await varveAt(t, stub.url)
  for (const body of bodies) t.match(await varve.get('/v1/blocks/by_version/12'), { status: 410, body })
  t.match(JSON.parse((await varve.get('/v1/blocks/by_version/5')).body), { hint: 'first' })
})

t.test('without a known position no local 410 is sent and the read goes upstream', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  }, (_request, response) => {
    response.writeHead(503).end()
  })
  const varve = await varveAt(t, stub.url, { chainId: 4 })
  t.match(await varve.get('/v1/accounts/0x1/modules?ledger_version=11'), { status: 200 })
})

const blocks = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'

t.test('with pages.strict a page that begins above its start because of pruning is 410', async t => {
  for (const mode of ['empty', 'gaps'] as const) {
    const { sandbox, varve } = await varveAtSandbox(t, { prunedBlocks: 500 }, { pages: { strict: true } })
    sandbox.ledger.prunedEvents = mode
    await varve.get(blocks)
    const { oldest } = sandbox.ledger
    t.match(await varve.get(`${blocks}?start=498&limit=5`), {
      status: 410,
      body: new RegExp(`Ledger version\\(${oldest.version - 1n}\\) has been pruned","error_code":"version_pruned"`),
      headers: { [status]: 'varve; detail=gone' }
    }, mode)
    t.match(await varve.get(`${blocks}?start=510&limit=5`), { status: 200 }, 'what is left is served')
    t.match(await varve.get(`${blocks}?start=5000&limit=5`), { status: 200, body: '[]' }, 'more may follow')
  }
})

t.test('with pages.strict a page is gone only if no upstream that is down may have its beginning', async t => {
  const { upstreams: [full, pruned], varve } = await startWithUpstreams(t, [{}, { prunedBlocks: 500 }], {
    pages: { strict: true }
  })
  if (full === undefined || pruned === undefined) throw new Error('two upstreams')
  for (const { ledger } of [full, pruned]) ledger.prunedEvents = 'gaps'
  const page = `${blocks}?start=498&limit=5`
  t.match(await varve.get(`${page}&x=1`), { status: 200 }, 'from the longer history')
  full.faults.add({ kind: 'reset' })
  t.match(await varve.get(`${blocks}?start=497&limit=5`), { status: 503 })
  const other = await varveAtSandbox(t, { prunedBlocks: 0 }, { pages: { strict: true } })
  other.sandbox.faults.add({ kind: 'body', body: (await sendRequest(pruned.url, page)).body, match: 'account_events' })
  t.match(await other.varve.get(page), { status: 200 }, 'of a node that has pruned nothing')
})
