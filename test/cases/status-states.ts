import {
  degradedStatus,
  followingStatus,
  healthyStatus,
  recentFixture,
  redStatus,
  unheard,
  upstreamStatus
} from '../support/status-fixtures.js'

// Lists hostile texts that a browser may get from an operator's varve, one example of each kind.
const hostileTexts = [
  '<script>alert(1)</script><img src=x onerror=alert(2)>',
  '\u202Eneddih\u202D \u0627\u0644\u0639\u0631\u0628\u064A\u0629',
  'x'.repeat(5000),
  'a\u0301'.repeat(3000),
  '😀'.repeat(2500),
  '"><svg onload=alert(3)>',
  '{{7*7}}',
  '\u0000\u001b[31m\r\n\t'
]
const zero = recentFixture(121, () => 0)
const hugest = '18446744073709551615'

/** Lists all states that the page may have to show, by name. */
export const states: Record<string, object> = {
  healthy: healthyStatus(),
  degraded: degradedStatus(),
  'no position yet': healthyStatus({
    ready: false,
    level: 'red',
    degraded: ['no upstream has been reached yet', 'archive has not responded yet'],
    conditions: [{ level: 'red', text: 'no upstream has been reached yet' }, {
      level: 'amber',
      text: 'archive has not responded yet'
    }],
    chain: undefined,
    position: undefined,
    upstreams: [upstreamStatus('archive', unheard)],
    recent: recentFixture(1, () => 0)
  }),
  'no worker answers': {
    ready: false,
    degraded: ['0 of 2 workers are ready'],
    upstreams: [],
    recent: zero,
    workers: []
  },
  'clients get errors': redStatus(),
  following: followingStatus(),
  'following stopped': followingStatus({
    state: 'stopped',
    reason: 'an audit found a wrong account_resource at the followed head',
    version: undefined,
    lagSeconds: undefined
  }),
  'no traffic': healthyStatus({ recent: zero }),
  'draining workers': healthyStatus({
    ready: false,
    draining: true,
    workers: [{ pid: 4011, ready: true, degraded: [], version: '2894117203' }, {
      pid: 4012,
      ready: false,
      degraded: ['stopping', 'x'],
      version: undefined
    }]
  }),
  'windows with a gap': healthyStatus({
    position: { ...healthyStatus().position, version: '300', oldestVersion: '1' },
    upstreams: [
      upstreamStatus('old', { oldestVersion: '1', version: '120' }),
      upstreamStatus('older', { oldestVersion: '1', version: '100' }),
      upstreamStatus('new', { oldestVersion: '201', version: '300' }),
      upstreamStatus('dead', { state: 'down', reason: 'timeout', oldestVersion: '1', version: '300' }),
      upstreamStatus('cordoned', { cordoned: true, oldestVersion: '1', version: '300' })
    ]
  }),
  'numbers as large as they get': healthyStatus({
    position: {
      version: hugest,
      oldestVersion: '18446744073709551614',
      blockHeight: hugest,
      oldestBlockHeight: hugest,
      timestampUsec: hugest,
      ageMs: null
    },
    upstreams: [
      upstreamStatus('node-a', {
        version: hugest,
        oldestVersion: '0',
        lagVersions: hugest,
        latencyMs: 1e9,
        p95Ms: 1e9,
        inFlight: 1e6,
        waiting: 1e6
      })
    ],
    tiers: { memory: { entries: 1e12, bytes: 1e15, maxBytes: 1e15 }, redis: { state: 'up' } },
    recent: recentFixture(121, () => 1e12)
  }),
  hostile: healthyStatus({
    degraded: hostileTexts,
    level: 'amber',
    conditions: hostileTexts.map(text => ({ level: 'amber', text })),
    varve: { version: hostileTexts[0], host: hostileTexts[1], isSandbox: false },
    chain: { id: hostileTexts[0], space: hostileTexts[1] },
    position: {
      version: hostileTexts[0],
      oldestVersion: hostileTexts[2],
      blockHeight: hostileTexts[1],
      oldestBlockHeight: '-1',
      timestampUsec: hostileTexts[0],
      ageMs: 'x'
    },
    upstreams: hostileTexts.map(text => ({
      ...Object.fromEntries(Object.keys(upstreamStatus('node')).map(name => [name, text])),
      cordoned: false
    })),
    inFlight: { bytes: hostileTexts[0], maxBytes: null },
    follow: {
      mode: hostileTexts[0],
      state: hostileTexts[1],
      reason: hostileTexts[2],
      version: hostileTexts[0],
      lagSeconds: 'x'
    },
    tiers: {
      memory: { entries: hostileTexts[0], bytes: null, maxBytes: hostileTexts[1] },
      redis: { state: hostileTexts[0] }
    },
    workers: hostileTexts.map(text => ({ pid: text, ready: true, degraded: [], version: text }))
  })
}
