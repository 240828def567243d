import t, { type Test } from 'tap'
import { type TierName } from '../../src/cache/tier.js'
import { definitionOf, metricList, type MetricName } from '../../src/metrics/definitions.js'
import { initialSeries } from '../../src/metrics/metric-factories.js'
import { startSandboxNode } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { type Scraped, scrape } from '../support/scrape.js'
import { varveAt } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

// docs/metrics.md states this bound.
const maxIdleSamples = 900

// Published metrics, on which dashboards rely: name, type and labels. docs/metrics.md has the values of closed labels.
const contract: ReadonlyArray<readonly [name: MetricName, type: string, ...labels: string[]]> = [
  ['varve_requests_total', 'counter', 'endpoint', 'outcome', 'status'],
  ['varve_request_duration_seconds', 'histogram', 'endpoint', 'outcome'],
  ['varve_upstream_requests_total', 'counter', 'upstream', 'endpoint', 'status'],
  ['varve_upstream_request_duration_seconds', 'histogram', 'upstream'],
  ['varve_pruned_requests_total', 'counter', 'endpoint', 'answer'],
  ['varve_pruned_distance_versions', 'histogram', 'endpoint'],
  ['varve_ledger_version', 'gauge'],
  ['varve_ledger_oldest_version', 'gauge'],
  ['varve_ledger_block_height', 'gauge'],
  ['varve_ledger_oldest_block_height', 'gauge'],
  ['varve_ledger_position_age_seconds', 'gauge'],
  ['varve_upstream_up', 'gauge', 'upstream'],
  ['varve_upstream_lag_versions', 'gauge', 'upstream'],
  ['varve_upstream_lag_seconds', 'gauge', 'upstream'],
  ['varve_upstream_oldest_version', 'gauge', 'upstream'],
  ['varve_cache_entries', 'gauge', 'tier'],
  ['varve_cache_bytes', 'gauge', 'tier'],
  ['varve_cache_evictions_total', 'counter', 'tier'],
  ['varve_cache_writes_total', 'counter', 'tier'],
  ['varve_chain_info', 'gauge', 'chain_id', 'space'],
  ['varve_reads_saved_total', 'counter', 'endpoint'],
  ['varve_not_stored_total', 'counter', 'endpoint', 'reason'],
  ['varve_response_bytes_total', 'counter', 'endpoint'],
  ['varve_upstream_response_bytes_total', 'counter', 'upstream'],
  ['varve_misses_total', 'counter', 'endpoint', 'cause'],
  ['varve_in_flight_bytes', 'gauge'],
  ['varve_upstream_slots_held_by_streams', 'gauge', 'upstream'],
  ['varve_stale_latest_total', 'counter'],
  ['varve_corrupt_entries_total', 'counter'],
  ['varve_chain_resets_total', 'counter'],
  ['varve_audit_total', 'counter', 'result'],
  ['varve_cache_writes_dropped_total', 'counter', 'tier'],
  ['varve_disk_errors_total', 'counter', 'operation'],
  ['varve_redis_up', 'gauge'],
  ['varve_redis_errors_total', 'counter', 'operation'],
  ['varve_redis_duration_seconds', 'histogram', 'operation'],
  ['varve_follow_head_version', 'gauge'],
  ['varve_follow_lag_seconds', 'gauge'],
  ['varve_follow_reads_total', 'counter', 'result'],
  ['varve_follow_versions_total', 'counter'],
  ['varve_follow_bytes_total', 'counter'],
  ['varve_follow_touched_all_total', 'counter', 'reason'],
  ['varve_follow_observed_total', 'counter', 'endpoint', 'result'],
  ['varve_follow_verified_total', 'counter', 'result']
]

/** Returns each label set of a metric once as text, without histogram buckets. */
function setsOf ({ series }: Scraped): string[] {
  return [...new Set(series.map(({ labels: { le, ...labels } }) => textOf(labels)))].sort()
}

function textOf (labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels).map(([label, value]) => `${label}=${value}`).sort().join()
}

/** Expects each metric as it is published, with its closed series from the start, and counters at 0. */
function checkPublished (
  t: Test,
  scraped: ReadonlyMap<string, Scraped>,
  tiers: readonly TierName[] = ['memory']
): void {
  for (const row of metricList) {
    const metric = scraped.get(row.name)
    if (metric === undefined) continue
    t.match(metric, { type: row.type, help: row.help }, row.name)
    const sets = new Set(setsOf(metric))
    for (const labels of initialSeries(row, tiers)) t.ok(sets.has(textOf(labels)), `${row.name} ${textOf(labels)}`)
  }
}

t.test('varve shows every metric of the contract before its first request, closed series at 0', async t => {
  for (const [name, type, ...labels] of contract) {
    t.match(definitionOf(name), { type }, name)
    t.same(Object.keys(definitionOf(name).labels), labels, `${name}: labels`)
  }
  const following = await scrape((await varveAt(t, 'http://127.0.0.1:9', { follow: { mode: 'observe' } })).adminUrl)
  const listed = metricList.map(({ name }) => name).filter(name => name !== 'varve_tls_certificate_not_after_seconds')
  t.same([...following.keys()].filter(name => name.startsWith('varve_')).sort(), listed.sort())
  checkPublished(t, following)
  for (const [name, { type, series }] of following) {
    if (/^varve_(?:redis|disk)_|chain_info/.test(name)) t.same(series, [], `${name} has no series yet`)
    t.notOk(series.some(({ labels: { tier } }) => tier === 'disk' || tier === 'redis'), name)
    if (type === 'counter' && name.startsWith('varve_')) {
      t.same(series.filter(({ labels, value }) => value !== 0 && !('upstream' in labels)), [], name)
    }
  }
  const other = await scrape((await varveAt(t, 'http://127.0.0.1:9')).adminUrl)
  t.same([...other.keys()].filter(name => name.startsWith('varve_follow_')), [], 'a varve that does not follow')
})

t.test('an idle varve has at most 900 samples, also with every tier and following', async t => {
  const [redis, sandbox] = await Promise.all([startRedis(t), startSandboxNode(t)])
  const path = testFolder(t)
  for (const cache of [{}, { disk: { path }, redis: { url: redis.url } }]) {
    const follow = { mode: 'redis' in cache ? 'observe' : 'off' } as const
    const scraped = await scrape((await varveAt(t, sandbox.url, { cache, follow })).adminUrl)
    const samples = [...scraped.values()].reduce((sum, { series }) => sum + series.length, 0)
    t.ok(samples > 100 && samples <= maxIdleSamples, `${samples} samples`)
    if ('redis' in cache) checkPublished(t, scraped, ['memory', 'disk', 'redis'])
  }
})

t.test('series labelled by status or upstream appear at their first count', async t => {
  const [redis, sandbox] = await Promise.all([startRedis(t), startSandboxNode(t)])
  const varve = await varveAt(t, sandbox.url, { cache: { redis: { url: redis.url } } })
  t.equal((await varve.get('/v1/info')).status, 200)
  const scraped = await scrape(varve.adminUrl)
  for (const [name, , ...labels] of contract.filter(([, , ...labels]) => /status|upstream/.test(labels.join()))) {
    const sets = scraped.get(name)?.series.map(({ labels: { le, ...set } }) => set) ?? []
    t.ok(sets.length > 0, name)
    for (const set of sets) t.same(Object.keys(set).sort(), [...labels].sort(), name)
  }
  t.equal(scraped.get('varve_redis_up')?.series[0]?.value, 1)
})
