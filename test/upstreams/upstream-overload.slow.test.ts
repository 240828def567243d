import { type ServerResponse } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import t, { type Test } from 'tap'
import { cacheStatusHeader } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { readLatencies, startInFrontOf, startWithUpstreams } from '../support/multiple-upstreams.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const shape = /"error_code":"internal_error","vm_error_code":null/
t.test('a hanging upstream never costs a client its whole timeout', async t => {
  const served = await startWithUpstreams(t, [{}, {}], { hedge: { afterMs: 60 } }, { timeoutMs: 20_000 })
  const { upstreams: [one], varve } = served
  one?.faults.add({ kind: 'hang', match: 'account_modules' })
  const times = await readLatencies(served, 2000, 20, 1)
  // Waits: on a busy machine the other upstream may rank first for a while.
  await until(async () => {
    times.push(...await readLatencies(served, 2000 + times.length, 1))
    return (await varve.metric('varve_hedges_total{result="won"}') ?? 0) > 0
  }, 'a second upstream got a request')
  t.ok(Math.max(...times) < 9000, `${Math.max(...times)} ms`)
  t.equal(await served.upStates(), '1,1')
  const off = await startWithUpstreams(t, [{}, {}], { hedge: { share: 0, afterMs: 30 } }, { timeoutMs: 3000 })
  off.upstreams[0]?.faults.add({ kind: 'hang', match: 'account_modules' })
  t.ok(
    (await readLatencies(off, 2000, 4, 1)).every(ms => ms < 3000),
    'without a second attempt the first has half of its time'
  )
})

/** Starts an upstream that responds when a test allows it, or after `respondsInMs` by itself. */
async function startBlockedUpstream (t: Test, respondsInMs?: number) {
  const pending: ServerResponse[] = []
  const requestedAt: number[] = []
  let [inFlight, most] = [0, 0]
  const arrives = (response: ServerResponse): void => {
    requestedAt.push(performance.now())
    most = Math.max(most, ++inFlight)
    response.on('close', () => {
      inFlight--
    })
  }
  const next = async (): Promise<void> => {
    await until(() => pending.length > 0, 'a request waits')
    const response = pending.shift()
    if (response !== undefined) respondOk(response, '[]')
  }
  const stub = await startStubUpstream(t, (request, response) => {
    arrives(response)
    if (request.url?.includes('by_height') === true) response.writeHead(404, stamps()).end()
    else if (respondsInMs !== undefined) setTimeout(respondOk, respondsInMs, response, '[]')
    else pending.push(response)
  }, (_request, response) => {
    arrives(response)
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{"git_hash":"aaaa"}')
  })
  return {
    stub,
    requestedAt,
    most: () => most,
    next,
    /** Responds to all reads until these are done. */
    nextUntil: async (settled: Promise<unknown>): Promise<void> => {
      const over = settled.then(() => 'over')
      while (
        await Promise.race([
          over,
          new Promise(resolve => setImmediate(resolve))
        ]) !== 'over'
      ) if (pending.length > 0) await next()
    }
  }
}

const gauge = async (varve: TestVarve, name: string): Promise<number | undefined> =>
  await varve.metric(`varve_upstream_${name}{upstream="node"}`)

t.test('a full queue is 503 with Retry-After at once and stays bounded, and hits never queue', async t => {
  const upstream = await startBlockedUpstream(t)
  const varve = await varveAt(t, upstream.stub.url, { upstream: { maxConcurrent: 3, timeoutMs: 60_000 } })
  const cached = varve.get(modules(500))
  await upstream.next()
  t.match(await cached, { status: 200 })
  const reads = Array.from({ length: 24 }, async (_, nth) => await varve.get(modules(600 + nth)))
  await until(
    async () => await gauge(varve, 'in_flight') === 2 && await gauge(varve, 'waiting') === 22,
    'the queue is full; one slot is free for polls'
  )
  const began = performance.now()
  const shed = await Promise.all(Array.from({ length: 200 }, async (_, nth) => await varve.get(modules(100 + nth))))
  t.ok(performance.now() - began < 3000)
  t.ok(
    shed.every(({ status, headers, body }) => status === 503 && headers['retry-after'] === '1' && shape.test(body))
  )
  t.match(
    await varve.get('/v1/spec.json'),
    { status: 503, headers: { 'retry-after': '1' }, body: shape },
    'forwarded reads wait in the same queue'
  )
  t.match(await varve.get(modules(500)), { status: 200, headers: { [cacheStatusHeader]: /hit/ } })
  const queued = await gauge(varve, 'waiting') ?? NaN
  t.ok(
    queued >= 22 && queued < 28,
    `${queued} wait: none of the others, though varve may poll the upstream`
  )
  await upstream.nextUntil(Promise.all(reads))
  for (const { status } of await Promise.all(reads)) t.equal(status, 200)
  t.ok(upstream.most() <= 3, 'the upstream never had more at once')
  t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 1)
})

t.test('a flood of reads does not stop varve from polling an upstream', async t => {
  const upstream = await startBlockedUpstream(t)
  const varve = await varveAt(t, upstream.stub.url, {
    upstream: { maxConcurrent: 2, timeoutMs: 60_000 },
    head: { pollMs: 50 }
  })
  const reads = Promise.all(Array.from({ length: 100 }, async (_, nth) => await varve.get(modules(100 + nth))))
  await until(async () => (await gauge(varve, 'waiting') ?? 0) >= 14, 'the queue is full')
  const polls = async (): Promise<number> =>
    await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="other",status="200"}') ?? 0
  const before = await polls()
  await until(async () => (await gauge(varve, 'waiting') ?? 0) > 14, 'a poll waits, though there was no room')
  await upstream.next()
  await until(async () => await polls() > before, 'the poll is sent before the queued reads')
  await upstream.nextUntil(reads)
  t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 1)
})

t.test('varve never exceeds an upstream\'s requests per second, polls included', async t => {
  const upstream = await startBlockedUpstream(t, 0)
  const varve = await varveAt(t, upstream.stub.url, {
    upstream: { requestsPerSecond: 20, maxConcurrent: 3, timeoutMs: 60_000 },
    head: { pollMs: 20 }
  })
  // Tolerates late arrivals: the upstream shares this process and sees a request only when the loop runs.
  const stalls = monitorEventLoopDelay({ resolution: 5 })
  stalls.enable()
  const statuses: Array<Promise<number>> = []
  await until(async () => {
    // Fills the queue, and has the rest rejected while a slot is free.
    for (let nth = 0; nth < 24; nth++) {
      statuses.push(varve.get(modules(100 + statuses.length)).then(({ status }) => status))
    }
    const { body } = await sendRequest(varve.adminUrl, '/readyz')
    return /node has used up its requestsPerSecond: \d+ requests wait/.test(body)
  }, 'readiness names the limit')
  const seen = await Promise.all(statuses)
  t.same(new Set(seen), new Set([200, 503]))
  t.ok(seen.filter(status => status === 200).length >= 24, 'all that had room in the queue')
  const { requestedAt } = upstream
  await until(() => requestedAt.length > 40, 'the upstream got requests for two seconds')
  stalls.disable()
  const most = (withinMs: number): number =>
    Math.max(...requestedAt.map(at => requestedAt.filter(other => other >= at && other < at + withinMs).length))
  t.ok(most(1000 - stalls.max / 1e6) <= 20, 'never more')
  // Varve sends the next ones a little more than a second after the last.
  t.ok(most(1100 + stalls.max / 1e6) >= 20, 'all that is allowed')
  t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 1)
  t.match(await varve.get(modules(400)), { status: 200 })
})

t.test('a flood of misses from one client does not starve another', async t => {
  const upstream = await startBlockedUpstream(t)
  const varve = await varveAt(t, upstream.stub.url, { upstream: { maxConcurrent: 2, timeoutMs: 60_000 } })
  const order: string[] = []
  const readAs = async (version: number, client: string): Promise<number> => {
    const { status } = await varve.get(modules(version), { localAddress: client })
    order.push(`${client} ${status}`)
    return status
  }
  const flood = Array.from({ length: 100 }, async (_, nth) => await readAs(100 + nth, '127.0.0.2'))
  await until(() => order.length === 84, 'the queue is full')
  const others = [readAs(500, '127.0.0.1'), readAs(501, '127.0.0.1')]
  await until(() => order.length === 86, 'two of the flood have made room')
  t.ok(order.every(line => line === '127.0.0.2 503'))
  for (let nth = 0; nth < 6; nth++) await upstream.next()
  t.same(await Promise.all(others), [200, 200], 'after six responses, although twelve came before')
  await upstream.nextUntil(Promise.all(flood))
  t.equal((await Promise.all(flood)).filter(status => status === 200).length, 14)
})

t.test('when one upstream is at its concurrency limit, reads go to the next', async t => {
  const [busy, other] = [await startBlockedUpstream(t), await startBlockedUpstream(t, 30)]
  const upstreams = [busy, other].map(({ stub: { url } }, at) => ({
    name: `n${at + 1}`,
    url,
    timeoutMs: 60_000,
    ...(at === 0 && { maxConcurrent: 1 })
  }))
  const { varve, upStates } = await startInFrontOf(t, [busy.stub, other.stub] as never, {
    upstreams: upstreams as never,
    hedge: { share: 0 }
  })
  await until(async () => await upStates() === '1,1', 'both upstreams are up')
  let responseCount = 0
  const reads = Promise.all(
    Array.from({ length: 200 }, async (_, nth) =>
      await varve.get(modules(100 + nth)).finally(() => {
        responseCount++
      }))
  )
  await until(() => responseCount >= 190, 'the other upstream serves all beyond the limit of the first')
  await busy.nextUntil(reads)
  t.ok((await reads).every(({ status }) => status === 200))
})
