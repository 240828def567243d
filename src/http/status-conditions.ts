import { lagSecondsOf, type LedgerStamp } from '../upstreams/ranking.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type TierName, type TierStatus } from '../cache/tier.js'
import { type Tracker } from '../chain/tracker.js'
import { type FollowState } from '../follow/follower.js'
import { type RecentSnapshot, type FaultName } from '../metrics/recent-counts.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { historySoonSeconds } from '../proxy/history-forecast.js'
import { type DrainFlag } from './listener.js'
import { pagingDaysLeft } from './certificate.js'

// Looks at the requests of 10 to 15 s: the step that is not over, and two before.
const errorSteps = 3
// Looks at five minutes, as the cards of the status page do.
const rejectedSteps = 60
// Share of failed requests from which clients count as affected, not a few requests.
const redShare = 0.01
// Share of rejected requests that is more than single clients with mistakes, as in VarveClientsLimited.
const rejectedShare = 0.05
// Fewer rejected requests are a person who tries something.
const minRejected = 5

/** Lists what is wrong in this process, requests aside: the one rule of page, /readyz, /status.json and alerts. */
export function statusConditionsOf (sources: StatusSources): StatusCondition[] {
  const { tracker, upstreamPool: { upstreams }, drain, clients, loadShedder, inFlight, info } = sources
  return [
    ...pagingConditionsOf(sources),
    ...(drain.isDraining ? [amber('draining: open requests are finished, then varve ends')] : []),
    ...(info().isSandbox ? [amber('sandbox')] : []),
    ...upstreams.flatMap(upstream => reasonsOf(upstream, upstreams, tracker.servedStamp)).map(amber),
    ...upstreams.filter(({ isCordoned }) => isCordoned).map(({ client }) =>
      amber(`${client.name} is cordoned: it gets no reads until an operator uncordons it`)
    ),
    ...sources.degradedTiers().map(amber),
    ...(clients.isFull ? [amber('connection limit reached: new clients replace idle ones or are closed')] : []),
    ...(inFlight.isExhausted
      ? [amber('limits.inFlightMb is used up: large responses are not stored, and misses may be rejected')]
      : []),
    ...(loadShedder.isShedding ? [amber('overloaded: serving cached responses only')] : [])
  ]
}

/** Adds what recent requests say to the conditions of one process or of all. */
export function withTraffic (conditions: readonly StatusCondition[], recent: RecentRequests): StatusCondition[] {
  return [...withErrors(conditions, recent), ...pagingConditionsIn(recent), ...rejectedIn(recent)]
}

/** Adds the errors that clients get from varve. */
function withErrors (conditions: readonly StatusCondition[], recent: RecentRequests): StatusCondition[] {
  const { all, unavailable: failed } = sumsOf(recent, errorSteps)
  if (failed === 0) return [...conditions]
  const share = `${shareOf(failed, all)} of requests fail`
  if (conditions.some(({ text }) => text === cacheOnly)) {
    return conditions.map(condition => condition.text === cacheOnly ? red(`serving cache only: ${share}`) : condition)
  }
  const text = `clients get errors from varve: ${share}`
  return [{ level: failed / all >= redShare ? 'red' : 'amber', text }, ...conditions]
}

/** Names many rejected requests: they are no errors of varve, so nothing else here shows them. */
function rejectedIn (recent: RecentRequests): StatusCondition[] {
  const { all, limited, rejected } = sumsOf(recent, rejectedSteps)
  const isMany = (count: number): boolean => count >= minRejected && count >= rejectedShare * all
  return [
    ...(isMany(limited)
      ? [
        amber(
          `${shareOf(limited, all)} of requests are rejected with 429: usually a proxy in front is missing in ` +
            'trustProxy, so all its clients share one limit'
        )
      ]
      : []),
    ...(isMany(rejected)
      ? [
        amber(
          `${shareOf(rejected, all)} of requests are rejected with 4xx by varve: ` +
            'varve_requests_total{outcome="rejected"} has them by status'
        )
      ]
      : [])
  ]
}

function sumsOf (
  { outcomes }: RecentRequests,
  steps: number
): { all: number, unavailable: number, limited: number, rejected: number } {
  const sum = (counts: readonly number[]): number => counts.slice(-steps).reduce((total, count) => total + count, 0)
  return {
    all: Object.values(outcomes).reduce((total, counts) => total + sum(counts), 0),
    unavailable: sum(outcomes.unavailable),
    limited: sum(outcomes.limited),
    rejected: sum(outcomes.rejected)
  }
}

function shareOf (part: number, all: number): string {
  return `${part * 100 < all ? '< 1' : Math.floor(part / all * 100)} %`
}

function reasonsOf (
  upstream: Upstream,
  upstreams: readonly Upstream[],
  served: LedgerStamp | undefined
): string[] {
  const { name, limiter } = upstream.client
  const { exhaustedLimit, queued, streams, maxConcurrent } = limiter
  const slots = exhaustedLimit === undefined
    ? []
    : exhaustedLimit === 'requestsPerSecond'
    ? [`${name} has used up its requestsPerSecond: ${queued} requests wait`]
    : [`${name} has no free slot: ${queued} requests wait, ${streams} of ${maxConcurrent} slots are held by streams`]
  const { state, stateReason: reason } = upstream
  const lagSeconds = lagSecondsOf(upstream, upstreams, served) ?? 0
  switch (state) {
    case 'up':
      return lagSeconds > upstream.settings.maxLagSeconds
        ? [`${name} lags by ${Math.floor(lagSeconds)} s of ledger time`, ...slots]
        : slots
    case 'unknown':
      return [`${name} has not responded yet`]
    case 'backing_off':
      return [`${name} is rate limiting varve: ${reason}`]
    case 'down':
      return [`${name} is down: ${reason}`]
    case 'quarantined':
      return [`${name} is quarantined: ${reason}`]
  }
}

/** Severity from healthy to worst; the metric `varve_level` is the place in this list. */
export const levels = ['green', 'amber', 'red'] as const

/** One level of the closed list. */
export type Level = typeof levels[number]

/** Something that is wrong, in words. */
export interface StatusCondition {
  readonly level: Exclude<Level, 'green'>
  readonly text: string
}

/** Clients get errors, or no upstream is usable. */
export function red (text: string): StatusCondition {
  return { level: 'red', text }
}

/** Clients do not notice it yet. */
export function amber (text: string): StatusCondition {
  return { level: 'amber', text }
}

/** Returns the worst level of some conditions. */
export function levelOf (conditions: readonly StatusCondition[]): Level {
  if (conditions.some(({ level }) => level === 'red')) return 'red'
  return conditions.length > 0 ? 'amber' : 'green'
}

/** Release and machine of this varve. */
export interface VarveInfo {
  readonly version: string
  /** Address of the documentation. */
  readonly docs: string
  /** Name of the machine, which distinguishes replicas. */
  readonly host: string
  /** True if the upstream is the embedded sandbox, whose chain is made up. */
  readonly isSandbox: boolean
}

/** Following of the ledger, as /status.json shows it. */
export interface FollowStatus {
  readonly mode: 'off' | 'observe' | 'on'
  readonly state: FollowState
  readonly reason?: string
  /** Followed head, as a text. */
  readonly version: string | undefined
  readonly lagSeconds: number | undefined
}

/** Sources of readiness and status. */
export interface StatusSources {
  readonly tracker: Tracker
  readonly upstreamPool: { readonly upstreams: readonly Upstream[] }
  readonly drain: DrainFlag
  readonly clients: { readonly isFull: boolean }
  readonly loadShedder: { readonly isShedding: boolean }
  readonly inFlight: Pick<InFlightBytes, 'bytes' | 'maxBytes' | 'isExhausted'>
  readonly info: () => VarveInfo
  /** Forecast of when history that clients request is pruned; absent where nothing samples it. */
  readonly history?: { readonly soonForSeconds: number | undefined }
  /** Undefined where nothing follows. */
  readonly follow: () => FollowStatus | undefined
  readonly recent: { readonly snapshot: RecentSnapshot }
  /** Tiers in use. */
  readonly tiers: ReadonlyArray<{ readonly name: TierName, readonly status: TierStatus }>
  /** Reasons why lower tiers are degraded. */
  readonly degradedTiers: () => readonly string[]
  /** Reasons why the certificate needs attention. */
  readonly degradedCertificate: () => readonly string[]
}

/** Recent requests as conditions read them. */
export type RecentRequests = Pick<RecentSnapshot, 'outcomes'> & Partial<RecentSnapshot>

/** An alert that pages, and the condition by which page and /readyz show the same. */
export interface PagingAlert {
  readonly alert: string
  /** Wait of the alert in seconds. */
  readonly forSeconds: number
  /** Parts of the alert's expression with its thresholds and windows. */
  readonly when: readonly string[]
  /** Source of the condition: this process, the requests of all processes, or nothing that varve itself could show. */
  readonly shown:
    | { readonly by: 'process', conditions(sources: StatusSources): StatusCondition[] }
    | { readonly by: 'requests', conditions(recent: RecentRequests): StatusCondition[] }
    | { readonly by: 'level' | 'prometheus' }
}

/** Words of a varve that has no upstream for a miss. */
export const cacheOnly = 'serving cache only: no upstream is usable'

const stale = { ageSeconds: 60, forSeconds: 60 }
const stalled = { minutes: 10, forSeconds: 600 }
const failing = { share: 0.05, perSecond: 0.05, windowMinutes: 5, lastMinutes: 3, forSeconds: 300 }
const historyEndsForSeconds = 600

/**
 * Every alert of config/prometheus-rules.yml that pages, with the condition that shows the same: what would page is at
 * least amber. test/http/paging-conditions.test.ts compares names, thresholds and waits.
 */
export const pagingAlerts: readonly PagingAlert[] = [
  // A process that is gone shows nothing; the open page says that varve is unreachable.
  { alert: 'VarveDown', forSeconds: 60, when: ['up{job="varve"} == 0'], shown: { by: 'prometheus' } },
  { alert: 'VarveAbsent', forSeconds: 300, when: ['absent(up{job="varve"})'], shown: { by: 'prometheus' } },
  {
    alert: 'VarveNotReady',
    forSeconds: 120,
    when: ['varve_ledger_version != varve_ledger_version'],
    shown: {
      by: 'process',
      // At once: every read is 503 already.
      conditions: ({ tracker, upstreamPool: { upstreams } }) =>
        tracker.position === undefined
          ? [red(describeChainMismatch(upstreams, tracker) ?? 'no upstream has been reached yet')]
          : []
    }
  },
  {
    alert: 'VarveReadsFailing',
    forSeconds: failing.forSeconds,
    when: [
      `ratio_rate${failing.windowMinutes}m > ${failing.share}`,
      `instance:varve_requests:rate5m > ${failing.perSecond}`,
      `[${failing.lastMinutes}m]`
    ],
    shown: {
      by: 'requests',
      conditions: recent => {
        const share = failingShareOf(recent)
        return share === undefined
          ? []
          : [amber(`clients get 5xx: ${percent(share)} of the requests of the last ${failing.windowMinutes} minutes`)]
      }
    }
  },
  { alert: 'VarveLevelRed', forSeconds: 120, when: ['varve_level == 2'], shown: { by: 'level' } },
  {
    alert: 'VarveNoUpstreamUp',
    forSeconds: 60,
    when: ['max without (upstream) (varve_upstream_up) == 0'],
    shown: {
      by: 'process',
      conditions: ({ tracker, upstreamPool: { upstreams } }) =>
        tracker.position === undefined || upstreams.some(({ isUp, isCordoned }) => isUp && !isCordoned)
          ? []
          : [red(cacheOnly)]
    }
  },
  {
    alert: 'VarvePositionStale',
    forSeconds: stale.forSeconds,
    when: [`varve_ledger_position_age_seconds > ${stale.ageSeconds}`],
    shown: {
      by: 'process',
      conditions: ({ tracker: { position, ageMs }, upstreamPool: { upstreams } }) =>
        position !== undefined && ageMs > (stale.ageSeconds + stale.forSeconds) * 1000 &&
          upstreams.some(({ isUp }) => isUp)
          ? [
            amber(
              Number.isFinite(ageMs)
                ? `no upstream has confirmed the served head for ${seconds(ageMs)}`
                : 'no upstream has confirmed the served head since the start'
            )
          ]
          : []
    }
  },
  {
    alert: 'VarveHeadStalled',
    forSeconds: stalled.forSeconds,
    when: [
      `changes(varve_ledger_version[${stalled.minutes}m]) == 0`,
      `varve_ledger_position_age_seconds < ${stale.ageSeconds}`
    ],
    shown: {
      by: 'process',
      conditions: ({ tracker: { position, ageMs, headAgeMs } }) =>
        position !== undefined && ageMs < stale.ageSeconds * 1000 &&
          headAgeMs >= (stalled.minutes * 60 + stalled.forSeconds) * 1000
          ? [amber(`the chain does not grow: the head last moved ${seconds(headAgeMs)} ago`)]
          : []
    }
  },
  faultAlert('VarveChainReset', 'chain_reset', 15, 'varve_chain_resets_total', 'the chain was reset'),
  {
    alert: 'VarveHistoryEndsInAnHour',
    forSeconds: historyEndsForSeconds,
    when: [`instance:varve_history_left:seconds < ${historySoonSeconds}`],
    shown: {
      by: 'process',
      conditions: ({ history }) =>
        (history?.soonForSeconds ?? 0) >= historyEndsForSeconds
          ? [amber('history that clients request is pruned within an hour')]
          : []
    }
  },
  faultAlert(
    'VarveAuditMismatch',
    'audit_different',
    15,
    'varve_audit_total{result="different"}',
    'an audit found cached responses that differ from an upstream'
  ),
  faultAlert(
    'VarveFollowDifferent',
    'follow_different',
    15,
    'varve_follow_verified_total{result="different"}',
    'following the ledger found a difference'
  ),
  faultAlert(
    'VarveDescriptorsExhausted',
    'descriptors_exhausted',
    10,
    'varve_descriptors_exhausted_total',
    'no file descriptor was left, and new connections were closed'
  ),
  {
    alert: 'VarveCertificateExpiresInTwoDays',
    forSeconds: 300,
    when: [`varve_tls_certificate_not_after_seconds - time() < ${pagingDaysLeft} * 86400`],
    // Warns earlier than the alert.
    shown: { by: 'process', conditions: ({ degradedCertificate }) => degradedCertificate().map(amber) }
  }
]

/** Conditions of this process that alerts page for. */
export function pagingConditionsOf (sources: StatusSources): StatusCondition[] {
  return pagingAlerts.flatMap(({ shown }) => shown.by === 'process' ? shown.conditions(sources) : [])
}

/** Conditions of recent requests that alerts page for. */
export function pagingConditionsIn (recent: RecentRequests): StatusCondition[] {
  return pagingAlerts.flatMap(({ shown }) => shown.by === 'requests' ? shown.conditions(recent) : [])
}

function faultAlert (alert: string, fault: FaultName, minutes: number, series: string, text: string): PagingAlert {
  return {
    alert,
    forSeconds: 0,
    when: [`increase(${series}[${minutes}m])`],
    shown: {
      by: 'requests',
      conditions: ({ lastFaultMs, lastStepMs = 0 }) =>
        (lastFaultMs?.[fault] ?? -Infinity) > lastStepMs - minutes * 60_000
          ? [amber(`${text} in the last ${minutes} minutes`)]
          : []
    }
  }
}

/** Returns the share of 5xx now, if it was above the threshold for the whole wait of the alert. */
function failingShareOf ({ outcomes, responses, stepMs = 5000 }: RecentRequests): number | undefined {
  const failed = responses?.server_error
  if (failed === undefined) return undefined
  const all = failed.map((_, at) => Object.values(outcomes).reduce((sum, steps) => sum + (steps[at] ?? 0), 0))
  const steps = (minutes: number): number => minutes * 60_000 / stepMs
  const wait = failing.forSeconds * 1000 / stepMs
  // A younger process has not waited yet.
  if (failed.length <= wait) return undefined
  const isFailingAt = (end: number): boolean => {
    const requests = sumOf(all, end, steps(failing.windowMinutes))
    return sumOf(failed, end, steps(failing.windowMinutes)) > failing.share * requests &&
      requests > failing.perSecond * failing.windowMinutes * 60 && sumOf(failed, end, steps(failing.lastMinutes)) > 0
  }
  for (let ago = 0; ago <= wait; ago++) if (!isFailingAt(failed.length - ago)) return undefined
  const window = steps(failing.windowMinutes)
  return sumOf(failed, failed.length, window) / sumOf(all, all.length, window)
}

function sumOf (steps: readonly number[], end: number, count: number): number {
  return steps.slice(Math.max(0, end - count), end).reduce((sum, each) => sum + each, 0)
}

function percent (share: number): string {
  return `${Math.floor(share * 100)} %`
}

function seconds (ms: number): string {
  return `${Math.floor(ms / 1000)} s`
}
