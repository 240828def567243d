const byEndpoint =
  /^instance_endpoint:|^varve_(?:request(?:s_total|_duration_)|response_bytes_|pruned_|not_stored_|misses_|reads_saved_|savings_|upstream_requests_|follow_observed_)/
const byUpstream = /^varve_upstream_|^instance_upstream:/

/**
 * Selects a metric, or a series recorded by config/prometheus-rules.yml, on the chosen replicas, endpoints and
 * upstreams, with further label matchers.
 */
export function of (metric, ...matches) {
  const chosen = [
    'job=~"$job"',
    'instance=~"$instance"',
    ...(byUpstream.test(metric) ? ['upstream=~"$upstream"'] : []),
    ...(byEndpoint.test(metric) ? ['endpoint=~"$endpoint"'] : [])
  ]
  return `${metric}{${[...chosen, ...matches].join(',')}}`
}

/** Rate per second, for panels over time. */
export function rate (metric, ...matches) {
  return `rate(${of(metric, ...matches)}[$__rate_interval])`
}

/** Increase over the whole time shown, for panels of one number. */
export function increase (metric, ...matches) {
  return `increase(${of(metric, ...matches)}[$__range])`
}

/** Speed of a position over the time shown; leaves out NaN, an unknown position, which would make the result NaN. */
export function pace (position) {
  return `deriv((${position} >= 0)[$__range:])`
}

/** Sum over replicas, by these labels. */
export function sum (vector, ...labels) {
  return `sum${by(labels)}(${vector})`
}

/** Maximum over replicas, by these labels. */
export function max (vector, ...labels) {
  return `max${by(labels)}(${vector})`
}

/** Minimum over replicas, by these labels. */
export function min (vector, ...labels) {
  return `min${by(labels)}(${vector})`
}

/** Quantile of a histogram. */
export function quantile (part, metric, labels, ...matches) {
  return `histogram_quantile(${part}, ${sum(rate(`${metric}_bucket`, ...matches), ...labels, 'le')})`
}

/** Vector, with 0 where only the other has series: a series appears with its first count. */
export function orZero (vector, other) {
  return `(${vector} or 0 * ${other})`
}

/** Ratio of two vectors; absent where the denominator is 0. */
export function part (one, whole) {
  return `${one} / (${whole} > 0)`
}

function by (labels) {
  return labels.length === 0 ? '' : ` by (${labels.join(', ')}) `
}
