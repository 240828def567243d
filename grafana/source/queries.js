/** The series of a metric on the replicas that are chosen, with what else must be so of them. */
export function of (metric, ...matches) {
  return `${metric}{${['instance=~"$instance"', ...matches].join(',')}}`
}

/** How often a second, as drawn over time. */
export function rate (metric, ...matches) {
  return `rate(${of(metric, ...matches)}[$__rate_interval])`
}

/** How often in the whole time that is shown. */
export function increase (metric, ...matches) {
  return `increase(${of(metric, ...matches)}[$__range])`
}

/**
 * By how much a second a position moves in the time that is shown; of one that is not known yet, NaN, nothing is taken,
 * as one such value would make all of it NaN.
 */
export function pace (position) {
  return `deriv((${position} >= 0)[$__range:])`
}

/** Of all replicas together, apart by these labels. */
export function sum (vector, ...labels) {
  return `sum${by(labels)}(${vector})`
}

/** The greatest of any replica, apart by these labels. */
export function max (vector, ...labels) {
  return `max${by(labels)}(${vector})`
}

/** The least of any replica, apart by these labels. */
export function min (vector, ...labels) {
  return `min${by(labels)}(${vector})`
}

/** What so large a part of the values of a histogram is below. */
export function quantile (part, metric, labels, ...matches) {
  return `histogram_quantile(${part}, ${sum(rate(`${metric}_bucket`, ...matches), ...labels, 'le')})`
}

/** What part one is of another; nothing where there is no other, as then there is no part. */
export function part (one, whole) {
  return `${one} / (${whole} > 0)`
}

function by (labels) {
  return labels.length === 0 ? '' : ` by (${labels.join(', ')}) `
}
