import { type Upstream } from './upstream.js'

const usecPerSecond = 1_000_000n

/**
 * Returns the ledger time in seconds by which an upstream that is up lags behind the newest one; 0 for one alone,
 * undefined while its position is unknown.
 */
export function lagSecondsOf (upstream: Upstream, upstreams: readonly Upstream[]): number | undefined {
  const own = stampOf(upstream)
  if (own === undefined) return undefined
  return Math.max(
    0,
    ...upstreams.map(other => {
      const stamp = stampOf(other)
      if (stamp === undefined) return 0
      const behind = Number((stamp.timestampUsec - own.timestampUsec) / usecPerSecond)
      // Leaves out the time for which it was not asked: the other's ledger went on meanwhile.
      return behind - Math.max(0, own.ageMs - stamp.ageMs) / 1000
    })
  )
}

/** True for an upstream that lags by more than `maxLagSeconds`. */
export function isLagging (upstream: Upstream, upstreams: readonly Upstream[]): boolean {
  return (lagSecondsOf(upstream, upstreams) ?? 0) > upstream.maxLagSeconds
}

function stampOf ({ isUp, windowTracker }: Upstream): { timestampUsec: bigint, ageMs: number } | undefined {
  const { stamped, ageMs } = windowTracker
  return isUp && stamped !== undefined ? { timestampUsec: stamped.position.head.timestampUsec, ageMs } : undefined
}
