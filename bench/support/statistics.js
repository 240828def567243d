/** The value below which a share of a list lies; the middle one for a half. */
export function quantile (values, share) {
  const sorted = Float64Array.from(values).sort()
  if (sorted.length === 0) return NaN
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)]
  return below + (sorted[Math.ceil(at)] - below) * (at - Math.floor(at))
}

export const median = values => quantile(values, 0.5)

/**
 * How two series that were measured side by side compare: the ratio of their medians, and between which ratios the
 * rounds lie, each round's pair for itself, since a machine that others use is slow for both at once.
 */
export function ratioOf (values, others) {
  const pairs = values.map((value, round) => value / others[round])
  return { ratio: median(values) / median(others), least: Math.min(...pairs), most: Math.max(...pairs) }
}

/** What is told of a list of times. */
export const timesOf = values => ({ median: median(values), p99: quantile(values, 0.99), most: Math.max(...values) })

/** The middle of some figures, one for each round, and between which they lie. */
export const middleOf = values => ({ median: median(values), least: Math.min(...values), most: Math.max(...values) })
