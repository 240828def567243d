import { type RecentSnapshot } from '../metrics/recent.js'
import { type Readiness, type RedisTierStatus, type ProcessStatus } from './status.js'

/** Status that a worker reports to the primary. */
export type WorkerStatus = ProcessStatus & { readonly pid: number }

/** Merges readiness: ready if one worker is, degraded by every worker's reasons and by missing workers. */
export function mergeReadiness (
  statuses: readonly WorkerStatus[],
  wantedWorkers: number,
  isStopping: boolean
): Readiness {
  const ready = statuses.filter(status => status.ready).length
  return {
    ready: !isStopping && ready > 0,
    degraded: [
      ...new Set([
        ...(isStopping ? ['stopping'] : []),
        ...(ready < wantedWorkers ? [`${ready} of ${wantedWorkers} workers ${ready === 1 ? 'is' : 'are'} ready`] : []),
        ...statuses.flatMap(({ degraded }) => degraded)
      ])
    ]
  }
}

/** Merges statuses: position from the worker furthest ahead, requests, memory and recent counts from all. */
export function mergeStatuses (
  statuses: readonly WorkerStatus[],
  wantedWorkers: number,
  isStopping: boolean,
  recent: RecentSnapshot
): object {
  const [furthest] = statuses.toSorted((a, b) => versionOf(a) < versionOf(b) ? 1 : -1)
  return {
    ...furthest,
    pid: undefined,
    ...mergeReadiness(statuses, wantedWorkers, isStopping),
    upstreams: furthest?.upstreams.map(upstream => ({
      ...upstream,
      inFlight: sumOf(statuses, upstream.name, 'inFlight'),
      waiting: sumOf(statuses, upstream.name, 'waiting')
    })) ?? [],
    tiers: furthest && { memory: mergeMemory(statuses), redis: mergeRedis(statuses) },
    recent,
    workers: statuses.map(({ pid, ready, degraded, position }) => ({
      pid,
      ready,
      degraded,
      version: position?.version
    }))
  }
}

function mergeMemory (statuses: readonly WorkerStatus[]): WorkerStatus['tiers']['memory'] {
  const sum = (read: (memory: WorkerStatus['tiers']['memory']) => number): number =>
    statuses.reduce((total, { tiers }) => total + read(tiers.memory), 0)
  return {
    entries: sum(({ entries }) => entries),
    bytes: sum(({ bytes }) => bytes),
    maxBytes: sum(({ maxBytes }) => maxBytes)
  }
}

// Prefers a worker whose Redis is down: one bad connection needs attention.
function mergeRedis (statuses: readonly WorkerStatus[]): RedisTierStatus {
  const tiers = statuses.map(({ tiers: { redis } }) => redis)
  return tiers.find(({ state }) => state === 'down') ?? tiers[0] ?? { state: 'off' }
}

function versionOf ({ position }: WorkerStatus): bigint {
  return position === undefined ? -1n : BigInt(position.version)
}

function sumOf (statuses: readonly WorkerStatus[], name: string, member: 'inFlight' | 'waiting'): number {
  return statuses.reduce(
    (sum, { upstreams }) => sum + (upstreams.find(upstream => upstream.name === name)?.[member] ?? 0),
    0
  )
}
