import { definitionOf } from '../../../src/metrics/definitions.js'
import { type KnownTraffic, type ExpectedValue } from './known-traffic.js'
import { type SentRequest } from './expected-traffic.js'

const bounds = definitionOf('varve_request_duration_seconds').bounds ?? []

/**
 * Between what the quantile of a kind of requests' times in varve must be. Each took varve no longer than its client
 * waited, so the quantile is in no higher bucket than that of what clients waited; and no less than is known of it, as
 * that a node was asked, so it is in no lower bucket than that either. Prometheus prolongs no series below zero: a
 * bucket that was rather empty before the span, because what was rehearsed took longer, is given less than one above
 * it, and that moves the quantile up as far as where the longest of the rehearsal was.
 */
export function quantileBounds (
  part: number,
  { sent: all, rehearsed }: KnownTraffic,
  is: (sent: SentRequest) => boolean
): ExpectedValue {
  const sent = all.filter(is)
  if (sent.length === 0) return NaN
  // Replicas weigh not quite the same, as each is scraped at a time of its own.
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

/** The quantile that Prometheus reads from buckets: it takes what is in a bucket to be spread evenly. */
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
