import { type Test } from 'tap'
import { type RecentSnapshot, type TotalsSummary } from '../../src/metrics/recent-counts.js'
import { missCauses } from '../../src/cache/removals.js'
import { outcomeNames } from '../../src/proxy/outcomes.js'
import { adminApp } from '../../src/http/admin-app.js'
import { type ProcessStatus } from '../../src/http/status.js'

/** Contents of /status.json. */
export type StatusFixture = Omit<Partial<ProcessStatus>, 'recent'> & {
  readonly recent?: Omit<RecentSnapshot, 'totals'>,
  readonly totals?: TotalsSummary,
  readonly workers?: readonly object[]
}

type AdminParts = Parameters<typeof adminApp>[0]

/** Makes the real admin listener, whose parts a test can replace. */
export function adminAppWith (t: Test, change: Partial<AdminParts> = {}): ReturnType<typeof adminApp> {
  const app = adminApp({
    metrics: { contentType: 'text/plain', text: async () => '' },
    status: async () => ({ ready: true, level: 'green', degraded: [] }),
    config: () => ({}),
    onUnexpectedError: () => {},
    purgeRoute: { token: () => null, purge: async () => ({ everywhere: true }) },
    setCordoned: async () => true,
    reload: async () => ({ reloaded: true, changed: [], needsRestart: [] }),
    ...change
  })
  t.teardown(async () => {
    await app.close()
  })
  return app
}

/** Starts the admin listener with a scripted status; `setting.status` may change, or be an error. */
export async function serveStatus (t: Test, setting: { status: object | Error }): Promise<{ url: string }> {
  const status = async (): Promise<ProcessStatus> => {
    if (setting.status instanceof Error) throw setting.status
    return setting.status as ProcessStatus
  }
  return { url: await adminAppWith(t, { status }).listen({ port: 0, host: '127.0.0.1' }) }
}

/** Returns steps of traffic: `rate` gives the count of each outcome in a step. */
export function recentFixture (
  length: number,
  rate: (outcome: string, at: number) => number,
  pruned = { cache: 0, local: 0, upstream: 0 }
): Omit<RecentSnapshot, 'totals'> {
  const list = (of: (at: number) => number): number[] =>
    Array.from({ length }, (_, at) => Math.max(0, Math.round(of(at))))
  return {
    stepMs: 5000,
    lastStepMs: 1_750_000_000_000,
    outcomes: Object.fromEntries(
      outcomeNames.map(name => [name, list(at => rate(name, at))])
    ) as unknown as RecentSnapshot['outcomes'],
    pruned: {
      cache: list(at => at === 0 ? pruned.cache : 0),
      local: list(at => at === 0 ? pruned.local : 0),
      upstream: list(at => at === 0 ? pruned.upstream : 0)
    },
    misses: Object.fromEntries(
      missCauses.map(cause => [cause, list(at => rate('miss', at) * (missShares[cause] ?? 0))])
    ) as unknown as RecentSnapshot['misses'],
    responses: { server_error: list(at => rate('unavailable', at)) },
    lastFaultMs: {}
  }
}

const missShares: Record<string, number> = { first: 0.7, evicted: 0.12, expired: 0.18 }

const bases: Record<string, number> = {
  hit_memory: 2100,
  hit_redis: 260,
  miss: 190,
  collapsed: 60,
  forwarded: 130,
  preflight: 3,
  gone: 2,
  rejected: 2,
  limited: 1,
  unavailable: 0
}

/** Returns ten minutes of a busy varve, always the same. */
function busyRecent (): Omit<RecentSnapshot, 'totals'> {
  return recentFixture(121, (name, at) => {
    const wave = 1 + 0.25 * Math.sin(at / 17) + 0.08 * Math.sin(at * 1.7 + name.length) + 0.05 * Math.sin(at * 4.1)
    const burst = name === 'miss' && at > 70 && at < 82 ? 5 : name === 'hit_memory' && at > 70 && at < 82 ? 1.25 : 1
    return (bases[name] ?? 0) * wave * burst * (at === 120 ? 0.55 : 1)
  }, { cache: 1812, local: 96, upstream: 3 })
}

/** Returns the status of an upstream. */
export function upstreamStatus (name: string, change: object = {}): ProcessStatus['upstreams'][number] {
  return {
    name,
    state: 'up',
    reason: undefined,
    cordoned: false,
    circuit: 'closed',
    release: '3f9c1b7a5e2d4f60891c7b3a',
    version: '2894117203',
    oldestVersion: '2748300112',
    lagVersions: '0',
    lagSeconds: 0,
    ageMs: 380,
    latencyMs: 3.42,
    p95Ms: 8.1,
    inFlight: 4,
    waiting: 0,
    streams: 0,
    maxConcurrent: 256,
    budget: undefined,
    ...change
  }
}

/** Status of an upstream that has not responded yet. */
export const unheard = {
  state: 'unknown',
  ageMs: undefined,
  lagSeconds: undefined,
  release: undefined,
  version: undefined,
  oldestVersion: undefined,
  lagVersions: undefined,
  latencyMs: undefined,
  p95Ms: undefined,
  inFlight: 0
}

/** Returns the status of a healthy varve. */
export function healthyStatus (change: object = {}): StatusFixture {
  return {
    ready: true,
    level: 'green',
    degraded: [],
    conditions: [],
    draining: false,
    varve: {
      version: '0.1.0',
      docs: 'https://varve.example/docs/',
      host: 'varve-1',
      isSandbox: false
    },
    totals: {
      readsSaved: 18_204_377,
      savings: 364.09,
      hitMs: { p50: 0.071, p99: 0.94 },
      missMs: { p50: 4.2, p99: 38.5 },
      endpoints: [
        { endpoint: 'account_resource', requests: 9_120_044, saved: 8_611_270 },
        { endpoint: 'table_item', requests: 6_004_912, saved: 5_720_118 },
        { endpoint: 'block_by_version', requests: 2_870_406, saved: 2_690_300 },
        { endpoint: 'view', requests: 1_204_555, saved: 1_182_689 },
        { endpoint: 'other', requests: 211_038, saved: 0 }
      ],
      clients: []
    },
    chain: { id: 1, space: '5f2c9a1be07d4438' },
    position: {
      version: '2894117203',
      oldestVersion: '1',
      blockHeight: '341288409',
      oldestBlockHeight: '0',
      timestampUsec: '1748772901223344',
      ageMs: 412,
      headAgeMs: 640
    },
    upstreams: [
      upstreamStatus('archive', {
        oldestVersion: '1',
        latencyMs: 6.91,
        p95Ms: 21.4,
        lagVersions: '38',
        version: '2894117165',
        inFlight: 1
      }),
      upstreamStatus('node-a'),
      upstreamStatus('node-b', { latencyMs: 2.87, p95Ms: 7.3, oldestVersion: '2801442871', inFlight: 6 })
    ],
    inFlight: { bytes: 3_145_728, maxBytes: 67_108_864 },
    tiers: {
      memory: { entries: 61_204, bytes: 148_897_792, maxBytes: 268_435_456 },
      disk: { state: 'off' },
      redis: { state: 'up' }
    },
    recent: busyRecent(),
    ...change
  } as StatusFixture
}

/** Returns the status of a varve that follows the ledger. */
export function followingStatus (change: object = {}): StatusFixture {
  return healthyStatus({
    follow: { mode: 'on', state: 'following', version: '2894117198', lagSeconds: 0.114, ...change },
    recent: recentFixture(121, (name, at) => {
      const wave = 1 + 0.25 * Math.sin(at / 17) + 0.08 * Math.sin(at * 1.7 + name.length)
      return (name === 'hit_followed' ? 1450 : name === 'forwarded' ? 20 : bases[name] ?? 0) * wave
    })
  })
}

// The window of an upstream on another chain is unknown.
const quarantined = {
  state: 'quarantined',
  reason: 'it is of another chain',
  version: undefined,
  oldestVersion: undefined,
  lagVersions: undefined,
  lagSeconds: undefined,
  ageMs: undefined,
  latencyMs: 4,
  p95Ms: undefined,
  inFlight: 0
}

/** Returns the status of a varve that serves with many faults. */
export function degradedStatus (): StatusFixture {
  const degraded = [
    'node-a is down: timeout',
    'node-b is rate limiting varve: status 429',
    'node-c is quarantined: it is of another chain',
    'node-d has not responded yet',
    'Redis unreachable: connect ECONNREFUSED 10.0.3.7:6379'
  ]
  return healthyStatus({
    level: 'amber',
    degraded,
    conditions: degraded.map(text => ({ level: 'amber', text })),
    inFlight: { bytes: 41_943_040, maxBytes: 67_108_864 },
    upstreams: [
      upstreamStatus('archive', { oldestVersion: '1', latencyMs: 46.9, p95Ms: 121, inFlight: 37, waiting: 5 }),
      upstreamStatus('node-a', {
        state: 'down',
        reason: 'timeout',
        circuit: 'open',
        latencyMs: 5000,
        p95Ms: 2210,
        version: '2894090011',
        lagVersions: '27192',
        inFlight: 0
      }),
      upstreamStatus('node-b', {
        state: 'backing_off',
        reason: 'status 429',
        inFlight: 0,
        oldestVersion: '2801442871'
      }),
      upstreamStatus('node-c', quarantined),
      upstreamStatus('node-d', unheard)
    ],
    tiers: { memory: { entries: 112_204, bytes: 261_897_792, maxBytes: 268_435_456 }, redis: { state: 'down' } },
    recent: recentFixture(121, (name, at) => {
      const usual = (bases[name] ?? 0) * (1 + 0.2 * Math.sin(at / 9) + 0.06 * Math.sin(at * 2.3 + name.length))
      if (at < 64) return usual
      if (name === 'hit_redis') return 0
      if (name === 'limited') return usual * 90
      return name === 'miss' || name === 'forwarded' ? usual * 0.6 : usual
    }, { cache: 211, local: 40, upstream: 12 })
  })
}

/** Returns the status of a varve without a usable upstream, whose misses fail. */
export function redStatus (): StatusFixture {
  const degraded = [
    'serving cache only: 33 % of requests fail',
    'archive is down: timeout',
    'node-a is down: connection refused',
    'node-c is quarantined: it is of another chain'
  ]
  const old = { state: 'down', circuit: 'open', reason: 'timeout', ageMs: 95_000, inFlight: 0 }
  return healthyStatus({
    level: 'red',
    degraded,
    conditions: degraded.map((text, at) => ({ level: at === 0 ? 'red' : 'amber', text })),
    position: { ...healthyStatus().position, ageMs: 95_000, headAgeMs: 95_000 },
    upstreams: [
      upstreamStatus('archive', { ...old, oldestVersion: '1' }),
      upstreamStatus('node-a', { ...old, reason: 'connection refused' }),
      upstreamStatus('node-c', quarantined)
    ],
    recent: recentFixture(121, (name, at) => {
      const usual = (bases[name] ?? 0) * (1 + 0.2 * Math.sin(at / 9) + 0.06 * Math.sin(at * 2.3 + name.length))
      if (at < 100 || name.startsWith('hit')) return usual
      return name === 'unavailable' ? 1180 : 0
    })
  })
}
