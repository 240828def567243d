import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { type FaultName, type RecentSnapshot } from '../metrics/recent-counts.js'
import { historySoonSeconds } from '../proxy/history-forecast.js'
import { pagingDaysLeft } from './certificate.js'
import { amber, red, type StatusCondition } from './severity.js'
import { type StatusSources } from './status-sources.js'

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
