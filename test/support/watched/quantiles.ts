import { rowOf } from '../../../src/metrics/list.js'
import { type Value } from './known.js'
import { type Sent } from './sent.js'
import { nodeMs } from './stage.js'

const bounds = rowOf('varve_request_duration_seconds').bounds ?? []

/**
 * Between what the quantile of so many requests' times in varve must be. Each took varve no longer than its client waited, so the quantile is in no higher bucket than the client's own;
 * and no less than a node takes where one was asked for each of them.
 */
export function timeOf (part: number, sent: readonly Sent[], asksNodes: boolean): Value {
  if (sent.length === 0) return NaN
  const seconds = sent.map(one => one.seconds).sort((a, b) => a - b)
  const waited = seconds[Math.min(seconds.length - 1, Math.ceil(part * seconds.length))] ?? NaN
  const most = bounds.find(bound => bound >= waited) ?? bounds.at(-1) ?? NaN
  const least = asksNodes ? [...bounds].reverse().find(bound => bound < nodeMs / 1000) ?? 0 : 0
  return [least, most]
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
