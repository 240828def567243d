/** Requests of a process since its start; all parts can be added to those of other processes. */
export interface Totals {
  readonly endpoints: Readonly<Record<string, { readonly requests: number, readonly saved: number }>>
  /** Price of the upstream requests that reads saved. */
  readonly savings: number
  /** Durations of hits and of misses: a count for each bucket, the last one above all bounds. */
  readonly hits: readonly number[]
  readonly misses: readonly number[]
}

const maxEndpoints = 5

/** Adds the totals of several processes. */
export function sumTotals (all: readonly Totals[]): Totals {
  const endpoints: Record<string, { requests: number, saved: number }> = {}
  for (const totals of all) {
    for (const [name, { requests, saved }] of Object.entries(totals.endpoints)) {
      const sum = endpoints[name] ??= { requests: 0, saved: 0 }
      sum.requests += requests
      sum.saved += saved
    }
  }
  return {
    endpoints,
    savings: all.reduce((sum, { savings }) => sum + savings, 0),
    hits: sumBuckets(all.map(({ hits }) => hits)),
    misses: sumBuckets(all.map(each => each.misses))
  }
}

/** Totals as the status page shows them. */
export type TotalsSummary = ReturnType<typeof summaryOf>

/** Summarises totals; `bounds` are the upper bounds of the buckets in seconds. */
export function summaryOf ({ endpoints, savings, hits, misses }: Totals, bounds: readonly number[]) {
  const rows = Object.entries(endpoints).map(([endpoint, counts]) => ({ endpoint, ...counts }))
  return {
    readsSaved: rows.reduce((sum, { saved }) => sum + saved, 0),
    savings,
    hitMs: quantilesOf(hits, bounds),
    missMs: quantilesOf(misses, bounds),
    endpoints: rows.sort((a, b) => b.requests - a.requests).slice(0, maxEndpoints)
  }
}

/** Adds counts bucket by bucket. */
export function sumBuckets (all: ReadonlyArray<readonly number[]>): number[] {
  const length = Math.max(0, ...all.map(buckets => buckets.length))
  return Array.from({ length }, (_, at) => all.reduce((sum, buckets) => sum + (buckets[at] ?? 0), 0))
}

/** Returns undefined before the first request. */
function quantilesOf (buckets: readonly number[], bounds: readonly number[]) {
  const count = buckets.reduce((sum, each) => sum + each, 0)
  if (count === 0) return undefined
  return { p50: quantileMs(0.5 * count, buckets, bounds), p99: quantileMs(0.99 * count, buckets, bounds) }
}

// Interpolates inside a bucket as Prometheus does; above all bounds the last bound is a lower limit.
function quantileMs (rank: number, buckets: readonly number[], bounds: readonly number[]): number {
  let below = 0
  for (const [at, bound] of bounds.entries()) {
    const count = buckets[at] ?? 0
    const floor = bounds[at - 1] ?? 0
    if (below + count >= rank && count > 0) {
      return Math.round((floor + (bound - floor) * (rank - below) / count) * 1e6) / 1000
    }
    below += count
  }
  return (bounds.at(-1) ?? 0) * 1000
}
