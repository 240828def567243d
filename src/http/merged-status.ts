import { type TierStatus } from '../cache/tier.js'
import { type RecentSnapshot } from '../metrics/recent-counts.js'
import { type StatusCondition } from './severity.js'
import { withTraffic } from './status-conditions.js'
import {
  headAgeIn,
  overallStatusOf,
  type Readiness,
  type ProcessStatus,
  type OverallStatus,
  tierStatusesOf,
  trafficStatusOf
} from './status.js'

/** Status that a worker reports to the primary. */
export type WorkerStatus = ProcessStatus & { readonly pid: number }

/** Merges readiness: ready if one worker is, degraded by every worker's reasons and by missing workers. */
export function mergeReadiness (
  statuses: readonly WorkerStatus[],
  wantedWorkers: number,
  isStopping: boolean,
  recent: RecentSnapshot
): Readiness {
  const { ready, level, degraded } = mergeSeverity(statuses, wantedWorkers, isStopping, recent)
  return { ready, level, degraded, ...headAgeIn(furthestOf(statuses)?.position) }
}

/** Returns the worker furthest ahead; of those at one head, the oldest has seen best when the head last moved. */
function furthestOf (statuses: readonly WorkerStatus[]): WorkerStatus | undefined {
  const headAgeOf = ({ position }: WorkerStatus): number => position?.headAgeMs ?? 0
  const [furthest] = statuses.toSorted((a, b) => {
    const [versionA, versionB] = [versionOf(a), versionOf(b)]
    return versionA === versionB ? headAgeOf(b) - headAgeOf(a) : versionA < versionB ? 1 : -1
  })
  return furthest
}

function mergeSeverity (
  statuses: readonly WorkerStatus[],
  wantedWorkers: number,
  isStopping: boolean,
  recent: RecentSnapshot
): OverallStatus {
  const ready = statuses.filter(status => status.ready).length
  const own: StatusCondition[] = [
    ...(isStopping ? [{ level: 'amber', text: 'draining: open requests are finished, then varve ends' } as const] : []),
    ...(ready < wantedWorkers
      ? [
        {
          level: ready === 0 ? 'red' : 'amber',
          text: `${ready} of ${wantedWorkers} workers ${ready === 1 ? 'is' : 'are'} ready`
        } as const
      ]
      : [])
  ]
  // Keeps one condition per text: workers report the same upstreams, whose lag each measures at another moment.
  const byText = new Map(
    [...own, ...statuses.flatMap(({ conditions }) => conditions)].map(
      each => [each.text.replace(/\b\d+ s\b/g, ''), each]
    )
  )
  return overallStatusOf(!isStopping && ready > 0, withTraffic([...byText.values()], recent))
}

/** Merges statuses: position from the worker furthest ahead, requests, memory and recent counts from all. */
export function mergeStatuses (
  statuses: readonly WorkerStatus[],
  wantedWorkers: number,
  isStopping: boolean,
  recent: RecentSnapshot
): object {
  const furthest = furthestOf(statuses)
  return {
    ...furthest,
    pid: undefined,
    ...mergeSeverity(statuses, wantedWorkers, isStopping, recent),
    draining: isStopping,
    upstreams: furthest?.upstreams.map(upstream => ({
      ...upstream,
      inFlight: sumOf(statuses, upstream.name, 'inFlight'),
      waiting: sumOf(statuses, upstream.name, 'waiting'),
      streams: sumOf(statuses, upstream.name, 'streams'),
      maxConcurrent: sumOf(statuses, upstream.name, 'maxConcurrent')
    })) ?? [],
    inFlight: {
      bytes: statuses.reduce((sum, { inFlight }) => sum + inFlight.bytes, 0),
      maxBytes: statuses.reduce((sum, { inFlight }) => sum + inFlight.maxBytes, 0)
    },
    tiers: furthest && tierStatusesOf(name => mergeTier(statuses.map(({ tiers }) => tiers[name]))),
    ...trafficStatusOf(recent),
    workers: statuses.map(({ pid, ready, degraded, position }) => ({
      pid,
      ready,
      degraded,
      version: position?.version
    }))
  }
}

// Sums sizes, unless workers share the tier. Prefers a worker whose tier is down: one bad connection needs attention.
function mergeTier (statuses: readonly TierStatus[]): TierStatus {
  const { isShared = false, ...first } = statuses.find(({ state }) => state === 'down') ?? statuses[0] ?? {}
  if (isShared || first.entries === undefined) return first
  const sum = (read: (status: TierStatus) => number | undefined): number =>
    statuses.reduce((total, status) => total + (read(status) ?? 0), 0)
  return {
    entries: sum(({ entries }) => entries),
    bytes: sum(({ bytes }) => bytes),
    maxBytes: sum(({ maxBytes }) => maxBytes)
  }
}

function versionOf ({ position }: WorkerStatus): bigint {
  return position === undefined ? -1n : BigInt(position.version)
}

function sumOf (
  statuses: readonly WorkerStatus[],
  name: string,
  member: 'inFlight' | 'waiting' | 'streams' | 'maxConcurrent'
): number {
  return statuses.reduce(
    (sum, { upstreams }) => sum + (upstreams.find(upstream => upstream.name === name)?.[member] ?? 0),
    0
  )
}
