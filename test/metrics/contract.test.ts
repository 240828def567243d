import t, { type Test } from 'tap'
import { metricList, definitionOf } from '../../src/metrics/definitions.js'
import { initialSeries } from '../../src/metrics/metric-factories.js'
import { startSandboxNode } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { type Scraped, scrape } from '../support/scrape.js'
import { varveAt } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

// docs/metrics.md states this bound.
const maxIdleSamples = 900

// Known endpoints, and one name for all other routes.
const endpoint = [
  'table_item',
  'account_modules',
  'info',
  'estimate_gas_price',
  'account_events',
  'block_by_version',
  'index',
  'account',
  'account_resources',
  'account_resource',
  'account_balance',
  'account_module',
  'raw_table_item',
  'view',
  'block_by_height',
  'transaction_by_version',
  'transaction_by_hash',
  'transactions',
  'events_by_creation_number',
  'other'
]
const outcome = [
  'hit_memory',
  'hit_disk',
  'hit_redis',
  'hit_followed',
  'miss',
  'collapsed',
  'forwarded',
  'preflight',
  'gone',
  'rejected',
  'limited',
  'unavailable'
]
const named = null
// Endpoints whose latest responses can be followed.
const followed = [
  'table_item',
  'raw_table_item',
  'account',
  'account_resources',
  'account_resource',
  'account_balance',
  'account_modules',
  'account_module'
]
const known = endpoint.filter(name => name !== 'other')
const moving = ['index', 'info', 'estimate_gas_price']
const blocks = ['block_by_version', 'block_by_height']
const single = ['transaction_by_version', 'transaction_by_hash']
const pages = ['transactions', 'account_events', 'events_by_creation_number']
// Reasons that only some endpoints can give.
const limitedReasons: Readonly<Record<string, readonly string[]>> = {
  outside_window: known.filter(name => !moving.includes(name)),
  wrong_block: blocks,
  newest_block: blocks,
  truncated_block: blocks,
  wrong_transaction: single,
  pending_transaction: [...blocks, ...single, 'transactions'],
  empty_page: pages,
  short_page: pages,
  gapped_page: pages,
  pruned_page: pages,
  unreadable: [...blocks, ...single, ...pages]
}
// Labels that no event can have together.
const impossible: Readonly<Record<string, (labels: Readonly<Record<string, string>>) => boolean>> = {
  varve_pruned_requests_total: ({ endpoint: of = '', answer }) =>
    answer !== 'upstream' && [...moving, 'other'].includes(of),
  varve_not_stored_total: ({ endpoint: of = '', reason = '' }) => limitedReasons[reason]?.includes(of) === false
}

// Published metrics, on which dashboards rely: name, type, and labels with their values where the list is closed.
const contract: ReadonlyArray<
  readonly [name: string, type: string, labels?: Readonly<Record<string, readonly string[] | null>>]
> = [
  ['varve_requests_total', 'counter', { endpoint, outcome, status: named }],
  ['varve_request_duration_seconds', 'histogram', { endpoint, outcome }],
  ['varve_upstream_requests_total', 'counter', { upstream: named, endpoint, status: named }],
  ['varve_upstream_request_duration_seconds', 'histogram', { upstream: named }],
  ['varve_pruned_requests_total', 'counter', { endpoint, answer: ['cache', 'local', 'upstream'] }],
  ['varve_pruned_distance_versions', 'histogram', { endpoint }],
  ['varve_ledger_version', 'gauge'],
  ['varve_ledger_oldest_version', 'gauge'],
  ['varve_ledger_block_height', 'gauge'],
  ['varve_ledger_oldest_block_height', 'gauge'],
  ['varve_ledger_position_age_seconds', 'gauge'],
  ['varve_upstream_up', 'gauge', { upstream: named }],
  ['varve_upstream_lag_versions', 'gauge', { upstream: named }],
  ['varve_upstream_lag_seconds', 'gauge', { upstream: named }],
  ['varve_upstream_oldest_version', 'gauge', { upstream: named }],
  ['varve_cache_entries', 'gauge', { tier: ['memory'] }],
  ['varve_cache_bytes', 'gauge', { tier: ['memory'] }],
  ['varve_cache_evictions_total', 'counter', { tier: ['memory'] }],
  ['varve_cache_writes_total', 'counter', { tier: ['memory'] }],
  ['varve_chain_info', 'gauge', { chain_id: named, generation: named }],
  ['varve_reads_saved_total', 'counter', { endpoint: known }],
  ['varve_not_stored_total', 'counter', {
    endpoint: known,
    reason: [
      'status',
      'no_position',
      'wrong_chain',
      'wrong_type',
      'wrong_coding',
      'vetoed',
      'outside_window',
      'too_large',
      'over_budget',
      'purged',
      'incomplete',
      'wrong_block',
      'newest_block',
      'truncated_block',
      'wrong_transaction',
      'pending_transaction',
      'empty_page',
      'short_page',
      'gapped_page',
      'pruned_page',
      'unreadable'
    ]
  }],
  ['varve_in_flight_bytes', 'gauge'],
  ['varve_upstream_slots_held_by_streams', 'gauge', { upstream: named }],
  ['varve_stale_latest_total', 'counter'],
  ['varve_corrupt_entries_total', 'counter'],
  ['varve_chain_resets_total', 'counter'],
  ['varve_audit_total', 'counter', { result: ['equal', 'different', 'rendering', 'unavailable'] }]
]

// Metrics whose series exist only with the disk tier or the Redis tier.
const ofTiers: typeof contract = [
  ['varve_cache_evictions_total', 'counter', { tier: ['memory', 'disk'] }],
  ['varve_cache_writes_total', 'counter', { tier: ['memory', 'disk', 'redis'] }],
  ['varve_cache_writes_dropped_total', 'counter', { tier: ['disk'] }],
  ['varve_disk_errors_total', 'counter', { operation: ['read', 'write', 'remove', 'scan'] }],
  ['varve_redis_up', 'gauge'],
  ['varve_redis_errors_total', 'counter', {
    operation: ['get', 'find', 'set', 'index', 'delete', 'control', 'publish', 'limit', 'probe', 'connect']
  }],
  ['varve_redis_duration_seconds', 'histogram', {
    operation: ['get', 'find', 'set', 'index', 'delete', 'control', 'publish', 'limit', 'probe', 'connect']
  }]
]

// Published metrics of following, which exist only where varve follows the ledger.
const ofFollowing: typeof contract = [
  ['varve_follow_head_version', 'gauge'],
  ['varve_follow_lag_seconds', 'gauge'],
  ['varve_follow_reads_total', 'counter', { result: ['ok', 'empty', 'failed', 'gap', 'mismatch'] }],
  ['varve_follow_versions_total', 'counter'],
  ['varve_follow_bytes_total', 'counter'],
  ['varve_follow_touched_all_total', 'counter', {
    reason: [
      'start',
      'gap',
      'mismatch',
      'reset',
      'unreadable',
      'unknown_kind',
      'unknown_change',
      'unlisted',
      'unverified',
      'genesis',
      'epoch',
      'features',
      'config'
    ]
  }],
  ['varve_follow_observed_total', 'counter', { endpoint: followed, result: ['equal', 'different', 'unknown'] }],
  ['varve_follow_verified_total', 'counter', { result: ['equal', 'different', 'unavailable'] }]
]

/** Returns each label set of a metric once as text, without histogram buckets. */
function setsOf ({ series }: Scraped): string[] {
  return [...new Set(series.map(({ labels: { le, ...labels } }) => textOf(labels)))].sort()
}

function textOf (labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels).map(([label, value]) => `${label}=${value}`).sort().join()
}

function everySetOf (name: string, labels: Readonly<Record<string, readonly string[] | null>>): string[] {
  return Object.entries(labels).reduce<Array<Record<string, string>>>(
    (sets, [label, values]) => sets.flatMap(set => (values ?? []).map(value => ({ ...set, [label]: value }))),
    [{}]
  ).filter(set => impossible[name]?.(set) !== true).map(textOf).sort()
}

function checkClosedSeries (t: Test, scraped: ReadonlyMap<string, Scraped>, rows: typeof contract): void {
  for (const [name, type, labels = {}] of rows) {
    const metric = scraped.get(name)
    t.equal(metric?.type, type, name)
    t.same(Object.keys(definitionOf(name as never).labels), Object.keys(labels), `${name}: labels`)
    if (metric === undefined || Object.values(labels).includes(named)) continue
    // A series of a histogram appears with its first observation.
    t.same(setsOf(metric), type === 'histogram' ? [] : everySetOf(name, labels), name)
    if (type !== 'gauge') { for (const { value } of metric.series) t.equal(value, 0, name) }
  }
}

t.test('varve shows every metric of the contract before its first request, closed series at 0', async t => {
  const varve = await varveAt(t, 'http://127.0.0.1:9')
  const scraped = await scrape(varve.adminUrl)
  checkClosedSeries(t, scraped, contract)
  for (const [name, { series }] of scraped) {
    if (/^varve_(?:redis|disk)_|chain_info/.test(name)) t.same(series, [], `${name} has no series yet`)
    t.notOk(series.some(({ labels: { tier } }) => tier === 'disk' || tier === 'redis'), name)
  }
})

t.test('an idle varve has at most 900 samples, also with every tier and following', async t => {
  const [redis, sandbox] = await Promise.all([startRedis(t), startSandboxNode(t)])
  const path = testFolder(t)
  for (const cache of [{}, { disk: { path }, redis: { url: redis.url } }]) {
    const follow = { mode: 'redis' in cache ? 'observe' : 'off' } as const
    const scraped = await scrape((await varveAt(t, sandbox.url, { cache, follow })).adminUrl)
    const samples = [...scraped.values()].reduce((sum, { series }) => sum + series.length, 0)
    t.ok(samples > 100 && samples <= maxIdleSamples, `${samples} samples`)
    // Times of Redis exist already, because varve has used it.
    if ('redis' in cache) {
      checkClosedSeries(t, scraped, ofTiers.filter(([name]) => name !== 'varve_redis_duration_seconds'))
    }
  }
})

t.test('following adds its metrics, closed series at 0, and a varve that does not follow has none', async t => {
  const [following, other] = [
    await scrape((await varveAt(t, 'http://127.0.0.1:9', { follow: { mode: 'observe' } })).adminUrl),
    await scrape((await varveAt(t, 'http://127.0.0.1:9')).adminUrl)
  ]
  t.same([...other.keys()].filter(name => name.startsWith('varve_follow_')), [])
  for (const [name, type, labels = {}] of ofFollowing) {
    const metric = following.get(name)
    t.equal(metric?.type, type, name)
    t.same(metric && setsOf(metric), everySetOf(name, labels), name)
    if (type === 'counter') t.same(metric?.series.filter(({ value }) => value !== 0), [], name)
  }
})

t.test('series labelled by status or upstream appear at their first count', async t => {
  const [redis, sandbox] = await Promise.all([startRedis(t), startSandboxNode(t)])
  const varve = await varveAt(t, sandbox.url, { cache: { redis: { url: redis.url } } })
  t.equal((await varve.get('/v1/info')).status, 200)
  const scraped = await scrape(varve.adminUrl)
  const byName = [...contract, ...ofTiers].filter(([, , labels = {}]) => Object.values(labels).includes(named))
  for (const [name, , labels = {}] of byName) {
    const sets = scraped.get(name)?.series.map(({ labels: { le, ...set } }) => set) ?? []
    t.ok(sets.length > 0, name)
    for (const set of sets) t.same(Object.keys(set).sort(), Object.keys(labels).sort(), name)
  }
  t.equal(scraped.get('varve_redis_up')?.series[0]?.value, 1)
})

t.test('/metrics shows exactly the listed metrics, with all closed series from the start', async t => {
  const varve = await varveAt(t, 'http://127.0.0.1:9', { follow: { mode: 'observe' } })
  const scraped = await scrape(varve.adminUrl)
  const there = metricList.filter(({ name }) => name !== 'varve_tls_certificate_not_after_seconds')
  t.same([...scraped.keys()].filter(name => name.startsWith('varve_')).sort(), there.map(({ name }) => name).sort())
  for (const row of there) {
    const metric = scraped.get(row.name)
    t.match(metric, { type: row.type, help: row.help }, row.name)
    const sets = new Set(metric === undefined ? [] : setsOf(metric))
    for (const labels of initialSeries(row)) t.ok(sets.has(textOf(labels)), `${row.name} ${textOf(labels)}`)
  }
})
