import { lagSecondsOf, type LedgerStamp } from '../upstreams/ranking.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type StoreName, type TierStatus } from '../cache/tier.js'
import { type Tracker } from '../chain/tracker.js'
import { type FollowState } from '../follow/follower.js'
import { type RecentSnapshot, type FaultName } from '../metrics/recent-counts.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { type DrainFlag } from './listener.js'

// Number of steps with the errors of the last 10 to 15 s: the step that is not over, and two before.
const errorSteps = 3
// Number of steps of five minutes, the time that the cards of the status page show.
const rejectedSteps = 60
// Share of failed requests above which clients count as affected.
const redShare = 0.01
// Share of rejected requests above which they are more than a few clients' mistakes, as in VarveClientsLimited.
const rejectedShare = 0.05
// Least number of rejected requests: fewer come from a person who tries something.
const minRejected = 5

/**
 * Lists what is wrong in this process, requests aside: page, /readyz, /status.json and alerts all follow this one rule.
 */
export function statusConditionsOf (sources: StatusSources): StatusCondition[] {
  const { tracker, upstreamPool: { upstreams }, drain, clients, loadShedder, inFlight, info } = sources
  return [
    ...Object.values(processAlerts).flatMap(conditionsOf => conditionsOf(sources)),
    // Warns earlier than the alert VarveCertificateExpiresInTwoDays.
    ...sources.degradedCertificate().map(amber),
    ...(drain.isDraining ? [draining] : []),
    ...(tracker.sharedHeads?.fault === undefined
      ? []
      : [
        tracker.sharedHeads.fault.isServing
          ? amber(tracker.sharedHeads.fault.text)
          : red(tracker.sharedHeads.fault.text)
      ]),
    ...(info().isSandbox ? [amber('sandbox')] : []),
    ...upstreams.flatMap(upstream => reasonsOf(upstream, upstreams, tracker.servedStamp)).map(amber),
    ...upstreams.filter(({ isCordoned }) => isCordoned).map(({ name }) =>
      amber(`${name} is cordoned: it gets no reads until an operator uncordons it`)
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
  return [
    ...withErrors(conditions, recent),
    ...Object.values(requestAlerts).flatMap(conditionsOf => conditionsOf(recent)),
    ...rejectedIn(recent)
  ]
}

/** Adds the errors that clients get from varve. */
function withErrors (conditions: readonly StatusCondition[], { outcomes }: RecentRequests): StatusCondition[] {
  const [all, failed] = [requestsIn(outcomes, errorSteps), sumOf(outcomes.unavailable, errorSteps)]
  if (failed === 0) return [...conditions]
  const share = `${shareOf(failed, all)} of requests fail`
  if (conditions.some(({ text }) => text === cacheOnly)) {
    return conditions.map(condition => condition.text === cacheOnly ? red(`serving cache only: ${share}`) : condition)
  }
  const text = `clients get errors from varve: ${share}`
  return [{ level: failed / all >= redShare ? 'red' : 'amber', text }, ...conditions]
}

/** Reports many rejected requests, which are no errors of varve, so that no other condition shows them. */
function rejectedIn ({ outcomes }: RecentRequests): StatusCondition[] {
  const all = requestsIn(outcomes, rejectedSteps)
  const reasons = {
    limited: '429: usually a proxy in front is missing in trustProxy, so all its clients share one limit',
    rejected: '4xx by varve: varve_requests_total{outcome="rejected"} has them by status'
  }
  return (['limited', 'rejected'] as const).flatMap(outcome => {
    const count = sumOf(outcomes[outcome], rejectedSteps)
    return count >= minRejected && count >= rejectedShare * all
      ? [amber(`${shareOf(count, all)} of requests are rejected with ${reasons[outcome]}`)]
      : []
  })
}

function requestsIn (outcomes: RecentRequests['outcomes'], steps: number, ago = 0): number {
  return Object.values(outcomes).reduce((total, counts) => total + sumOf(counts, steps, ago), 0)
}

/** Adds up the last steps, or as many steps before the last `ago`. */
function sumOf (counts: readonly number[], steps: number, ago = 0): number {
  const end = counts.length - ago
  return counts.slice(Math.max(0, end - steps), end).reduce((total, count) => total + count, 0)
}

function shareOf (part: number, all: number): string {
  return `${part * 100 < all ? '< 1' : Math.floor(part / all * 100)} %`
}

function reasonsOf (
  upstream: Upstream,
  upstreams: readonly Upstream[],
  served: LedgerStamp | undefined
): string[] {
  const { name, limiter } = upstream
  const { exhaustedLimit, queued, streams, maxConcurrent } = limiter
  const slots = exhaustedLimit === undefined
    ? []
    : exhaustedLimit !== 'maxConcurrent'
    ? [`${name} has used up its ${exhaustedLimit}: ${queued} requests wait`]
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

/** Level of a varve. */
export type Level = typeof levels[number]

/** Something that is wrong, in words. */
export interface StatusCondition {
  readonly level: Exclude<Level, 'green'>
  readonly text: string
}

/** Condition in which clients get errors, or no upstream is usable. */
function red (text: string): StatusCondition {
  return { level: 'red', text }
}

/** Condition that clients do not notice yet. */
function amber (text: string): StatusCondition {
  return { level: 'amber', text }
}

/** Condition of a process that finishes its open requests. */
export const draining = amber('draining: open requests are finished, then varve ends')

/** Conditions of several workers of which some are not ready. */
export function missingWorkers (ready: number, wanted: number): StatusCondition[] {
  const text = `${ready} of ${wanted} workers ${ready === 1 ? 'is' : 'are'} ready`
  return ready >= wanted ? [] : [ready === 0 ? red(text) : amber(text)]
}

/** Returns the worst level of the conditions. */
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
  /** Returns `readiness.requireUpstream`. */
  readonly needsUpstream: () => boolean
  readonly clients: { readonly isFull: boolean }
  readonly loadShedder: { readonly isShedding: boolean }
  readonly inFlight: Pick<InFlightBytes, 'bytes' | 'maxBytes' | 'isExhausted'>
  readonly info: () => VarveInfo
  /** Forecast of when history that clients request is pruned. */
  readonly history: { readonly soonForSeconds: number | undefined }
  /** Undefined if nothing follows. */
  readonly follow: () => FollowStatus | undefined
  readonly recent: { readonly snapshot: RecentSnapshot }
  /** Tiers in use, with their status. */
  readonly tiers: ReadonlyArray<{ readonly name: StoreName, readonly status: TierStatus }>
  /** Reasons why lower tiers are degraded. */
  readonly degradedTiers: () => readonly string[]
  /** Reasons why the certificate needs attention. */
  readonly degradedCertificate: () => readonly string[]
}

/** Recent requests as conditions read them. */
export type RecentRequests = Omit<RecentSnapshot, 'totals'>

// Words for a varve that serves hits, but has no upstream for a miss.
const cacheOnly = 'serving cache only: no upstream is usable'

/** Thresholds and waits of alerts that page, as config/prometheus-rules.yml has them. */
export const paging = {
  stale: { ageSeconds: 60, forSeconds: 60 },
  stalled: { minutes: 10, forSeconds: 600 },
  failing: { share: 0.05, perSecond: 0.05, windowMinutes: 5, lastMinutes: 3, forSeconds: 300 },
  historyEnds: { forSeconds: 600 }
} as const

/**
 * Conditions of this process by the alert that reports them (law 16: what is wrong is never shown as healthy).
 * test/http/paging-conditions.test.ts compares names, thresholds and waits with the rules.
 */
export const processAlerts = {
  // Pages at once, because every read gets 503 already.
  VarveNotReady: ({ tracker, upstreamPool: { upstreams } }) =>
    tracker.position === undefined
      ? [red(describeChainMismatch(upstreams, tracker) ?? 'no upstream has been reached yet')]
      : [],
  VarveNoUpstreamUp: ({ tracker, upstreamPool: { upstreams } }) =>
    tracker.position === undefined || upstreams.some(({ isUp, isCordoned }) => isUp && !isCordoned)
      ? []
      : [red(cacheOnly)],
  VarvePositionStale: ({ tracker: { position, ageMs }, upstreamPool: { upstreams } }) => {
    const { ageSeconds, forSeconds } = paging.stale
    const isStale = position !== undefined && ageMs > (ageSeconds + forSeconds) * 1000
    if (!isStale || !upstreams.some(({ isUp }) => isUp)) return []
    const since = Number.isFinite(ageMs) ? `for ${seconds(ageMs)}` : 'since the start'
    return [amber(`no upstream has confirmed the served head ${since}`)]
  },
  VarveHeadStalled: ({ tracker: { position, ageMs, headAgeMs } }) => {
    const { minutes, forSeconds } = paging.stalled
    return position !== undefined && ageMs < paging.stale.ageSeconds * 1000 &&
        headAgeMs >= (minutes * 60 + forSeconds) * 1000
      ? [amber(`the chain does not grow: the head last moved ${seconds(headAgeMs)} ago`)]
      : []
  },
  VarveHistoryEndsInAnHour: ({ history }) =>
    (history.soonForSeconds ?? 0) >= paging.historyEnds.forSeconds
      ? [amber('history that clients request is pruned within an hour')]
      : []
} satisfies Record<string, (sources: StatusSources) => StatusCondition[]>

/** Conditions of the requests of all processes by the alert that pages for them. */
export const requestAlerts = {
  VarveReadsFailing: ({ outcomes, responses: { server_error: failed }, stepMs }) => {
    const { share, perSecond, windowMinutes, lastMinutes, forSeconds } = paging.failing
    const stepsPerMinute = 60_000 / stepMs
    const [wait, window] = [forSeconds / 60 * stepsPerMinute, windowMinutes * stepsPerMinute]
    const isFailing = (ago: number): boolean => {
      const requests = requestsIn(outcomes, window, ago)
      return sumOf(failed, window, ago) > share * requests && requests > perSecond * windowMinutes * 60 &&
        sumOf(failed, lastMinutes * stepsPerMinute, ago) > 0
    }
    // Returns nothing for a process that has not run as long as the wait.
    if (failed.length <= wait) return []
    for (let ago = 0; ago <= wait; ago++) if (!isFailing(ago)) return []
    const shown = shareOf(sumOf(failed, window), requestsIn(outcomes, window))
    return [amber(`clients get 5xx: ${shown} of the requests of the last ${windowMinutes} minutes`)]
  },
  VarveChainReset: faultAlert('chain_reset', 15, 'the chain was reset'),
  VarveAuditMismatch: faultAlert(
    'audit_different',
    15,
    'an audit found cached responses that differ from an upstream'
  ),
  VarveFollowDifferent: faultAlert('follow_different', 15, 'following the ledger found a difference'),
  VarveDescriptorsExhausted: faultAlert(
    'descriptors_exhausted',
    10,
    'no file descriptor was left, and new connections were closed'
  )
} satisfies Record<string, (recent: RecentRequests) => StatusCondition[]>

function faultAlert (fault: FaultName, minutes: number, text: string) {
  return ({ lastFaultMs, lastStepMs }: RecentRequests): StatusCondition[] =>
    (lastFaultMs[fault] ?? -Infinity) > lastStepMs - minutes * 60_000
      ? [amber(`${text} in the last ${minutes} minutes`)]
      : []
}

function seconds (ms: number): string {
  return `${Math.floor(ms / 1000)} s`
}
