import { definitionOf } from '../../../src/metrics/definitions.js'
import { type KnownTraffic, type ExpectedSeries, type ExpectedValue, hasSeries, seriesFor } from './known-traffic.js'
import { type SentRequest } from './expected-traffic.js'

const bounds = definitionOf('varve_request_duration_seconds').bounds ?? []

/** Returns a quantile for each endpoint or outcome that had a request: buckets come with the first observation. */
export function quantilesFor (
  traffic: KnownTraffic,
  label: 'endpoint' | 'outcome',
  values: readonly string[],
  part: number
): ExpectedSeries[] {
  return seriesFor(
    label,
    values.filter(value => hasSeries(traffic, sent => sent[label] === value)),
    value => quantileBounds(part, traffic, sent => sent[label] === value)
  )
}

/**
 * Returns bounds of a latency quantile. Varve's time is at most the client's wait and at least the known minimum, so
 * the quantile is between their buckets. Prometheus extrapolates no series below zero: slow rehearsal requests can
 * shift buckets, so the upper bound includes the longest of them.
 */
export function quantileBounds (
  part: number,
  { sent: all, rehearsed }: KnownTraffic,
  is: (sent: SentRequest) => boolean
): ExpectedValue {
  const sent = all.filter(is)
  if (sent.length === 0) return NaN
  // Uses the client's waits with a margin, because each replica is scraped at its own time.
  const waited = Math.max(
    ranked(sent.map(({ seconds }) => seconds), part * sent.length + 0.25),
    ...rehearsed.filter(is).map(({ seconds }) => seconds)
  )
  const known = ranked(sent.map(({ leastMs = 0 }) => leastMs / 1000), part * sent.length - 0.25)
  const most = bounds.find(bound => bound >= waited) ?? bounds.at(-1) ?? NaN
  const least = bounds.findLast(bound => bound < known) ?? 0
  return [least, most]
}

function ranked (values: number[], rank: number): number {
  return values.sort((a, b) => a - b)[Math.min(values.length, Math.max(1, Math.ceil(rank))) - 1] ?? NaN
}

/** Returns the quantile as Prometheus computes it: evenly spread inside a bucket. */
export function quantileOf (part: number, buckets: ReadonlyArray<readonly [bound: number, count: number]>): number {
  const rank = part * buckets.reduce((sum, [, count]) => sum + count, 0)
  let below = 0
  let floor = 0
  for (const [bound, count] of buckets) {
    if (below + count >= rank && count > 0) return floor + (bound - floor) * (rank - below) / count
    below += count
    floor = bound
  }
  return NaN
}
