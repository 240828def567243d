import { type LabelValues, type MetricRow } from './list.js'

/** How much of what an operator configures there is. */
export interface Configured {
  /** Names of nodes since the start: what was counted of one that has left the configuration stays. */
  readonly upstreams: number
  /** Names of clients' keys since the start. */
  readonly clients: number
}

/** How many lines of its own a series of a histogram has: each bound, `+Inf`, the sum and the count. */
function linesOf ({ type, bounds }: MetricRow): number {
  return type === 'histogram' ? bounds.length + 3 : 1
}

/** The greatest number of series that a metric can have. */
export function mostSeries (row: MetricRow, configured: Configured): number {
  return Object.values(row.labels).reduce((series, values) => series * sizeOf(values, configured), linesOf(row))
}

/** The same in words. */
export function mostSeriesInWords (row: MetricRow): string {
  const factors = Object.entries(row.labels).map(([label, values]) =>
    typeof values !== 'string' ? `${values.length} ${label}` : values === 'release' ? `1 ${label}` : values
  )
  return [...factors, ...(row.type === 'histogram' ? [`${linesOf(row)} lines`] : [])].join(' × ') || '1'
}

function sizeOf (values: LabelValues, configured: Configured): number {
  if (typeof values !== 'string') return values.length
  return values === 'release' ? 1 : configured[values]
}
