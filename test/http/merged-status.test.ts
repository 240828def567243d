import t from 'tap'
import { Metrics } from '../../src/metrics/metrics.js'
import { MergedRecentCounts } from '../../src/metrics/recent-counts.js'
import { type WorkerStatus, mergeStatuses } from '../../src/http/status.js'
import { healthyStatus, upstreamStatus } from '../support/status-fixtures.js'

const recent = new MergedRecentCounts(() => 1_750_000_000_000, () => new Metrics().countsWithFaults).snapshot

const worker = (
  pid: number,
  version: number | undefined,
  degraded: string[] = [],
  redis: object = { state: 'off' }
): WorkerStatus =>
  ({
    ...healthyStatus(),
    pid,
    ready: version !== undefined,
    level: degraded.length > 0 ? 'amber' : 'green',
    degraded,
    conditions: degraded.map(text => ({ level: 'amber', text })),
    inFlight: { bytes: 10, maxBytes: 100 },
    position: version === undefined
      ? undefined
      : { ...healthyStatus().position, version: String(version), headAgeMs: 700 + pid },
    upstreams: [upstreamStatus('n', { inFlight: pid, waiting: 2, streams: 1, maxConcurrent: 8 })],
    tiers: { memory: { entries: pid, bytes: 100, maxBytes: 1000 }, disk: { state: 'off' }, redis },
    recent
  }) as unknown as WorkerStatus

t.test('varve is ready if one worker is; each degradation and missing workers are reported once', async t => {
  t.match(mergeStatuses([worker(1, 9), worker(2, 8)], 2, false, recent), {
    ready: true,
    level: 'green',
    degraded: { length: 0 },
    position: { headAgeMs: 701 }
  })
  t.match(
    mergeStatuses([worker(1, 9), worker(2, 9)], 2, false, recent),
    { position: { headAgeMs: 702 } },
    'that of the oldest'
  )
  const starting = worker(2, undefined, ['n is slow', 'Redis is down'])
  t.match(mergeStatuses([worker(1, 9, ['n is slow']), starting], 3, false, recent), {
    ready: true,
    level: 'amber',
    degraded: ['1 of 3 workers is ready', 'n is slow', 'Redis is down'],
    position: { headAgeMs: 701 }
  })
  const lagging = [worker(1, 9, ['n-1 lags by 69 s of ledger time']), worker(2, 9, ['n-1 lags by 70 s of ledger time'])]
  t.match(mergeStatuses(lagging, 2, false, recent).degraded, ['n-1 lags by 70 s of ledger time'], 'of two moments')
  t.equal(mergeStatuses(lagging, 2, false, recent).degraded.length, 1)
  t.match(mergeStatuses([worker(1, undefined)], 1, false, recent), { ready: false })
  t.match(mergeStatuses([], 2, false, recent), {
    ready: false,
    level: 'red',
    degraded: ['0 of 2 workers are ready'],
    position: undefined
  })
  t.match(mergeStatuses([worker(1, 9)], 1, true, recent), {
    ready: false,
    level: 'amber',
    degraded: ['draining: open requests are finished, then varve ends'],
    position: { headAgeMs: 701 }
  })
})

t.test('errors that clients get from any worker are part of the merged level', async t => {
  const failing = {
    ...recent,
    outcomes: { ...recent.outcomes, hit_memory: [98], unavailable: [2] }
  }
  t.match(mergeStatuses([worker(1, 9), worker(2, 8)], 2, false, failing), {
    ready: true,
    level: 'red',
    degraded: ['clients get errors from varve: 2 % of requests fail'],
    position: { headAgeMs: 701 }
  })
  t.match(mergeStatuses([worker(1, 9), worker(2, 8)], 2, false, failing), {
    level: 'red',
    conditions: [{ level: 'red' }],
    inFlight: { bytes: 20, maxBytes: 200 },
    upstreams: [{ streams: 2, maxConcurrent: 16 }]
  })
})

t.test('memory adds up, the position is the highest, and Redis is down if it is for one worker', async t => {
  const merged = mergeStatuses([worker(1, 9), worker(2, 10), worker(3, undefined)], 3, false, recent)
  t.match(merged, {
    ready: true,
    varve: { version: '0.1.0' },
    position: { version: '10' },
    tiers: { memory: { entries: 6, bytes: 300, maxBytes: 3000 }, redis: { state: 'off' } },
    upstreams: [{ name: 'n', inFlight: 6, waiting: 6 }],
    workers: [{ pid: 1, version: '9' }, { pid: 2 }, { pid: 3, ready: false }]
  })
  const redisOf = (...states: object[]): unknown =>
    mergeStatuses(states.map((redis, at) => worker(at, 9, [], redis)), 2, false, recent).tiers?.redis
  const down = { state: 'down', reason: 'authentication failed' }
  t.match([redisOf({ state: 'up' }, { state: 'up' }), redisOf({ state: 'up' }, down)], [{ state: 'up' }, down])
  t.equal('pid' in JSON.parse(JSON.stringify(merged)), false)
  t.match(mergeStatuses([], 2, false, recent), {
    ready: false,
    upstreams: [],
    workers: [],
    recent: { outcomes: recent.outcomes },
    totals: { readsSaved: 0 }
  })
})

t.test('all workers share one disk tier, so its sizes count once, and it is down if it is for one', async t => {
  const sizes = { entries: 7, bytes: 100, maxBytes: 1000 }
  const sharing = (pid: number, state: 'up' | 'down'): WorkerStatus => {
    const status = worker(pid, 9)
    return { ...status, tiers: { ...status.tiers, disk: { ...sizes, state } } }
  }
  const diskOf = (...statuses: WorkerStatus[]): unknown => mergeStatuses(statuses, 2, false, recent).tiers?.disk
  t.same(diskOf(sharing(1, 'up'), sharing(2, 'up')), { entries: 7, bytes: 100, maxBytes: 1000, state: 'up' })
  t.same(diskOf(sharing(1, 'up'), sharing(2, 'down')), { entries: 7, bytes: 100, maxBytes: 1000, state: 'down' })
})
