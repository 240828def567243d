import t from 'tap'
import { type Outcome, outcomeNameOf } from '../../src/proxy/outcomes.js'
import { type ProxyParts } from '../../src/http/send-response.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { type EndpointName, type Fault, type Sandbox } from '#sandbox'
import { sendRequest, tableItemLookup } from '../support/client.js'
import { bodyOf, contextAtSandbox } from '../support/proxy-context.js'
import { memoryHitStatus, cacheStatusHeader } from '../support/cache-status.js'
import { headAt, respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'

const version_ = 'x-node-ledger-version'
const info = '/v1/info'
const gas = '/v1/estimate_gas_price'
const modules = '/v1/accounts/0xcafe/modules'
const table = '/v1/tables/0x5eed/item'
const microCached: readonly [string, EndpointName, number][] = [[info, 'info', 1000], [gas, 'estimate_gas_price', 500]]

/** Parts of a response that the tests compare. */
interface Served {
  readonly name: string
  readonly status: number
  readonly body: string
  readonly version: bigint | undefined
}

interface Proxy {
  readonly sandbox: Sandbox
  readonly parts: ProxyParts
  readonly clock: { ms: number }
  get(target: string): Promise<Served>
}

async function proxyAt (...how: Parameters<typeof contextAtSandbox>): Promise<Proxy> {
  const { sandbox, parts, clock, get } = await contextAtSandbox(...how)
  return {
    sandbox,
    parts,
    clock,
    get: async target => servedOf(await get(target).catch((error: unknown) => error as ErrorResponse))
  }
}

function servedOf (outcome: Outcome | ErrorResponse): Served {
  if (outcome instanceof ErrorResponse) {
    return { name: 'rejected', status: outcome.status, body: outcome.body, version: undefined }
  }
  const { status } = 'entry' in outcome ? outcome.entry : outcome.fetched.response
  return { name: outcomeNameOf(outcome), status, body: bodyOf(outcome), version: outcome.position?.head.version }
}

/** Waits long enough for the sandbox in this process to read its state. */
const eventLoopTurn = async (): Promise<void> => {
  await new Promise(resolve => {
    setImmediate(resolve)
  })
}

const names = (responses: readonly Served[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { name, status } of responses) counts[`${name} ${status}`] = (counts[`${name} ${status}`] ?? 0) + 1
  return counts
}

for (const [target, endpoint, forMs] of microCached) {
  t.test(`${target} is micro-cached for ${forMs} ms, counted from its request`, async t => {
    const { sandbox, clock, get } = await proxyAt(t)
    const hold = sandbox.faults.hold(endpoint)
    const first = get(target)
    await hold.arrived
    clock.ms = forMs - 100
    hold.release()
    const served = await first
    t.match(served, { name: 'forwarded', status: 200 })
    t.match(await get(target), { name: 'hit_memory', status: 200, body: served.body })
    clock.ms = forMs - 1
    t.match(await get(`${target}?x=y`), { name: 'hit_memory', body: served.body }, 'for every request variant')
    t.equal(sandbox.requests.total, 1)
    clock.ms = forMs
    t.match(await get(target), { name: 'forwarded' })
    t.equal(sandbox.requests.countFor(endpoint), 2)
  })

  t.test(`a slow upstream gets one request at a time for ${target}; no late response is reused`, async t => {
    const { sandbox, clock, get } = await proxyAt(t)
    const hold = sandbox.faults.hold(endpoint)
    const first = get(target)
    await hold.arrived
    const pending = Array.from({ length: 200 }, async () => await get(target))
    clock.ms = forMs
    t.equal(hold.arrivedCount, 1)
    const next = sandbox.faults.hold(endpoint)
    hold.release()
    t.match(await first, { name: 'forwarded' })
    await Promise.race([next.arrived, ...pending])
    t.equal(next.arrivedCount, 1)
    pending.push(...Array.from({ length: 200 }, async () => await get(target)))
    t.equal(next.arrivedCount, 1)
    next.release()
    t.same(names(await Promise.all(pending)), { 'forwarded 200': 200, 'hit_memory 200': 200 })
    t.equal(sandbox.requests.total, 2)
  })

  t.test(`with the micro-cache off, ${target} is never older than its request`, async t => {
    const { sandbox, parts, get } = await proxyAt(t, { infoIsIndex: true }, { latest: { infoMs: 0, gasMs: 0 } })
    const hold = sandbox.faults.hold(endpoint, { late: true })
    const early = get(target)
    await hold.arrived
    await eventLoopTurn()
    const before = sandbox.ledger.head.version
    sandbox.ledger.grow()
    const late = Array.from({ length: 20 }, async () => await get(target))
    hold.release()
    t.match(await early, { name: 'forwarded', version: before })
    t.same(new Set((await Promise.all(late)).map(served => served.version)), new Set([sandbox.ledger.head.version]))
    t.equal(sandbox.requests.total, 2)
    t.match(await get(target), { name: 'forwarded' })
    t.equal(sandbox.requests.total, 3)
    t.equal(parts.memory.entries, 0)
  })

  t.test(`a faulty response to ${target} is never micro-cached`, async t => {
    const faults: readonly [Fault, number][] = [
      [{ kind: 'error', code: 'internal_error', stamped: true }, 500],
      [{ kind: 'error', code: 'internal_error', status: 503 }, 503],
      [{ kind: 'error', code: 'api_disabled' }, 403],
      [{ kind: 'error', code: 'table_item_not_found', status: 404, stamped: false }, 404],
      [{ kind: 'rateLimited' }, 429],
      [{ kind: 'html' }, 503],
      [{ kind: 'panic200' }, 503],
      [{ kind: 'cutShort' }, 503],
      [{ kind: 'garbage' }, 503],
      [{ kind: 'otherChain', chainId: 9 }, 503],
      [{ kind: 'headers', set: { 'content-encoding': 'gzip' } }, 503],
      [{ kind: 'headers', set: { 'cache-control': 'max-age=1, no-store' } }, 200],
      [{ kind: 'headers', set: { 'cache-control': 'private' } }, 200],
      [{ kind: 'headers', set: { vary: 'cookie' } }, 200]
    ]
    for (const [fault, code] of faults) {
      const { sandbox, parts, get } = await proxyAt(t, { infoIsIndex: fault.kind === 'otherChain' })
      sandbox.faults.add({ ...fault, times: 1 })
      const name = JSON.stringify(fault)
      t.equal((await get(target)).status, code, name)
      t.equal(parts.memory.entries, 0, name)
      t.match(await get(target), { name: 'forwarded', status: 200 }, name)
      t.match(await get(target), { name: 'hit_memory', status: 200 }, name)
      t.equal(sandbox.requests.countFor(endpoint), 2, name)
    }
  })

  t.test(`a failed fetch of ${target} fails one request; coalesced ones fetch once more`, async t => {
    const failures: readonly [Fault, string][] = [
      [{ kind: 'error', code: 'internal_error' }, 'forwarded 500'],
      [{ kind: 'error', code: 'internal_error', status: 503 }, 'forwarded 503'],
      [{ kind: 'cutShort' }, 'rejected 503']
    ]
    for (const [fault, failure] of failures) {
      for (const [times, requestCount, ...sums] of [[1, 2, 0, 20], [2, 3, 1, 19], [Infinity, 3, 20, 0]] as const) {
        const { sandbox, get } = await proxyAt(t, {}, { latest: { infoMs: 0, gasMs: 0 } })
        sandbox.faults.add({ ...fault, times })
        const hold = sandbox.faults.hold(endpoint)
        const first = get(target)
        await hold.arrived
        const gathered = Array.from({ length: 20 }, async () => await get(target))
        hold.release()
        t.same(names([await first]), { [failure]: 1 }, 'the first request alone')
        const counts = names(await Promise.all(gathered))
        t.same([counts[failure] ?? 0, counts['forwarded 200'] ?? 0], sums, `${failure} ${times} times`)
        t.equal(sandbox.requests.total, requestCount, `${failure} ${times} times`)
      }
    }
  })
}

t.test('a stale latest response is served and counted if its retry fails; a false one is rejected', async t => {
  const old = headAt(900)
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    if (nth === 1) respondOk(response, '[1]', old)
    else if (nth === 2) respondOk(response, '<html>', { 'content-type': 'text/html' })
    else {
      respondOk(
        response,
        '{"block_height":"3","block_hash":"0x0","block_timestamp":"1","first_version":"20","last_version":"29","transactions":null}'
      )
    }
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get(modules), {
    body: '[1]',
    headers: { [cacheStatusHeader]: 'varve; fwd=bypass', [version_]: '900' }
  })
  t.equal(await varve.metric('varve_stale_latest_total'), 1)
  const requestCount = stub.requests.length
  t.match(await varve.get('/v1/blocks/by_version/30'), {
    status: 503,
    headers: { [cacheStatusHeader]: 'varve; detail=unavailable' }
  })
  t.equal(await varve.metric('varve_not_stored_total{endpoint="block_by_version",reason="wrong_block"}'), 1)
  t.equal(stub.requests.length, requestCount + 1)
})

t.test('micro-cached node info and gas estimates carry the present position, which never goes back', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { infoIsIndex: false }, {
    latest: { infoMs: 3_600_000, gasMs: 3_600_000 }
  })
  const at = (version: bigint, oldest: bigint): object => ({
    [version_]: String(version),
    'x-aptos-ledger-version': String(version),
    'x-node-ledger-oldest-version': String(oldest),
    'x-node-chain-id': '4',
    'x-node-ledger-timestampusec': /^\d+$/,
    'x-node-epoch': /^\d+$/,
    'x-node-block-height': /^\d+$/,
    'x-node-oldest-block-height': /^\d+$/
  })
  const [{ version: first }, { version: oldest }] = [sandbox.ledger.head, sandbox.ledger.oldest]
  const served = await varve.get(info)
  t.match(served.headers, {
    [cacheStatusHeader]: 'varve; fwd=bypass',
    'cache-control': 'no-store',
    ...at(first, oldest)
  })
  sandbox.ledger.grow(3)
  sandbox.ledger.pruneTo(120)
  const [{ version: second }, { version: risen }] = [sandbox.ledger.head, sandbox.ledger.oldest]
  t.match((await varve.get(gas)).headers, {
    [cacheStatusHeader]: 'varve; fwd=bypass',
    'cache-control': 'no-store',
    ...at(second, risen)
  })
  t.match((await varve.get(info)).headers, {
    [cacheStatusHeader]: memoryHitStatus,
    'cache-control': 'no-store',
    vary: 'Accept, Accept-Encoding',
    etag: served.headers.etag,
    ...at(second, risen)
  })
  sandbox.ledger.grow()
  const third = sandbox.ledger.head.version
  await varve.get('/v1')
  sandbox.faults.add({ kind: 'lag', blocks: 10 })
  await varve.get('/v1')
  for (const target of [info, gas]) {
    t.match((await varve.get(target)).headers, { [cacheStatusHeader]: memoryHitStatus, ...at(third, risen) })
  }
  t.match(await varve.get(info, { headers: { 'if-none-match': String(served.headers.etag) } }), {
    status: 304,
    body: '',
    headers: { [cacheStatusHeader]: memoryHitStatus, ...at(third, risen) }
  })
  t.match(await varve.get(info, { method: 'HEAD' }), {
    status: 200,
    body: '',
    headers: { [cacheStatusHeader]: memoryHitStatus }
  })
  t.same([sandbox.requests.countFor('info'), sandbox.requests.countFor('estimate_gas_price')], [1, 1])
})

t.test('node info carries a position even if none was known before, with chainId configured', async t => {
  let isUp = false
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  }, (_request, response) => {
    if (isUp) respondOk(response, '{}')
    else response.writeHead(503).end()
  })
  const varve = await varveAt(t, stub.url, { chainId: 4 })
  isUp = true
  t.match(await varve.get(info), { status: 200, headers: { 'x-node-chain-id': '4', [version_]: '1000' } })
})

t.test('node info is always JSON; a gas estimate has both forms, each micro-cached', async t => {
  const both = [undefined, { headers: { accept: 'application/x-bcs' } }]
  for (const infoIsIndex of [false, true]) {
    const { sandbox, varve } = await varveAtSandbox(t, { infoIsIndex }, {
      latest: { infoMs: 3_600_000, gasMs: 3_600_000 }
    })
    const [first, second] = [await varve.get(info, both[1]), await varve.get(info, both[0])]
    t.match(first, {
      status: 200,
      headers: {
        [cacheStatusHeader]: 'varve; fwd=bypass',
        'content-type': 'application/json; charset=utf-8',
        [version_]: String(sandbox.ledger.head.version)
      }
    })
    t.match(second, { status: 200, body: first.body, headers: { [cacheStatusHeader]: memoryHitStatus } })
    t.equal(
      JSON.parse(first.body)[infoIsIndex ? 'git_hash' : 'node_type'],
      infoIsIndex ? sandbox.ledger.release : 'PublicFullnode'
    )
    if (!infoIsIndex) t.same(JSON.parse(first.body), JSON.parse((await sendRequest(sandbox.url, info, both[1])).body))
    for (const how of [...both, ...both]) {
      t.same((await varve.get(gas, how)).bytes, (await sendRequest(sandbox.url, gas, how)).bytes)
    }
    t.same([sandbox.requests.countFor('info'), sandbox.requests.countFor('estimate_gas_price')], [
      infoIsIndex ? 1 : 2,
      2 + 4
    ])
    t.ok(
      sandbox.requests.latest.every(({ endpoint, headers }) =>
        endpoint !== 'info' || !infoIsIndex || headers.includes('application/json')
      )
    )
  }
})

t.test('a response with a Cache-Control veto is micro-cached if the operator ignores vetoes', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, {
    upstream: { ignoreCacheControl: true },
    latest: { infoMs: 3_600_000, gasMs: 3_600_000 }
  })
  sandbox.faults.add({ kind: 'headers', set: { 'cache-control': 'no-store' } })
  for (const target of [info, gas]) {
    for (const expectedStatus of ['varve; fwd=bypass', memoryHitStatus]) {
      t.match((await varve.get(target)).headers, { [cacheStatusHeader]: expectedStatus })
    }
  }
})

t.test('a chain reset invalidates all micro-cached responses', async t => {
  const { sandbox, parts, get } = await proxyAt(t, {}, { latest: { stateMs: 1000 } })
  for (const target of [info, gas, modules]) {
    t.same(names([await get(target), await get(target)]), { 'forwarded 200': 1, 'hit_memory 200': 1 })
  }
  sandbox.faults.add({ kind: 'otherChain' })
  await parts.resolveChain()
  for (const target of [info, gas, modules]) {
    t.same(names([await get(target), await get(target)]), { 'forwarded 200': 1, 'hit_memory 200': 1 })
  }
  t.same(
    ['info', 'estimate_gas_price', 'account_modules'].map(name => sandbox.requests.countFor(name as EndpointName)),
    [2, 2, 2]
  )
})

t.test('a latest read may be stateMs old, is then a hit, and carries the position it was read at', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { latest: { stateMs: 3_600_000 } })
  const reads = [[modules, {}], [modules, { headers: { accept: 'application/x-bcs' } }], [
    table,
    tableItemLookup('u64', '"7"')
  ]] as const
  const readAt = positionIn(sandbox)
  const responses = []
  for (const [target, testRequest] of reads) responses.push(await varve.get(target, testRequest))
  for (const { headers } of responses) t.match(headers, { [cacheStatusHeader]: 'varve; fwd=bypass', ...readAt })
  sandbox.ledger.grow(700)
  sandbox.ledger.pruneTo(800)
  await varve.get('/v1')
  const present = positionIn(sandbox)
  const again = []
  for (const [target, testRequest] of reads) again.push(await varve.get(target, testRequest))
  for (const { headers } of again) {
    t.match(headers, { [cacheStatusHeader]: memoryHitStatus, 'cache-control': 'no-store', ...readAt })
  }
  t.same(again.map(({ bytes }) => bytes), responses.map(({ bytes }) => bytes))
  t.match((await varve.get(`${modules}?ledger_version=${sandbox.ledger.head.version}`)).headers, {
    [cacheStatusHeader]: /miss/,
    ...present
  }, 'the same read at a version carries the present one')
  t.match((await varve.get(gas)).headers, { [cacheStatusHeader]: 'varve; fwd=bypass', ...present })
  t.same([sandbox.requests.countFor('account_modules'), sandbox.requests.countFor('table_item')], [3, 1])
  t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}'), 2)
  t.equal(await varve.metric('varve_requests_total{endpoint="table_item",outcome="hit_memory",status="200"}'), 1)
})

t.test('a latest read is micro-cached for stateMs from its request; the newest events never are', async t => {
  const { sandbox, clock, get } = await proxyAt(t, {}, { latest: { stateMs: 300 } })
  const events = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
  const hold = sandbox.faults.hold('account_modules')
  const first = get(modules)
  await hold.arrived
  clock.ms = 200
  hold.release()
  const { version } = await first
  sandbox.ledger.grow()
  clock.ms = 299
  t.match(await get(modules), { name: 'hit_memory', version })
  t.match(await get(`${modules}?limit=1`), { name: 'forwarded' }, 'another read has its own response')
  clock.ms = 300
  t.match(await get(modules), { name: 'forwarded', version: sandbox.ledger.head.version })
  t.same(names([await get(events), await get(events)]), { 'forwarded 200': 2 })
})

t.test('a latest not-found is micro-cached and stored for the same text of its key only', async t => {
  const stub = await startStubUpstream(t, (request, response, nth) => {
    request.resume()
    response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
      `{"message":"${nth}","error_code":"table_item_not_found","vm_error_code":null}`
    )
  })
  const varve = await varveAt(t, stub.url, { latest: { stateMs: 3_600_000 } })
  const at = `${table}?ledger_version=1000`
  const rows: ReadonlyArray<readonly [target: string, key: string, nth: number, cacheStatus: string | RegExp]> = [
    [table, '"8"', 1, 'varve; fwd=bypass'],
    [table, '"08"', 2, 'varve; fwd=bypass'],
    [table, ' "8" ', 1, memoryHitStatus],
    [table, '"08"', 2, memoryHitStatus],
    [at, '"8"', 1, memoryHitStatus],
    [at, '"08"', 2, memoryHitStatus],
    [at, '"008"', 3, /stored/]
  ]
  for (const [target, key, nth, cacheStatus] of rows) {
    t.match(await varve.get(target, tableItemLookup('u64', key)), {
      status: 404,
      body: `"message":"${nth}"`,
      headers: { [cacheStatusHeader]: cacheStatus, [version_]: '1000' }
    }, `${target} ${key}`)
  }
})

t.test('errors, not-founds without a position, and stale responses are never micro-cached', async t => {
  const old = headAt(900)
  const missing = '{"message":"","error_code":"table_item_not_found","vm_error_code":null}'
  const scripts: Record<string, Parameters<typeof startStubUpstream>[1]> = {
    'an error': (_request, response) => {
      response.writeHead(500, { 'content-type': 'application/json', ...stamps() }).end('{}')
    },
    'no such table': (_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(
        '{"error_code":"resource_not_found"}'
      )
    },
    'a not-found without a position': (_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' }).end(missing)
    },
    'a response of a lagging upstream': (_request, response) => {
      respondOk(response, '"1"', old)
    },
    'a not-found of a lagging upstream': (_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json', ...stamps(old) }).end(missing)
    }
  }
  for (const [name, script] of Object.entries(scripts)) {
    const stub = await startStubUpstream(t, script)
    const varve = await varveAt(t, stub.url, { latest: { stateMs: 3_600_000, gasMs: 3_600_000, promote: false } })
    const requestCounts = []
    for (const target of [table, table]) {
      t.match((await varve.get(target, tableItemLookup('u64', '"7"'))).headers, {
        [cacheStatusHeader]: 'varve; fwd=bypass'
      }, name)
      requestCounts.push(stub.requests.length)
    }
    t.ok(Number(requestCounts[1]) > Number(requestCounts[0]), name)
  }
})

t.test('a latest read is stored at its version, micro-cached or not, unless promote is off', async t => {
  for (const stateMs of [0, 3_600_000]) {
    for (const promote of [true, false]) {
      const { sandbox, varve } = await varveAtSandbox(t, {}, { latest: { stateMs, promote } })
      const { version } = sandbox.ledger.head
      const first = await varve.get(table, tableItemLookup('u64', '"7"'))
      sandbox.ledger.grow(50)
      await varve.get('/v1')
      const name = `stateMs ${stateMs}, promote ${promote}`
      t.match(
        (await varve.get(table, tableItemLookup('u64', '"7"'))).headers,
        stateMs === 0
          ? { [cacheStatusHeader]: 'varve; fwd=bypass', [version_]: String(sandbox.ledger.head.version) }
          : { [cacheStatusHeader]: memoryHitStatus, [version_]: String(version) },
        name
      )
      const pinned = await varve.get(`${table}?ledger_version=${version}`, tableItemLookup('u64', '"007"'))
      t.match(pinned, {
        body: first.body,
        headers: {
          [cacheStatusHeader]: promote ? memoryHitStatus : /^varve; fwd=uri-miss;/,
          'cache-control': 'no-cache',
          [version_]: String(sandbox.ledger.head.version)
        }
      }, name)
      t.equal(sandbox.requests.countFor('table_item'), (stateMs === 0 ? 2 : 1) + (promote ? 0 : 1), name)
    }
  }
})

function positionIn ({ ledger }: Sandbox): Record<string, string> {
  const { head, oldest } = ledger
  return {
    [version_]: String(head.version),
    'x-node-ledger-timestampusec': String(head.timestampUsec),
    'x-node-epoch': String(head.epoch),
    'x-node-block-height': String(head.blockHeight),
    'x-node-ledger-oldest-version': String(oldest.version),
    'x-node-oldest-block-height': String(oldest.blockHeight)
  }
}
