import { type RecentTold } from '../metrics/recent.js'
import { type Readiness, type RedisTier, type Status as StatusOfOne } from './status.js'

/** What one of several workers tells of itself. */
export type Status = StatusOfOne & { readonly pid: number }

/**
 * Reads can be answered where one worker can; what any of them complains of is told, and that there are fewer than
 * there should be.
 */
export function readinessOfAll (statuses: readonly Status[], wanted: number, isStopping: boolean): Readiness {
  const ready = statuses.filter(status => status.ready).length
  return {
    ready: !isStopping && ready > 0,
    degraded: [
      ...new Set([
        ...(isStopping ? ['stopping'] : []),
        ...(ready < wanted ? [`${ready} of ${wanted} workers ${ready === 1 ? 'is' : 'are'} ready`] : []),
        ...statuses.flatMap(({ degraded }) => degraded)
      ])
    ]
  }
}

/**
 * What the worker says that has got furthest, with what nodes are being asked by all, what is kept in all, and how all
 * have answered of late.
 */
export function statusOfAll (
  statuses: readonly Status[],
  wanted: number,
  isStopping: boolean,
  recent: RecentTold
): object {
  const [best] = statuses.toSorted((a, b) => versionOf(a) < versionOf(b) ? 1 : -1)
  return {
    ...best,
    pid: undefined,
    ...readinessOfAll(statuses, wanted, isStopping),
    upstreams: best?.upstreams.map(upstream => ({
      ...upstream,
      underWay: sumOf(statuses, upstream.name, 'underWay'),
      waiting: sumOf(statuses, upstream.name, 'waiting')
    })) ?? [],
    tiers: best && { memory: memoryOfAll(statuses), redis: redisOfAll(statuses) },
    recent,
    workers: statuses.map(({ pid, ready, degraded, position }) => ({
      pid,
      ready,
      degraded,
      version: position?.version
    }))
  }
}

function memoryOfAll (statuses: readonly Status[]): Status['tiers']['memory'] {
  const sum = (read: (memory: Status['tiers']['memory']) => number): number =>
    statuses.reduce((total, { tiers }) => total + read(tiers.memory), 0)
  return {
    entries: sum(({ entries }) => entries),
    bytes: sum(({ bytes }) => bytes),
    maxBytes: sum(({ maxBytes }) => maxBytes)
  }
}

// Where one does without it, that is what an operator should know.
function redisOfAll (statuses: readonly Status[]): RedisTier {
  const tiers = statuses.map(({ tiers: { redis } }) => redis)
  return tiers.find(({ state }) => state === 'down') ?? tiers[0] ?? { state: 'off' }
}

function versionOf ({ position }: Status): bigint {
  return position === undefined ? -1n : BigInt(position.version)
}

function sumOf (statuses: readonly Status[], name: string, what: 'underWay' | 'waiting'): number {
  return statuses.reduce(
    (sum, { upstreams }) => sum + (upstreams.find(upstream => upstream.name === name)?.[what] ?? 0),
    0
  )
}
