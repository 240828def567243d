import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { maxSeries, scrape } from './support/scrape.js'
import { metricList } from '../src/metrics/definitions.js'
import { certificate, certificateKey } from './support/certificate.js'
import { sendRequest, tableItemLookup } from './support/client.js'
import { sendRaw } from './support/raw.js'
import { startRedis } from './support/redis-server.js'
import { startSandboxNode } from './support/replicas.js'
import { type TestVarve, quietConfig, varveAt } from './support/varve.js'

const head = 'HTTP/1.1\r\nHost: x\r\nConnection: close\r\n'
const body = tableItemLookup('u64', '"1"').body?.toString() ?? ''
const requests = [
  ...Array.from({ length: 8 }, () => `GET /v1/accounts/0x1/modules?ledger_version=2000&limit=1 ${head}\r\n`),
  `GET /v1/accounts/0x1/modules ${head}\r\n`,
  `GET /v1/blocks/by_version/2000 ${head}\r\n`,
  `GET /v1/accounts/0x1/modules?ledger_version=1 ${head}\r\n`,
  `GET /v1/info ${head}X-Api-Key: k-shop-51\r\n\r\n`,
  `POST /v1/tables/0x5eed/item?ledger_version=2000 ${head}Content-Type: application/json\r\nContent-Length: ` +
  `${body.length}\r\n\r\n${body}`,
  `GET /v1/spec.json ${head}\r\n`,
  `GET /v2/nowhere ${head}\r\n`,
  `BREW /v1/info ${head}\r\n`,
  'this is no request\r\n\r\n'
]
// Lists process metrics that dashboards use.
const expected = [
  'process_cpu_seconds_total',
  'process_start_time_seconds',
  'process_resident_memory_bytes',
  'process_open_fds',
  'process_max_fds',
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p99_seconds',
  'nodejs_eventloop_lag_max_seconds',
  'nodejs_heap_size_used_bytes',
  'nodejs_heap_size_total_bytes',
  'nodejs_external_memory_bytes',
  'nodejs_gc_duration_seconds',
  'nodejs_version_info'
]

/** Returns promtool's findings on a scrape; empty if there are none. */
async function faultsIn (metrics: string): Promise<{ readonly code: number, readonly output: string }> {
  const promtool = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] })
  promtool.stdin.end(metrics)
  const [out, err, [code]] = await Promise.all([text(promtool.stdout), text(promtool.stderr), once(promtool, 'close')])
  return { code: Number(code), output: `${out}${err}` }
}

async function checkMetrics (t: Test, varve: TestVarve): Promise<void> {
  for (const request of requests) await sendRaw(varve.url, request)
  t.same(await faultsIn((await sendRequest(varve.adminUrl, '/metrics')).body), { code: 0, output: '' })
  const scraped = await scrape(varve.adminUrl)
  for (const row of metricList) {
    const series = scraped.get(row.name)?.series.length
    t.ok(
      series !== undefined && series <= maxSeries(row, { upstreams: 1, clients: 1 }),
      `${row.name}: ${series} series`
    )
  }
}

t.test('promtool accepts the metrics of varve under traffic, and all process metrics are there', async t => {
  const [redis, upstream] = await Promise.all([startRedis(t), startSandboxNode(t)])
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const tls = { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') }
  const clients = { keys: [{ name: 'shop', key: 'k-shop-51', requestsPerSecond: null }] }
  const varve = await varveAt(t, upstream.url, {
    tls,
    clients,
    cache: { redis: { url: redis.url } },
    follow: { mode: 'on' },
    audit: { share: 1 }
  })
  await checkMetrics(t, varve)
  const scraped = await scrape(varve.adminUrl)
  for (const name of expected) t.ok(scraped.has(name), name)
  t.notOk([...scraped.keys()].some(name => name.startsWith('nodejs_active_')))
})

t.test('promtool accepts the metrics of two workers, merged', async t => {
  const [redis, upstream] = await Promise.all([startRedis(t), startSandboxNode(t)])
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const tls = { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') }
  const varve = await varveAt(t, upstream.url, {
    ...quietConfig,
    workers: 2,
    tls,
    cache: { redis: { url: redis.url } },
    follow: { mode: 'observe' }
  })
  await checkMetrics(t, varve)
  const scraped = await scrape(varve.adminUrl)
  t.same(scraped.get('varve_build_info')?.series.map(({ value }) => value), [1])
  t.equal(
    scraped.get('varve_upstream_max_concurrent')?.series[0]?.value,
    256,
    'the shares of both'
  )
  const maxBytes = scraped.get('varve_cache_max_bytes')?.series ?? []
  t.equal(
    maxBytes.reduce((sum, { value }) => sum + value, 0),
    256 * 1024 * 1024,
    'memory of the workers and what they share'
  )
  t.same(scraped.get('varve_upstream_state')?.series.filter(({ value }) => value === 1).map(({ labels }) => labels), [{
    upstream: 'node',
    state: 'up'
  }])
  t.equal(scraped.get('varve_lowest_requested_version')?.series[0]?.value, 2000, 'from either worker')
})
