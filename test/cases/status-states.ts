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

/** Lists what the page says of each state: a selector and the words there. */
export const wordsOf: Record<string, Array<[string, RegExp]>> = {
  healthy: [
    ['#verdict', /^varve is healthy$/],
    ['#follow', /^$/],
    ['#hit-rate', /^86\.8 %$/],
    ['#hit-note', /^[\d,]+ of [\d,]+ cacheable reads in the last 5 minutes$/],
    ['#success-rate', /^99\.8 %$/],
    ['#success-note', /^\d+ rejected with 429, \d+ rejected with 4xx in the last 5 minutes$/],
    ['#rate-note', /^157,834 requests in the last 5 minutes$/],
    [
      '#version-note',
      /^block 341,288,409, moved (?:just now|\d seconds? ago), confirmed (?:just now|\d seconds? ago)$/
    ],
    [
      '#history',
      /Pruned requests 1,911 requests in the last 10 minutes Hits 1,812 .*410 responses 99 96 by varve, 3 by an upstream/
    ],
    ['#tiers', /Memory 142 MB of 256 MB 61,204 entries; 55\.4 % full Bytes in flight 3 MB of 64 MB .* Redis up/],
    [
      '#varve',
      /varve 0\.1\.0 .*Newest block 2025-06-01 10:15:01 UTC Upstream releases 3f9c1b7a5e2d4f60891c7b3a/
    ]
  ],
  degraded: [
    ['#verdict', /^varve is ready, with 5 warnings$/],
    ['#reasons', /node-c is quarantined: it is of another chain/],
    [
      '#upstreams tbody tr:nth-child(2)',
      /down timeout; circuit open: used only if no other upstream is left; .*27,192 versions/
    ],
    ['#upstreams tbody tr:nth-child(3)', /backing off status 429/],
    ['#upstreams tbody tr:nth-child(4)', /quarantined it is of another chain unknown/],
    ['#upstreams tbody tr:nth-child(5)', /release unknown .*not polled yet unknown/],
    ['#upstream-note', /^node-a down, node-b backing off, 2 more$/],
    ['#tiers', /Redis unreachable reads continue without it/]
  ],
  'no position yet': [
    ['#verdict', /^varve is not ready$/],
    ['#version', /^not known yet$/],
    ['#hit-rate', /^no reads yet$/],
    ['#hit-note', /^no requests since the start 5 seconds ago$/],
    ['#history', /Oldest version unknown/]
  ],
  'clients get errors': [
    ['#verdict', /^serving cache only: 33 % of requests fail$/],
    ['#success-rate', /^86\.6 %$/],
    ['#hit-note', /^[\d,]+ of [\d,]+ cacheable reads, without 2\d,\d{3} failed requests in the last 5 minutes$/],
    ['#success-note', /rejected with 4xx, 2\d,\d{3} errors in the last 5 minutes$/],
    ['#upstreams tbody tr:nth-child(1)', /down timeout; .*values as of \d\d:\d\d:\d\d/],
    ['#history', /Held by upstreams none/],
    ['#upstreams tbody tr:nth-child(3)', /quarantined it is of another chain unknown/]
  ],
  'no worker answers': [['#verdict', /^varve is not ready$/], ['#upstream-count', /^none$/], [
    '#no-upstreams',
    /./
  ], ['#tiers', /unknown/]],
  following: [[
    '#follow',
    /Mode on State following every transaction .*Followed hits 17\d,\d{3} 3\d\.?\d? % of cacheable reads$/
  ]],
  'following stopped': [
    ['#follow', /State stopped an audit found a wrong account_resource at the followed head Followed head none Fol/]
  ],
  'no traffic': [['#hit-rate', /^no reads yet$/], ['#rate', /^0$/], ['#chart', /no requests/], [
    '#traffic-note',
    /^No requests in the last 10 minutes/
  ]],
  'draining workers': [['#verdict', /^varve is draining$/], [
    '#workers',
    /4011 ready 2,894,117,203 .*4012 not ready, 2 warnings unknown/
  ]],
  'windows with a gap': [
    ['#history', /Held by upstreams 220 versions 80 versions that no usable upstream has/]
  ],
  'numbers as large as they get': [
    ['#version', /^18,446,744,073,709,551,615$/],
    ['#version-note', /by another varve/],
    [
      '#upstreams',
      /0 – 18,446,744,073,709,551,615 18,446,744,073,709,551,616 versions|0 – 18,446,744,073,709,551,615/
    ],
    ['#history', /18,446,744,073,709,551,614 .*Held by upstreams 18,446,744,073,709,551,616 versions/],
    ['#varve', /Newest block unknown/]
  ],
  hostile: [
    ['#reasons', /<script>alert\(1\)<\/script><img src=x onerror=alert\(2\)>/],
    ['#upstreams', /"><svg onload=alert\(3\)>/],
    ['#varve', /varve <script>/],
    ['#version', /^unknown$/]
  ]
}
