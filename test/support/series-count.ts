import { type LabelValues, type MetricDefinition } from '../../src/metrics/definitions.js'
import { possibleSeries } from '../../src/metrics/metric-factories.js'

/** Numbers of configured names, which bound the series of a metric. */
export interface ConfiguredCounts {
  /** Upstream names since the start: counters of a removed upstream stay. */
  readonly upstreams: number
  /** Names of client keys since the start. */
  readonly clients: number
}

/** Returns the lines of one series; a histogram has one per bound, `+Inf`, sum and count. */
function samplesPerSeries ({ type, bounds }: MetricDefinition): number {
  return type === 'histogram' ? bounds.length + 3 : 1
}

/** Returns the maximum number of series of a metric. */
export function maxSeries (definition: MetricDefinition, configured: ConfiguredCounts): number {
  if (definition.isPossible !== undefined) return possibleSeries(definition).length * samplesPerSeries(definition)
  return Object.values(definition.labels).reduce(
    (series, values) => series * sizeOf(values, configured),
    samplesPerSeries(definition)
  )
}

/** Prints the maximum number of series as a product. */
export function maxSeriesText (definition: MetricDefinition): string {
  if (definition.isPossible !== undefined) {
    return `${possibleSeries(definition).length} possible pairs of ${Object.keys(definition.labels).join(' and ')}`
  }
  const factors = Object.entries(definition.labels).map(([label, values]) =>
    typeof values !== 'string'
      ? `${values.length} ${label}`
      : values === 'release' || values === 'chain'
      ? `1 ${label}`
      : values
  )
  return [...factors, ...(definition.type === 'histogram' ? [`${samplesPerSeries(definition)} lines`] : [])].join(
    ' × '
  ) || '1'
}

function sizeOf (values: LabelValues, configured: ConfiguredCounts): number {
  if (typeof values !== 'string') return values.length
  return values === 'release' || values === 'chain' ? 1 : configured[values]
}
