/** Computes a quantile with linear interpolation: 0.5 is the median. */
export function quantile (values, share) {
  const sorted = Float64Array.from(values).sort()
  if (sorted.length === 0) return NaN
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)]
  return below + (sorted[Math.ceil(at)] - below) * (at - Math.floor(at))
}

export const median = values => quantile(values, 0.5)

/**
 * Compares two series by the ratio of medians; the spread uses pairs of one round, since machine noise affects both.
 */
export function ratioOf (values, others) {
  const pairs = values.map((value, round) => value / others[round])
  return { ratio: median(values) / median(others), least: Math.min(...pairs), most: Math.max(...pairs) }
}

/** Summarises a list of latencies. */
export const timesOf = values => ({ median: median(values), p99: quantile(values, 0.99), most: Math.max(...values) })

/** Summarises one figure per round. */
export const middleOf = values => ({ median: median(values), least: Math.min(...values), most: Math.max(...values) })
