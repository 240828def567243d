import { once } from 'node:events'
import { request } from 'node:http'
import t from 'tap'
import { withTimeout } from '../../src/with-timeout.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { type Sandbox } from '#sandbox'
import { type TestRequest, type TestResponse, sendRequest, tableItemLookup } from '../support/client.js'
import { contextAt, readOfTarget, settingsOf } from '../support/proxy-context.js'
import { cacheStatusHeader } from '../support/cache-status.js'
import { startWithUpstreams } from '../support/multiple-upstreams.js'
import { stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const version_ = 'x-node-ledger-version'
const waitingConfig = { waitForVersion: { ms: 5000 } }
const hour = { waitForVersion: { ms: 3_600_000 } }

/** Returns every read that can name a version. */
const readsAt = (version: bigint): Array<[target: string, how?: TestRequest]> => [
  [`/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`],
  [`/v1/tables/0x5eed/item?ledger_version=${version}`, tableItemLookup('u64', '"7"')],
  [`/v1/blocks/by_version/${version}`]
]

/** A forwarded read, which the sandbox serves at any head. */
const passedAt = (version: bigint): [target: string] => [`/v1/-/healthy?ledger_version=${version}`]

const headOf = ({ ledger }: Sandbox): bigint => ledger.head.version
const waitingCount = async (varve: TestVarve): Promise<number | undefined> =>
  await varve.metric('varve_waiting_for_version')
const waits = async (varve: TestVarve): Promise<unknown[]> =>
  await Promise.all(
    ['reached', 'timeout'].map(async result => await varve.metric(`varve_version_waits_total{result="${result}"}`))
  )

/** Returns the responses to reads that wait until the test lets the chain grow. */
async function readDuring (
  varve: TestVarve,
  reads: ReadonlyArray<[target: string, how?: TestRequest]>,
  change: () => void
): Promise<TestResponse[]> {
  const pending = Promise.all(reads.map(async ([target, options]) => await varve.get(target, options)))
  await until(async () => await waitingCount(varve) === reads.length, 'all reads wait for their versions')
  change()
  return await pending
}

t.test('a read just above the head waits, and is served when the chain has grown', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, waitingConfig)
  t.same([await waitingCount(varve), await waits(varve)], [0, [0, 0]], 'the metrics exist from the start')
  const target = headOf(sandbox) + 1n
  const responses = await readDuring(varve, [...readsAt(target), passedAt(target)], () => {
    sandbox.ledger.grow(2)
  })
  for (const { status, headers } of responses) t.ok(status === 200 && BigInt(String(headers[version_])) >= target)
  t.same([await waitingCount(varve), await waits(varve)], [0, [4, 0]])
  t.same(
    ['account_modules', 'table_item', 'block_by_version'].map(name => sandbox.requests.counts[name]),
    [1, 1, 1],
    'the upstream is read once it has the version'
  )
})

t.test('a version far above the head is denied at once; the distance depends on block size', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, hour)
  const head = headOf(sandbox)
  for (const read of readsAt(head + 1000n)) {
    t.match(await varve.get(...read), { status: 404, body: /version_not_found/ })
  }
  t.same(await waits(varve), [0, 0])
  // Blocks have several versions, so the second block ends well above two versions.
  const { firstVersion } = sandbox.ledger.block(100)
  const most = (2n * (head - firstVersion) + 898n) / 899n
  t.ok(most > 2n)
  t.match(await varve.get(`/v1/accounts/0x1/modules?ledger_version=${head + most + 1n}`), { status: 404 })
  const [got] = await readDuring(varve, [[`/v1/accounts/0x1/modules?ledger_version=${head + most}`]], () => {
    sandbox.ledger.grow(20)
  })
  t.equal(got?.status, 200)
})

t.test('until a second block is seen, a block counts as one version', async t => {
  const index = stamps({ 'x-aptos-oldest-block-height': '100' })
  const upstream = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404, index).end()
  }, (_request, response) => {
    response.writeHead(200, index).end('{}')
  })
  const varve = await varveAt(t, upstream.url, { waitForVersion: { ms: 20 } })
  for (const [version, timeouts] of [[1003, 0], [1002, 1]]) {
    t.match(await varve.get(`/v1/blocks/by_version/${version}`), { status: 404 })
    t.same(await waits(varve), [0, timeouts])
  }
})

t.test('after the wait the upstream is read, and its own not-found is forwarded', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { waitForVersion: { ms: 100 } })
  const target = headOf(sandbox) + 1n
  const began = performance.now()
  const got = await varve.get(`/v1/blocks/by_version/${target}`)
  t.ok(performance.now() - began >= 95)
  t.match(got, {
    status: 404,
    headers: { [cacheStatusHeader]: /fwd-status=404/ },
    body: (await sendRequest(sandbox.url, `/v1/blocks/by_version/${target}`)).body
  })
  t.same([await waitingCount(varve), await waits(varve)], [0, [0, 1]])
})

t.test('without a configured wait no read waits by itself', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  for (const read of readsAt(headOf(sandbox) + 1n)) t.match(await varve.get(...read), { status: 404 })
  t.same(await waits(varve), [0, 0])
})

t.test('one upstream that reaches the version is enough, and that one is read', async t => {
  const { upstreams, varve, takeRequestCounts } = await startWithUpstreams(t, [{}, {}], {
    ...waitingConfig,
    head: { pollMs: 600_000 }
  })
  const [, ahead] = upstreams
  const target = (ahead === undefined ? 0n : headOf(ahead)) + 1n
  const responses = await readDuring(varve, readsAt(target), () => {
    ahead?.ledger.grow(2)
  })
  t.same(responses.map(({ status }) => status), [200, 200, 200])
  t.same(takeRequestCounts(), [0, 3])
})

t.test('a read that waits across a chain reset gets the response of the new chain', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { waitForVersion: { ms: 1500 } })
  const [got] = await readDuring(varve, [[`/v1/accounts/0x1/modules?ledger_version=${headOf(sandbox) + 1n}`]], () => {
    sandbox.faults.add({ kind: 'otherChain' })
  })
  t.match(got, { status: 404 })
  t.ok(BigInt(String(got?.headers[version_])) < headOf(sandbox))
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
})

t.test('one client takes a quarter of all waits at most; a wait without a place gets Retry-After', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { waitForVersion: { ms: 3_600_000 } })
  const target = `/v1/blocks/by_version/${headOf(sandbox) + 1n}`
  const least = { 'x-varve-min-ledger-version': String(headOf(sandbox) + 1n) }
  const readFrom = async (localAddress: string, headers = {}): Promise<TestResponse> =>
    await varve.get(target, { localAddress, headers })
  const started = performance.now()
  const pending: Array<Promise<TestResponse>> = []
  for (const [nth, client] of ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'].entries()) {
    pending.push(...Array.from({ length: 250 }, async () => await readFrom(client)))
    await until(async () => await waitingCount(varve) === 250 * (nth + 1), 'the waits of a client are taken')
    const more = await withTimeout(20_000, Promise.all([readFrom(client), readFrom(client, least)]))
    t.match(more, [{ status: 404, headers: { [cacheStatusHeader]: /fwd-status=404/ } }, {
      status: 503,
      headers: { 'retry-after': '1' }
    }], 'neither waits')
  }
  t.match(await readFrom('127.0.0.6', least), { status: 503 }, 'no place is left for others')
  t.equal(await varve.metric('varve_version_waits_total{result="too_many_waits"}'), 9)
  const polls = sandbox.requests.countFor('index')
  t.ok(polls <= 2 + (performance.now() - started) / 100, `${polls} polls, whatever the number of waits`)
  sandbox.ledger.grow()
  t.same(new Set((await Promise.all(pending)).map(({ status }) => status)), new Set([200]))
  const again = readFrom('127.0.0.2', { 'x-varve-min-ledger-version': String(headOf(sandbox) + 1n) })
  await until(async () => await waitingCount(varve) === 1, 'a place that is free is taken again')
  sandbox.ledger.grow()
  t.match(await again, { status: 200 })
})

t.test('both waits together last no longer than one', async t => {
  const { context: made } = contextAt(
    t,
    (await startStubUpstream(t, (_request, response) => {
      response.writeHead(404, stamps()).end()
    })).url
  )
  const recorded: Array<[bigint, number]> = []
  const clock = { ms: 0 }
  const waitFor = async (version: bigint, ms: number): Promise<'reached'> => {
    recorded.push([version, ms])
    clock.ms += 400
    const { stamped } = made.tracker
    if (stamped !== undefined) {
      made.tracker.learn({
        ...stamped.position,
        head: { ...stamped.position.head, version, timestampUsec: version * 1000n + 10n ** 9n }
      }, 'x-aptos-')
    }
    return 'reached'
  }
  for (const waitMs of [1000, 300]) {
    const parts = {
      ...made,
      now: () => clock.ms,
      settings: settingsOf({ waitForVersion: { ms: waitMs } }),
      versionWaits: { waitFor, close: () => {} }
    }
    await parts.resolveChain()
    const head = parts.tracker.position?.head.version ?? 0n
    await serveRead(parts, { ...readOfTarget(`/v1/blocks/by_version/${head + 2n}`), minVersion: head + 1n })
  }
  await serveRead({
    ...made,
    now: () => clock.ms,
    settings: settingsOf({ waitForVersion: { ms: 200 } }),
    versionWaits: { waitFor, close: () => {} }
  }, { ...readOfTarget('/v1/blocks/by_version/1004'), minVersion: 5n })
  t.same(recorded, [[1001n, 1000], [1002n, 600], [1003n, 300], [1004n, 200]])
  t.equal(await made.versionWaits.waitFor(1004n, 60_000), 'reached', 'a version that is reached needs no wait')
})

t.test('a shutdown releases waiting reads, which get an error response, and later ones at once', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { waitForVersion: { ms: 60_000 } })
  const version = headOf(sandbox) + 1n
  const waitingRead = varve.get(`/v1/accounts/0x1/modules?ledger_version=${version}`)
  const { body, ...options } = tableItemLookup('u64', '"7"')
  const later = request(`${varve.url}/v1/tables/0x5eed/item?ledger_version=${version}`, options)
  later.write(' ')
  await until(async () => await waitingCount(varve) === 1, 'the read waits for its version')
  await until(async () => await varve.metric('varve_connections') === 2, 'the later read has begun')
  const stopped = varve.stop({ drainMs: 0, graceMs: 100, flushMs: 2000 })
  t.match(await waitingRead, { status: 503 })
  later.end(body)
  const [response] = await once(later, 'response')
  t.equal(response.statusCode, 503)
  response.resume()
  await stopped
})

t.test('waiting reads poll an upstream only while it has free slots', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, {
    upstream: { maxConcurrent: 4 },
    waitForVersion: { ms: 500 }
  })
  const slow = sandbox.faults.add({ kind: 'slow', ms: 3000, match: 'account_modules' })
  const reads = [1n, 2n].map(async back =>
    await varve.get(`/v1/accounts/0x1/modules?ledger_version=${headOf(sandbox) - back}`)
  )
  await until(() => sandbox.requests.countFor('account_modules') === 2, 'half of its slots are taken')
  const least = { headers: { 'x-varve-min-ledger-version': String(headOf(sandbox) + 1000n) } }
  t.match(await varve.get('/v1/accounts/0x1/modules', least), { status: 404 })
  t.equal(sandbox.requests.countFor('index'), 0)
  await Promise.all(reads)
  slow.remove()
  t.match(await varve.get('/v1/accounts/0x1/modules', least), { status: 404 })
  t.ok(sandbox.requests.countFor('index') >= 3, 'an idle upstream is polled all the while')
})
