import t, { type Test } from 'tap'
import { isRedisUp, startSandboxNode } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { respondOk, stamps, type StubUpstream, startStubUpstream, respondToIndex } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { quietConfig, type TestVarve, varveAt } from '../support/varve.js'

const modules = (nth: number): string => `/v1/accounts/0x${nth}/modules?ledger_version=500`
const perSecond = 20
const upstream = { requestsPerSecond: perSecond, maxConcurrent: 32, timeoutMs: 60_000 }
type StatusOfUpstreams = { readonly upstreams: ReadonlyArray<{ readonly budget?: object }> }
const slots = 'varve_upstream_max_concurrent{upstream="node"}'

/** Starts an upstream that notes when each request came, polls included. */
async function startTimedUpstream (t: Test): Promise<{ stub: StubUpstream, cameAtMs: number[] }> {
  const cameAtMs: number[] = []
  const stub = await startStubUpstream(t, (_request, response) => {
    cameAtMs.push(performance.now())
    respondOk(response, '[]')
  }, (request, response) => {
    cameAtMs.push(performance.now())
    respondToIndex(request, response)
  })
  return { stub, cameAtMs }
}

/** Sends reads that no cache has through all hosts, and returns how many requests came of it in all. */
async function flood (hosts: readonly TestVarve[], cameAtMs: number[], ms: number): Promise<number[]> {
  const [untilMs, first] = [performance.now() + ms, cameAtMs.length]
  let nth = 10 * (first + 1)
  const readAll = async (host: TestVarve): Promise<void> => {
    while (performance.now() < untilMs) await host.get(modules(nth++))
  }
  const reading = hosts.flatMap(host => Array.from({ length: 8 }, async () => await readAll(host)))
  await until(() => performance.now() >= untilMs, 'the time has passed', ms + 5000)
  const came = cameAtMs.slice(first)
  await Promise.all(reading)
  return came
}

/** Returns the most requests within any second. */
function mostPerSecond (cameAtMs: readonly number[]): number {
  return Math.max(...cameAtMs.map(at => cameAtMs.filter(other => other >= at && other < at + 1000).length))
}

async function tokensOf (hosts: readonly TestVarve[], source: string): Promise<number> {
  const series = `varve_upstream_tokens_total{upstream="node",source="${source}"}`
  return (await Promise.all(hosts.map(async host => await host.metric(series) ?? 0))).reduce((sum, each) => sum + each)
}

t.test('replicas with one limit send an upstream together that limit, with Redis and without', async t => {
  const redis = await startRedis(t)
  const { stub, cameAtMs } = await startTimedUpstream(t)
  const cache = { redis: { url: redis.url } }
  const hosts = await Promise.all([1, 2, 3, 4].map(async () => await varveAt(t, stub.url, { upstream, cache })))
  await until(
    async () => (await Promise.all(hosts.map(async host => await host.metric('varve_replicas')))).join() === '4,4,4,4',
    'the replicas know each other'
  )
  t.equal(await hosts[0]?.metric(slots), 8)
  const withRedis = await flood(hosts, cameAtMs, 3000)
  t.ok(mostPerSecond(withRedis) <= perSecond * 1.2 + 1, `${mostPerSecond(withRedis)} of ${perSecond}`)
  t.ok(withRedis.length >= perSecond, `${withRedis.length} in 3 s`)
  t.equal(await tokensOf(hosts, 'share'), 0)
  await redis.kill()
  await until(async () => !(await Promise.all(hosts.map(isRedisUp))).includes(true), 'no host uses Redis')
  const without = await flood(hosts, cameAtMs, 3000)
  t.ok(mostPerSecond(without) <= perSecond + hosts.length, `${mostPerSecond(without)} of ${perSecond}`)
  t.ok(without.length >= perSecond, `${without.length} in 3 s`)
  t.ok(await tokensOf(hosts, 'share') > 0)
  t.equal(await hosts[0]?.metric('varve_replicas'), 4, 'the others live on')
})

t.test('replicas with one budget spend together its units at most, as a 429 corrects them', async t => {
  const redis = await startRedis(t)
  const came: Array<[atMs: number, units: number]> = []
  const limited = { is: false }
  const stub = await startStubUpstream(t, (_request, response) => {
    came.push([performance.now(), 4])
    if (!limited.is) return respondOk(response, '[]')
    response.writeHead(429, { ...stamps(), 'retry-after': '1' })
      .end('"Per anonymous IP rate limit exceeded. Limit: 300 compute units per 10 seconds window."')
  }, (request, response) => {
    came.push([performance.now(), 1])
    respondToIndex(request, response)
  })
  const budget = { units: 300, windowSeconds: 10, costs: { account_modules: 4, default: 1 } }
  const change = { upstream: { budget, maxConcurrent: 32, timeoutMs: 60_000 }, cache: { redis: { url: redis.url } } }
  const hosts = await Promise.all([1, 2].map(async () => await varveAt(t, stub.url, change)))
  const leftOf = async (host: TestVarve | undefined): Promise<number> =>
    await host?.metric('varve_upstream_budget_units{upstream="node",kind="left"}') ?? NaN
  await until(async () => (await Promise.all(hosts.map(isRedisUp))).join() === 'true,true', 'both use Redis')
  t.equal(await hosts[0]?.metric('varve_upstream_budget_units{upstream="node",kind="max"}'), 30)
  const startedAtMs = performance.now()
  await flood(hosts, [], 4000)
  const seconds = (performance.now() - startedAtMs) / 1000
  const spent = came.filter(([atMs]) => atMs >= startedAtMs).reduce((sum, [, units]) => sum + units, 0)
  // 30 units at once, then 270 in 11 seconds; a process may owe all but one unit of its last read.
  t.ok(spent <= 30 + seconds * 270 / 11 + 2 * 4, `${spent} units in ${seconds} s`)
  t.ok(spent >= 60, `${spent} units in ${seconds} s`)
  const [status] = await Promise.all(
    hosts.map(async ({ adminUrl }) => await (await fetch(`${adminUrl}/status.json`)).json() as StatusOfUpstreams)
  )
  t.match(status, { upstreams: [{ budget: { left: Number, max: 30, refillPerSecond: 24.55 }, waiting: Number }] })
  await until(async () => await leftOf(hosts[1]) > 20, 'units come back')
  limited.is = true
  await hosts[0]?.get(modules(5))
  await until(async () => await leftOf(hosts[1]) < 20, 'the other replica knows that they are spent')
})

t.test('workers of one host send an upstream together its limit, without Redis', async t => {
  const { stub, cameAtMs } = await startTimedUpstream(t)
  const host = await varveAt(t, stub.url, { ...quietConfig, upstream, workers: 2 })
  const came = await flood([host], cameAtMs, 3000)
  t.ok(mostPerSecond(came) <= perSecond * 1.2 + 1, `${mostPerSecond(came)} of ${perSecond}`)
  t.ok(came.length >= perSecond, `${came.length} in 3 s`)
  t.ok(await tokensOf([host], 'all') > 0)
})

t.test('workers of one host spend together the units of a budget, without Redis', async t => {
  const { stub, cameAtMs } = await startTimedUpstream(t)
  const budget = { units: 100, windowSeconds: 9 }
  const host = await varveAt(t, stub.url, {
    ...quietConfig,
    upstream: { ...upstream, requestsPerSecond: null, budget },
    workers: 2
  })
  const came = await flood([host], cameAtMs, 3000)
  // 10 units at once, then 9 a second.
  t.ok(came.length <= 10 + 4 * 9, `${came.length} in 3 s`)
  t.ok(came.length >= 20, `${came.length} in 3 s`)
  t.equal(await host.metric('varve_upstream_budget_units{upstream="node",kind="max"}'), 10)
  t.ok((await host.metric('varve_upstream_budget_units{upstream="node",kind="left"}') ?? NaN) <= 10)
})

t.test('workers may be more than the requests per second of an upstream', async t => {
  const { stub, cameAtMs } = await startTimedUpstream(t)
  const limit = { ...upstream, requestsPerSecond: 2 }
  const host = await varveAt(t, stub.url, { ...quietConfig, upstream: limit, workers: 3 })
  const came = await flood([host], cameAtMs, 3000)
  t.ok(mostPerSecond(came) <= 3, `${mostPerSecond(came)} of 2`)
  t.ok(came.length >= 2, `${came.length} in 3 s`)
})

t.test('a replica that joins takes slots from the others, and one that leaves returns them', async t => {
  const redis = await startRedis(t)
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const change = { upstream: { maxConcurrent: 32 }, cache: { redis: { url: redis.url } } }
  const stays = await varveAt(t, node.url, change)
  await until(async () => await isRedisUp(stays), 'it uses Redis')
  t.equal(await stays.metric(slots), 32)
  const leaves = await varveAt(t, node.url, change)
  await until(async () => await stays.metric(slots) === 16 && await leaves.metric(slots) === 16, 'both have half')
  t.equal(await stays.metric('varve_replicas'), 2)
  await leaves.stop({ drainMs: 0 })
  await until(async () => await stays.metric(slots) === 32, 'the one that stays has all', 20_000)
  t.equal(await stays.metric('varve_replicas'), 1)
})
