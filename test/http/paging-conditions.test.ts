import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { pagingDaysLeft } from '../../src/http/certificate.js'
import {
  paging,
  processAlerts,
  requestAlerts,
  statusConditionsOf,
  type StatusSources,
  withTraffic
} from '../../src/http/status-conditions.js'
import { type FaultName, type RecentSnapshot } from '../../src/metrics/recent-counts.js'
import { HistoryForecast, historySoonSeconds } from '../../src/proxy/pruned-reads.js'
import { isAlert, readRules } from '../support/prometheus.js'
import { recentFixture } from '../support/status-fixtures.js'

const rules = readFileSync(join(import.meta.dirname, '../../config/prometheus-rules.yml'), 'utf8')
// One ticket has a condition too: within the hour nothing is lost that is cached.
const pagingRules = readRules(rules).filter(isAlert).filter(({ alert, labels }) =>
  labels['severity'] === 'page' || alert === 'VarveHistoryEndsInAnHour'
)
const minute = 60_000
const { stale: { ageSeconds }, stalled, failing } = paging
const ofCertificate = 'VarveCertificateExpiresInTwoDays'

// Parts of each alert's expression with its thresholds and windows, and its wait in seconds.
const expected: Readonly<Record<string, [forSeconds: number, ...when: string[]]>> = {
  // A process that is gone shows nothing; the open page says that varve is unreachable.
  VarveDown: [60, 'up{job="varve"} == 0'],
  VarveAbsent: [300, 'absent(up{job="varve"})'],
  VarveNotReady: [120, 'varve_ledger_version != varve_ledger_version'],
  VarveReadsFailing: [
    failing.forSeconds,
    `ratio_rate${failing.windowMinutes}m > ${failing.share}`,
    `instance:varve_requests:rate5m > ${failing.perSecond}`,
    `[${failing.lastMinutes}m]`
  ],
  VarveLevelRed: [120, 'varve_level == 2'],
  VarveNoUpstreamUp: [60, 'max without (upstream) (varve_upstream_up) == 0'],
  VarvePositionStale: [paging.stale.forSeconds, `varve_ledger_position_age_seconds > ${ageSeconds}`],
  VarveHeadStalled: [
    stalled.forSeconds,
    `changes(varve_ledger_version[${stalled.minutes}m]) == 0`,
    `varve_ledger_position_age_seconds < ${ageSeconds}`
  ],
  VarveChainReset: [0, 'increase(varve_chain_resets_total[15m])'],
  VarveHistoryEndsInAnHour: [
    paging.historyEnds.forSeconds,
    `instance:varve_history_left:seconds < ${historySoonSeconds}`
  ],
  VarveAuditMismatch: [0, 'increase(varve_audit_total{result="different"}[15m])'],
  VarveFollowDifferent: [0, 'increase(varve_follow_verified_total{result="different"}[15m])'],
  VarveDescriptorsExhausted: [0, 'increase(varve_descriptors_exhausted_total[10m])'],
  [ofCertificate]: [300, `varve_tls_certificate_not_after_seconds - time() < ${pagingDaysLeft} * 86400`]
}

t.test('every alert that pages has a condition with the same thresholds and the same wait', async t => {
  t.same(pagingRules.map(({ alert }) => alert), Object.keys(expected))
  for (const { alert, expr = '', for: wait = '' } of pagingRules) {
    const [forSeconds = NaN, ...when] = expected[alert] ?? []
    t.equal(`${forSeconds / 60}m`, wait, alert)
    for (const part of when) t.ok(expr.includes(part), `${alert}: ${part}`)
  }
  const shown = [...Object.keys(processAlerts), ...Object.keys(requestAlerts), ofCertificate]
  // The level pages for what is red; VarveDown and VarveAbsent show nowhere in varve.
  t.same([...shown, 'VarveDown', 'VarveAbsent', 'VarveLevelRed'].sort(), Object.keys(expected).sort())
})

const up = {
  name: 'a',
  limiter: { exhaustedLimit: undefined },
  state: 'up',
  isUp: true,
  isCordoned: false,
  health: {},
  stampAgeMs: 0,
  settings: { maxLagSeconds: 60 }
}

/** Lists the words of a process that is healthy but for a change. */
function wordsOf (change: object = {}): string {
  return statusConditionsOf({
    tracker: { position: {}, ageMs: 100, headAgeMs: 100 },
    upstreamPool: { upstreams: [up] },
    drain: {},
    clients: {},
    loadShedder: {},
    inFlight: {},
    info: () => ({}),
    degradedTiers: () => [],
    degradedCertificate: () => [],
    history: {},
    ...change
  } as unknown as StatusSources).map(({ text }) => text).join('; ')
}

const recentWith = (change: Partial<RecentSnapshot>): string =>
  withTraffic([], { ...recentFixture(121, name => name === 'miss' ? 10 : 0), ...change }).map(({ text }) => text)
    .join('; ')
// One step of 5xx in each minute, for the last minutes.
const failingFor = (minutes: number, each = 12): string =>
  recentWith({
    responses: { server_error: Array.from({ length: 121 }, (_, at) => at >= 121 - minutes * 12 ? each / 12 : 0) }
  })
const faultAgo = (fault: FaultName, minutes: number): string =>
  recentWith({ lastStepMs: 100 * minute, lastFaultMs: { [fault]: (100 - minutes) * minute } })

/** Words after an hour in which pruning goes on at a pace, and clients read at a distance from the oldest version. */
function historyAfter (minutes: number, distance: bigint): string {
  const clock = { ms: 0 }
  const tracker = { position: { oldest: { version: 0n }, head: { version: 1_000_000n } } } as never as {
    position: { oldest: { version: bigint }, head: { version: bigint } }
  }
  const history = new HistoryForecast({
    now: () => clock.ms,
    tracker: tracker as never,
    lowestRequested: { valueIn: ({ oldest }) => oldest.version + distance }
  })
  for (let at = 0; at <= minutes; at++) {
    history.tick()
    clock.ms += minute
    // Prunes 10 versions a second.
    tracker.position.oldest.version += 600n
  }
  return wordsOf({ history })
}

t.test('each condition shows when its alert pages, and not a moment before', async t => {
  const stale = (ageMs: number): string => wordsOf({ tracker: { position: {}, ageMs, headAgeMs: ageMs } })
  const stalled = (headAgeMs: number): string => wordsOf({ tracker: { position: {}, ageMs: 100, headAgeMs } })
  const examples: Record<string, [before: string, at: string, words: RegExp]> = {
    VarveNotReady: [wordsOf(), wordsOf({ tracker: {} }), /^no upstream has been reached yet$/],
    VarveReadsFailing: [failingFor(4), failingFor(10), /^clients get 5xx: 10 % of the requests of the last 5 minutes$/],
    VarveNoUpstreamUp: [
      wordsOf(),
      wordsOf({ upstreamPool: { upstreams: [{ ...up, isUp: false }] } }),
      /^serving cache only: no upstream is usable/
    ],
    VarvePositionStale: [stale(120_000), stale(120_001), /^no upstream has confirmed the served head for 120 s$/],
    VarveHeadStalled: [
      stalled(20 * minute - 1),
      stalled(20 * minute),
      /^the chain does not grow: the head last moved 1200 s ago$/
    ],
    VarveChainReset: [faultAgo('chain_reset', 15), faultAgo('chain_reset', 14), /^the chain was reset/],
    VarveHistoryEndsInAnHour: [historyAfter(39, 30_000n), historyAfter(40, 30_000n), /^history .* within an hour$/],
    VarveAuditMismatch: [faultAgo('audit_different', 15), faultAgo('audit_different', 14), /^an audit found/],
    VarveFollowDifferent: [faultAgo('follow_different', 15), faultAgo('follow_different', 14), /^following the ledger/],
    VarveDescriptorsExhausted: [
      faultAgo('descriptors_exhausted', 10),
      faultAgo('descriptors_exhausted', 9),
      /^no file descriptor/
    ],
    [ofCertificate]: [wordsOf(), wordsOf({ degradedCertificate: () => ['it expires'] }), /it expires/]
  }
  t.same(
    Object.keys(examples).sort(),
    [...Object.keys(processAlerts), ...Object.keys(requestAlerts), ofCertificate].sort()
  )
  for (const [alert, [before, at, words]] of Object.entries(examples)) {
    t.equal(before, '', alert)
    t.match(at, words, alert)
  }
  t.equal(failingFor(10, 5), '', 'less than 5 % of the requests')
  t.equal(historyAfter(60, 40_000n), '', 'more than an hour is left')
  t.match(stale(Infinity), /since the start$/)
})
