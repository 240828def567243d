import t from 'tap'
import { metricList } from '../../src/metrics/definitions.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { scrape } from '../support/scrape.js'
import { stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

t.test('chain id and space are labels, once a chain is known', async t => {
  const varve = await varveAt(t, (await startSandboxNode(t, { chainId: 7 })).url)
  t.match((await scrape(varve.adminUrl)).get('varve_chain_info')?.series, [
    { labels: { chain_id: '7', space: /^[0-9a-f]{16}$/ }, value: 1 }
  ])
})

t.test('reads saved are hits and coalesced reads, with their price', async t => {
  const sandbox = await startSandboxNode(t)
  const pricePerMillion = { default: 20, account_modules: 1_000_000 }
  const varve = await varveAt(t, sandbox.url, { savings: { pricePerMillion } })
  const read = `/v1/accounts/0x1/modules?ledger_version=${sandbox.ledger.head.version}`
  const hold = sandbox.faults.hold('account_modules')
  const both = [varve.get(read), varve.get(read)]
  await hold.arrived
  await until(async () => await varve.metric('varve_upstream_in_flight{upstream="node"}') !== 0, 'it is fetched')
  hold.release()
  await Promise.all(both)
  await varve.get(read)
  await varve.get(read)
  t.equal(await varve.metric('varve_reads_saved_total{endpoint="account_modules"}'), 3)
  const { totals } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body)
  t.equal(await varve.metric('varve_savings_total{endpoint="account_modules"}'), 3)
  await varve.get('/v1')
  await varve.get('/v1')
  t.equal(await varve.metric('varve_savings_total{endpoint="index"}'), 0.00002, 'at the default price')
  t.match(totals, { readsSaved: 3, savings: 3, endpoints: [{ endpoint: 'account_modules', requests: 4, saved: 3 }] })
})

t.test('bytes are those of bodies, to clients and from upstreams, streamed ones as announced', async t => {
  const stub = await startStubUpstream(t, ({ url = '' }, response) => {
    const length = url.includes('/modules') ? 1000 : url === '/v1/spec.json' ? 3_000_000 : 2
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': length, ...stamps() })
    response.end(`"${'x'.repeat(length - 2)}"`)
  })
  const varve = await varveAt(t, stub.url, { cache: { maxEntryMb: 1 }, head: { pollMs: 60_000 } })
  const before = await varve.metric('varve_upstream_response_bytes_total{upstream="node"}') ?? 0
  const read = '/v1/accounts/0x1/modules?ledger_version=500'
  for (const target of [read, read, '/v1/spec.json']) await varve.get(target)
  await varve.get(read, { method: 'HEAD' })
  t.equal(await varve.metric('varve_response_bytes_total{endpoint="account_modules"}'), 2000)
  t.equal(await varve.metric('varve_response_bytes_total{endpoint="other"}'), 3_000_000)
  t.equal(await varve.metric('varve_upstream_response_bytes_total{upstream="node"}'), before + 3_001_000)
})

t.test('every duration histogram reaches from 50 us to 10 s in steps of at most 2.5 times', async t => {
  const times = metricList.flatMap(({ type, name, bounds }) =>
    type === 'histogram' && name.endsWith('_seconds') ? [{ name, bounds }] : []
  )
  t.same(times.map(({ name }) => name).sort(), [
    'varve_redis_duration_seconds',
    'varve_request_duration_seconds',
    'varve_upstream_request_duration_seconds'
  ])
  for (const { name, bounds } of times) {
    t.same([bounds[0], bounds.at(-1)], [0.00005, 10], name)
    for (const [at, bound] of bounds.slice(1).entries()) t.ok(bound / (bounds[at] ?? 0) <= 2.5, `${name}: ${bound}`)
  }
})
