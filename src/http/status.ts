import { type StoreName, storeNames, type TierName, type TierStatus } from '../cache/tier.js'
import { type Tracker } from '../chain/tracker.js'
import { definitionOf } from '../metrics/definitions.js'
import { type RecentSnapshot, summaryOf } from '../metrics/recent-counts.js'
import { lagSecondsOf } from '../upstreams/ranking.js'
import { type Upstream } from '../upstreams/upstream.js'
import {
  draining,
  type Level,
  levelOf,
  missingWorkers,
  type StatusCondition,
  statusConditionsOf,
  withTraffic,
  type StatusSources
} from './status-conditions.js'

/**
 * Level of a varve, with its faults in words. A varve is ready as long as it can serve hits (law 6: the cache can only
 * help).
 */
export interface OverallStatus {
  readonly ready: boolean
  readonly level: Level
  readonly degraded: readonly string[]
  readonly conditions: readonly StatusCondition[]
}

/** Derives level and words from conditions. */
function overallStatusOf (ready: boolean, conditions: readonly StatusCondition[]): OverallStatus {
  return { ready, level: levelOf(conditions), degraded: conditions.map(({ text }) => text), conditions }
}

function isReady ({ drain, tracker, upstreamPool, needsUpstream }: StatusSources): boolean {
  return !drain.isDraining && tracker.position !== undefined && tracker.sharedHeads?.fault?.isServing !== false &&
    (!needsUpstream() || upstreamPool.upstreams.some(canServe))
}

/**
 * Returns true for an upstream that is up, or whose failure a second poll has not confirmed: a balancer must not react
 * to one lost connection.
 */
function canServe ({ isCordoned, isUp, state, health }: Upstream): boolean {
  return !isCordoned && (isUp || (state === 'down' && health.hasFailedOnce))
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
 * Builds the status of a process, without the errors that its clients get. Prints u64s as texts, since JSON numbers
 * lose digits (law 2: bytes are sacred).
 */
export function processStatusOf (sources: StatusSources) {
  const { tracker, upstreamPool, drain, info, recent, tiers, inFlight, follow } = sources
  return {
    ...overallStatusOf(isReady(sources), statusConditionsOf(sources)),
    draining: drain.isDraining,
    varve: info(),
    chain: tracker.space && { id: tracker.space.chainId, space: tracker.space.name },
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

/** Builds the part of a status about requests: of the last ten minutes, and since the start. */
function trafficStatusOf ({ totals, ...recent }: RecentSnapshot) {
  return { recent, totals: summaryOf(totals, definitionOf('varve_request_duration_seconds').bounds) }
}

type TierStatuses = Readonly<Record<TierName, TierStatus> & Partial<Record<StoreName, TierStatus>>>

/** Builds the statuses of all tiers by name; leaves out the memory that workers share if they share none. */
function tierStatusesOf (statusOf: (name: StoreName) => TierStatus): TierStatuses {
  const statuses = storeNames.map(name => [name, statusOf(name)] as const)
  return Object.fromEntries(statuses.filter(([name, { state }]) => name !== 'shared' || state === 'up')) as TierStatuses
}

function upstreamStatusOf (
  upstream: Upstream,
  { position, servedStamp }: Pick<Tracker, 'position' | 'servedStamp'>,
  upstreams: readonly Upstream[]
) {
  const servedVersion = position?.head.version
  const { name, release, limiter, window, health } = upstream
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
    // Age of the position that `version` and `oldestVersion` are from.
    ageMs: window && Math.round(upstream.stampAgeMs),
    latencyMs: roundedMs(health.latencyMs),
    p95Ms: roundedMs(health.readLatency.p95),
    inFlight: limiter.inFlight,
    waiting: limiter.queued,
    streams: limiter.streams,
    maxConcurrent: limiter.maxConcurrent,
    budget: limiter.budget && {
      left: limiter.budget.left,
      max: limiter.budget.rate.burst,
      refillPerSecond: Math.round(limiter.budget.rate.perSecond * 100) / 100
    }
  }
}

/** Status of one process. */
export type ProcessStatus = ReturnType<typeof processStatusOf>

function roundedMs (ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 100) / 100
}

/** Status that a worker reports to the primary. */
export type WorkerStatus = ProcessStatus & { readonly pid: number }

/**
 * Returns the worker that is furthest ahead. Of several at the same head, returns the worker that had the head first.
 */
function furthestOf (statuses: readonly WorkerStatus[]): WorkerStatus | undefined {
  const headAgeOf = ({ position }: WorkerStatus): number => position?.headAgeMs ?? 0
  const [furthest] = statuses.toSorted((a, b) => {
    const [versionA, versionB] = [versionOf(a), versionOf(b)]
    return versionA === versionB ? headAgeOf(b) - headAgeOf(a) : versionA < versionB ? 1 : -1
  })
  return furthest
}

/**
 * Merges statuses: ready if one worker is, degraded by every worker's reasons and by missing workers; position from the
 * worker furthest ahead; requests, memory and recent counts from all.
 */
export function mergeStatuses (
  statuses: readonly WorkerStatus[],
  wantedWorkers: number,
  isStopping: boolean,
  recent: RecentSnapshot
) {
  const furthest = furthestOf(statuses)
  const ready = statuses.filter(status => status.ready).length
  const own = [...(isStopping ? [draining] : []), ...missingWorkers(ready, wantedWorkers)]
  // Keeps one condition per text, because workers report the same upstreams, each with a lag of another moment.
  const byText = new Map(
    [...own, ...statuses.flatMap(({ conditions }) => conditions)].map(
      each => [each.text.replace(/\b\d+ s\b/g, ''), each]
    )
  )
  return {
    ...furthest,
    pid: undefined,
    ...overallStatusOf(!isStopping && ready > 0, withTraffic([...byText.values()], recent)),
    draining: isStopping,
    upstreams: furthest?.upstreams.map(upstream => ({
      ...upstream,
      ...sumsOf(
        statuses.flatMap(({ upstreams }) => upstreams.filter(({ name }) => name === upstream.name)),
        ['inFlight', 'waiting', 'streams', 'maxConcurrent']
      )
    })) ?? [],
    inFlight: sumsOf(statuses.map(({ inFlight }) => inFlight), ['bytes', 'maxBytes']),
    tiers: furthest &&
      tierStatusesOf(name => mergeTier(name, statuses.map(({ tiers }) => tiers[name] ?? { state: 'off' }))),
    ...trafficStatusOf(recent),
    workers: statuses.map(({ pid, ready, degraded, position }) => ({
      pid,
      ready,
      degraded,
      version: position?.version
    }))
  }
}

// Sums the sizes of tiers, except of a log, which all workers share. Prefers a worker whose tier is down, because one
// bad connection needs attention.
function mergeTier (name: StoreName, statuses: readonly TierStatus[]): TierStatus {
  const [most] = statuses.toSorted((a, b) => (b.entries ?? 0) - (a.entries ?? 0))
  const first = statuses.find(({ state }) => state === 'down') ?? most ?? {}
  return name === 'shared' || name === 'disk' || first.entries === undefined
    ? first
    : { ...first, ...sumsOf(statuses, ['entries', 'bytes', 'maxBytes']) }
}

function versionOf ({ position }: WorkerStatus): bigint {
  return position === undefined ? -1n : BigInt(position.version)
}

/** Adds up each of some members. */
function sumsOf<M extends string> (
  all: ReadonlyArray<Readonly<Partial<Record<M, number | undefined>>>>,
  members: readonly M[]
): Record<M, number> {
  const sumOf = (member: M): number => all.reduce((total, each) => total + (each[member] ?? 0), 0)
  return Object.fromEntries(members.map(member => [member, sumOf(member)])) as Record<M, number>
}
