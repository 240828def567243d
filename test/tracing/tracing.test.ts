import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { tracesUrlOf } from '../../src/tracing/otlp-exporter.js'
import { sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode, untilChainKnown } from '../support/replicas.js'
import { respondOk, startStubUpstream, listening } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type ConfigChange, type TestVarve, varveAt } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

/** A span as a collector gets it, with its attributes by name. */
interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code?: number, readonly message?: string }
  readonly attributes: Readonly<Record<string, unknown>>
}

interface OtlpBody {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: Attributes },
    readonly scopeSpans: ReadonlyArray<{
      readonly spans: ReadonlyArray<Omit<CollectedSpan, 'attributes'> & { readonly attributes: Attributes }>
    }>
  }>
}

type Attributes = ReadonlyArray<{ readonly key: string, readonly value: Readonly<Record<string, unknown>> }>

type Collector = Awaited<ReturnType<typeof startCollector>>

/** Starts a collector of OTLP over HTTP in JSON; a test may change its status, with 0 it never responds. */
async function startCollector (t: Test) {
  const spans: CollectedSpan[] = []
  const requests: Array<{ url: string, type: string, tenant: unknown, resource: object }> = []
  const collector = { url: '', spans, requests, received: 0, status: 200 }
  const server = createServer((request, response) => {
    text(request).then(body => {
      collector.received++
      if (collector.status === 0) return
      response.writeHead(collector.status).end('{}')
      if (collector.status !== 200) return
      for (const { resource, scopeSpans } of (JSON.parse(body) as OtlpBody).resourceSpans) {
        requests.push({
          url: request.url ?? '',
          type: request.headers['content-type'] ?? '',
          tenant: request.headers['x-tenant'],
          resource: byName(resource.attributes)
        })
        for (const span of scopeSpans.flatMap(scope => scope.spans)) {
          spans.push({ ...span, attributes: byName(span.attributes) })
        }
      }
    }, () => {})
  })
  collector.url = await listening(t, server)
  return collector
}

function byName (attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
const other = '/v1/accounts/0x1/modules?ledger_version=2001&limit=1'
const clientTrace = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' }
const traceparent = `00-${clientTrace.traceId}-${clientTrace.spanId}-01`

async function start (
  t: Test,
  upstreamUrl: string,
  { sample = 0, ...change }: ConfigChange & { sample?: number } = {}
): Promise<{ varve: TestVarve, collector: Collector }> {
  const collector = await startCollector(t)
  return {
    collector,
    varve: await varveAt(t, upstreamUrl, {
      tracing: { otlpUrl: collector.url, headers: { 'x-tenant': 'a' }, serviceName: 'reads', sample },
      ...change
    })
  }
}

const rootsOf = ({ spans }: Collector): CollectedSpan[] => spans.filter(({ kind }) => kind === 2)
const childrenOf = ({ spans }: Collector, root: CollectedSpan | undefined): CollectedSpan[] =>
  spans.filter(({ traceId, parentSpanId }) => traceId === root?.traceId && parentSpanId === root.spanId)
const namesOf = (spans: readonly CollectedSpan[]): string[] => spans.map(({ name }) => name)
const rootsArrive = async (collector: Collector, count: number): Promise<CollectedSpan[]> => {
  await until(async () => rootsOf(collector).length >= count, 'the traces arrive')
  return rootsOf(collector)
}

t.test('a miss has a span of its request, of each tier, and of its attempt', async t => {
  const sandbox = await startSandboxNode(t)
  const { varve, collector } = await start(t, sandbox.url, { cache: { disk: { path: testFolder(t) } } })
  t.equal(await varve.metric('varve_trace_spans_total{result="failed"}'), 0, 'its series exist from the start')
  const { headers } = await varve.get(modules)
  const [root] = await rootsArrive(collector, 1)
  t.match(root, {
    name: 'GET account_modules',
    parentSpanId: undefined,
    status: {},
    attributes: {
      'http.request.method': 'GET',
      'url.path': '/v1/accounts/0x1/modules',
      'http.response.status_code': '200',
      'varve.outcome': 'miss',
      'varve.cache_status': headers['cache-status'],
      'varve.upstream': 'node',
      'varve.request_id': headers['x-request-id']
    }
  })
  const children = childrenOf(collector, root)
  t.match(children, [
    { name: 'look up in memory', kind: 1, attributes: { 'varve.hit': false } },
    { name: 'look up in disk', kind: 1, attributes: { 'varve.hit': false } },
    { name: 'attempt', kind: 3, attributes: { 'varve.upstream': 'node', 'http.response.status_code': '200' } }
  ])
  for (const span of [...children, root]) {
    const [begin, end] = [BigInt(span?.startTimeUnixNano ?? 0), BigInt(span?.endTimeUnixNano ?? 0)]
    t.ok(begin >= BigInt(root?.startTimeUnixNano ?? 0) && end >= begin && end <= BigInt(root?.endTimeUnixNano ?? 0))
    t.ok(Math.abs(Date.now() - Number(end / 1_000_000n)) < 60_000, 'in Unix time')
  }
  t.match(collector.requests[0], {
    url: '/v1/traces',
    type: 'application/json',
    tenant: 'a',
    resource: { 'service.name': 'reads', 'service.version': /^\d/ }
  })
  await until(async () => await varve.metric('varve_trace_spans_total{result="sent"}') === 4, 'all are counted')
})

t.test('of hits the configured share has a trace: all, or none', async t => {
  const sandbox = await startSandboxNode(t)
  const [all, none] = [await start(t, sandbox.url, { sample: 1 }), await start(t, sandbox.url, { sample: 0 })]
  for (const { varve } of [all, none]) {
    // A miss, a hit by the router, hits by the fast path, and a last miss.
    for (const target of [modules, modules, modules, modules, other]) await varve.get(target)
  }
  t.same((await rootsArrive(all.collector, 5)).map(({ attributes }) => attributes['varve.outcome']), [
    'miss',
    'hit_memory',
    'hit_memory',
    'hit_memory',
    'miss'
  ])
  t.same((await rootsArrive(none.collector, 2)).map(({ attributes }) => attributes['varve.outcome']), ['miss', 'miss'])
})

t.test('a coalesced read has a span of its wait, and no attempt of its own', async t => {
  const sandbox = await startSandboxNode(t)
  const { varve, collector } = await start(t, sandbox.url)
  const hold = sandbox.faults.hold('account_modules')
  const first = varve.get(modules)
  await hold.arrived
  const second = varve.get(modules)
  // The second read joins, or would be a miss with an attempt.
  await until(async () => await varve.metric('varve_connections') === 2, 'both reads have come')
  hold.release()
  await Promise.all([first, second])
  const roots = await rootsArrive(collector, 2)
  const childNames = (outcome: string): string[] =>
    namesOf(childrenOf(collector, roots.find(({ attributes }) => attributes['varve.outcome'] === outcome)))
  t.same(childNames('miss'), ['look up in memory', 'attempt'])
  t.same(childNames('collapsed'), ['look up in memory', 'wait for a coalesced fetch'])
})

t.test('a read that waits for the fetch of another host has a span of its wait', async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  sandbox.faults.add({ kind: 'slow', ms: 60 })
  const cache = { redis: { url: redis.url, timeoutMs: 1000 } }
  const holder = await varveAt(t, sandbox.url, { cache })
  await untilChainKnown(redis)
  const { varve, collector } = await start(t, sandbox.url, { cache })
  const hold = sandbox.faults.hold('account_modules')
  const first = holder.get(modules)
  await hold.arrived
  const second = varve.get(modules)
  await until(async () => await redis.client.strlen((await redis.client.keys('*lease:*'))[0] ?? '') === 17, 'it waits')
  hold.release()
  await Promise.all([first, second])
  const [root] = await rootsArrive(collector, 1)
  const names = namesOf(childrenOf(collector, root))
  t.same(names, ['look up in memory', 'look up in redis', 'wait for a lease', 'look up in redis'])
})

t.test('each attempt has a span, with the fault of the first', async t => {
  const [failing, healthy] = [await startSandboxNode(t), await startSandboxNode(t)]
  const { varve, collector } = await start(t, '', {
    upstreams: [{ name: 'failing', url: failing.url }, { name: 'healthy', url: healthy.url, priority: 1 }] as never
  })
  failing.faults.add({ kind: 'error', code: 'internal_error', status: 500, match: 'account_modules' })
  t.equal((await varve.get(modules)).status, 200)
  const [root] = await rootsArrive(collector, 1)
  t.match(childrenOf(collector, root).filter(({ name }) => name === 'attempt').map(({ attributes }) => attributes), [
    { 'varve.upstream': 'failing', 'http.response.status_code': '500', 'varve.flaw': 'unhealthy' },
    { 'varve.upstream': 'healthy', 'http.response.status_code': '200' }
  ])
})

t.test('a hedge has a span of its own', async t => {
  const [slow, fast] = [await startSandboxNode(t), await startSandboxNode(t)]
  const { varve, collector } = await start(t, '', {
    upstreams: [{ name: 'a', url: slow.url }, { name: 'b', url: fast.url }] as never,
    hedge: { share: 1, afterMs: 50 }
  })
  const holds = [slow, fast].map(({ faults }) => faults.hold('account_modules'))
  const read = varve.get(modules)
  const isFirst = await Promise.race(holds.map(async (hold, at) => {
    await hold.arrived
    return at
  }))
  const hedged = holds[1 - isFirst]
  await hedged?.arrived
  hedged?.release()
  t.equal((await read).status, 200)
  for (const hold of holds) hold.release()
  const [root] = await rootsArrive(collector, 1)
  t.match(childrenOf(collector, root).find(({ name }) => name === 'hedge'), {
    kind: 3,
    attributes: { 'varve.upstream': ['b', 'a'][isFirst], 'http.response.status_code': '200' }
  })
})

t.test('a trace continues that of the client, and a forwarded request carries it upstream', async t => {
  const seen: unknown[] = []
  const upstream = await startStubUpstream(t, (request, response) => {
    seen.push(request.headers.traceparent)
    respondOk(response, '[]')
  })
  const { varve, collector } = await start(t, upstream.url)
  await varve.get('/v1/spec.json', { headers: { traceparent } })
  await varve.get('/v1/accounts/0x1/modules?ledger_version=500', { headers: { traceparent } })
  const [forwarded, miss] = await rootsArrive(collector, 2)
  for (const root of [forwarded, miss]) {
    t.match(root, { traceId: clientTrace.traceId, parentSpanId: clientTrace.spanId })
  }
  t.match(forwarded, { name: 'GET other', attributes: { 'varve.outcome': 'forwarded' } })
  t.same(namesOf(childrenOf(collector, forwarded)), ['attempt'])
  t.same(seen, [`00-${clientTrace.traceId}-${forwarded?.spanId}-01`, undefined], 'a known read carries nothing')
})

t.test('a failed response marks its span, and a failed attempt says why', async t => {
  const { varve, collector } = await start(t, 'http://127.0.0.1:9', { chainId: 4 })
  t.equal((await varve.get(modules)).status, 503)
  const [root] = await rootsArrive(collector, 1)
  t.match(root, { status: { code: 2, message: 'status 503' }, attributes: { 'varve.outcome': 'unavailable' } })
  t.match(childrenOf(collector, root).find(({ name }) => name === 'attempt'), { status: { code: 2, message: /./ } })
})

t.test('a collector that fails costs spans, a warning and nothing else', async t => {
  const sandbox = await startSandboxNode(t)
  const { varve, collector } = await start(t, sandbox.url)
  collector.status = 503
  t.equal((await varve.get(modules)).status, 200)
  await until(async () => (await varve.metric('varve_trace_spans_total{result="failed"}') ?? 0) > 0, 'it is counted')
  t.match(varve.log.filter(({ msg }) => /traces could not be sent/.test(String(msg))), [{ reason: 'status 503' }])
  collector.status = 200
  t.equal((await varve.get(other)).status, 200)
  await rootsArrive(collector, 1)
})

t.test('a collector that hangs delays no read, and the end of varve by a second at most', async t => {
  const sandbox = await startSandboxNode(t)
  const { varve, collector } = await start(t, sandbox.url)
  collector.status = 0
  t.equal((await varve.get(modules)).status, 200)
  await until(() => collector.received > 0, 'spans are sent')
  t.equal((await varve.get(other)).status, 200)
  const beganMs = performance.now()
  await varve.stop({ drainMs: 0 })
  const tookMs = performance.now() - beganMs
  t.ok(tookMs < 4500, `${tookMs} ms, and a request to a collector may take 5,000`)
})

t.test('a key in the path of tracing.otlpUrl is masked in GET /config', async t => {
  const sandbox = await startSandboxNode(t)
  const collector = await startCollector(t)
  const admin = { listen: '127.0.0.1:0', token: 't0ken' }
  const otlpUrl = `${collector.url}/c0llector-key/v1/traces`
  const varve = await varveAt(t, sandbox.url, { admin, tracing: { otlpUrl } })
  const { body } = await sendRequest(varve.adminUrl, '/config', { headers: { authorization: 'Bearer t0ken' } })
  t.match(JSON.parse(body), { tracing: { otlpUrl: `${collector.url}/***` } })
})

t.test('without tracing.otlpUrl nothing is traced, and no series exists', async t => {
  const sandbox = await startSandboxNode(t)
  const varve = await varveAt(t, sandbox.url)
  await varve.get(modules)
  t.equal(await varve.metric('varve_trace_spans_total{result="sent"}'), undefined)
})

t.test('traces go below the base URL of a collector, or to a URL that names them', t => {
  for (
    const [given, used] of [
      ['http://c:4318', 'http://c:4318/v1/traces'],
      ['http://c:4318/', 'http://c:4318/v1/traces'],
      ['https://c/otlp', 'https://c/otlp/v1/traces'],
      ['http://c:4318/v1/traces', 'http://c:4318/v1/traces']
    ] as const
  ) t.equal(tracesUrlOf(given).href, used)
  t.end()
})
