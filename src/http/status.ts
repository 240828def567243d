import { type TierName, tierNames, type TierStatus } from '../cache/tier.js'
import { type Tracker } from '../chain/tracker.js'
import { definitionOf } from '../metrics/definitions.js'
import { type RecentSnapshot } from '../metrics/recent-counts.js'
import { summaryOf } from '../metrics/totals.js'
import { lagSecondsOf } from '../upstreams/ranking.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type Level, type StatusCondition } from './severity.js'
import { levelOf, statusConditionsOf, withTraffic } from './status-conditions.js'
import { type StatusSources } from './status-sources.js'

/** Body of /readyz. */
export interface Readiness {
  readonly ready: boolean
  readonly level: Level
  /** Faults, in words. */
  readonly degraded: readonly string[]
  /** Milliseconds since the served head last moved; absent before the first. */
  readonly headAgeMs?: number
}

/** Readiness with the level of each of its words. */
export interface OverallStatus extends Omit<Readiness, 'headAgeMs'> {
  readonly conditions: readonly StatusCondition[]
}

/**
 * Body of /readyz for this process alone; ready as long as hits can be served, at any level (law 6: the cache can only
 * help).
 */
export function readinessOf (sources: StatusSources): Readiness {
  const { ready, level, degraded } = overallStatusOf(
    isReady(sources),
    withTraffic(statusConditionsOf(sources), sources.recent.snapshot)
  )
  return { ready, level, degraded, ...headAgeIn(processPositionOf(sources)) }
}

/** Says when the head last moved, where a position is known. */
export function headAgeIn (position: { readonly headAgeMs: number } | undefined): Pick<Readiness, 'headAgeMs'> {
  return position?.headAgeMs === undefined ? {} : { headAgeMs: position.headAgeMs }
}

/** Derives level and words from conditions. */
export function overallStatusOf (ready: boolean, conditions: readonly StatusCondition[]): OverallStatus {
  return { ready, level: levelOf(conditions), degraded: conditions.map(({ text }) => text), conditions }
}

function isReady ({ drain, tracker }: StatusSources): boolean {
  return !drain.isDraining && tracker.position !== undefined
}

/** Builds /status.json of a single process. */
export function statusOf (sources: StatusSources) {
  const status = processStatusOf(sources)
  return {
    ...status,
    ...overallStatusOf(status.ready, withTraffic(status.conditions, status.recent)),
    ...trafficStatusOf(status.recent)
  }
}

/**
 * Builds the status of a process, without the errors that its clients get. u64s are texts, since JSON numbers lose
 * digits (law 2: bytes are sacred).
 */
export function processStatusOf (sources: StatusSources) {
  const { tracker, upstreamPool, drain, info, recent, tiers, inFlight, follow } = sources
  return {
    ...overallStatusOf(isReady(sources), statusConditionsOf(sources)),
    draining: drain.isDraining,
    varve: info(),
    chain: tracker.chain,
    position: processPositionOf(sources),
    upstreams: upstreamPool.upstreams.map(upstream => upstreamStatusOf(upstream, tracker, upstreamPool.upstreams)),
    follow: follow(),
    inFlight: { bytes: inFlight.bytes, maxBytes: inFlight.maxBytes },
    tiers: tierStatusesOf(name => tiers.find(tier => tier.name === name)?.status ?? { state: 'off' }),
    recent: recent.snapshot
  }
}

function processPositionOf ({ tracker }: StatusSources) {
  const { position } = tracker
  return position && {
    version: String(position.head.version),
    oldestVersion: String(position.oldest.version),
    blockHeight: String(position.head.blockHeight),
    oldestBlockHeight: String(position.oldest.blockHeight),
    timestampUsec: String(position.head.timestampUsec),
    ageMs: Math.round(tracker.ageMs),
    headAgeMs: Math.round(tracker.headAgeMs)
  }
}

/** Builds what a status says of requests: of the last ten minutes, and since the start. */
export function trafficStatusOf ({ totals, ...recent }: RecentSnapshot) {
  return { recent, totals: summaryOf(totals, definitionOf('varve_request_duration_seconds').bounds) }
}

/** Builds the statuses of all tiers by name. */
export function tierStatusesOf (statusOf: (name: TierName) => TierStatus): Readonly<Record<TierName, TierStatus>> {
  return Object.fromEntries(tierNames.map(name => [name, statusOf(name)])) as Record<TierName, TierStatus>
}

function upstreamStatusOf (
  upstream: Upstream,
  { position, servedStamp }: Pick<Tracker, 'position' | 'servedStamp'>,
  upstreams: readonly Upstream[]
) {
  const servedVersion = position?.head.version
  const { client: { name, release, limiter }, window, windowTracker, health } = upstream
  return {
    name,
    state: upstream.state,
    reason: upstream.stateReason,
    cordoned: upstream.isCordoned,
    circuit: health.isCircuitOpen ? 'open' : 'closed',
    release,
    version: window && String(window.head),
    oldestVersion: window && String(window.oldest),
    lagVersions: window && servedVersion !== undefined
      ? String(servedVersion > window.head ? servedVersion - window.head : 0n)
      : undefined,
    lagSeconds: roundedMs(lagSecondsOf(upstream, upstreams, servedStamp)),
    // Age of the values above.
    ageMs: window && Math.round(windowTracker.ageMs),
    latencyMs: roundedMs(health.latencyMs),
    p95Ms: roundedMs(health.readLatency.p95),
    inFlight: limiter.inFlight,
    waiting: limiter.queued,
    streams: limiter.streams,
    maxConcurrent: limiter.maxConcurrent
  }
}

/** Status of one process. */
export type ProcessStatus = ReturnType<typeof processStatusOf>

function roundedMs (ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 100) / 100
}
