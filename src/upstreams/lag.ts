import { type Upstream } from './upstream.js'

const usecPerSecond = 1_000_000n

/** Ledger time of a head, and the time for which that head has been known. */
export interface LedgerStamp {
  readonly timestampUsec: bigint
  readonly ageMs: number
}

/**
 * Returns the ledger time in seconds by which an upstream that is up lags behind the newest one or the served head,
 * whichever is more; undefined while its position is unknown.
 */
export function lagSecondsOf (
  upstream: Upstream,
  upstreams: readonly Upstream[],
  served: LedgerStamp | undefined
): number | undefined {
  const own = stampOf(upstream)
  if (own === undefined) return undefined
  return Math.max(
    0,
    ...[served, ...upstreams.map(stampOf)].map(stamp => {
      if (stamp === undefined) return 0
      const behind = Number((stamp.timestampUsec - own.timestampUsec) / usecPerSecond)
      // Leaves out the time for which it was not asked: the ledger went on meanwhile.
      return behind - Math.max(0, own.ageMs - stamp.ageMs) / 1000
    })
  )
}

/** True for an upstream that lags by more than `maxLagSeconds`. */
export function isLagging (
  upstream: Upstream,
  upstreams: readonly Upstream[],
  served: LedgerStamp | undefined
): boolean {
  return (lagSecondsOf(upstream, upstreams, served) ?? 0) > upstream.maxLagSeconds
}

function stampOf ({ isUp, windowTracker }: Upstream): LedgerStamp | undefined {
  const { stamped, ageMs } = windowTracker
  return isUp && stamped !== undefined ? { timestampUsec: stamped.position.head.timestampUsec, ageMs } : undefined
}
