import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type LabelValues, type MetricName, type MetricDefinition, definitionOf } from './definitions.js'

/** Labels and value of one series. */
export type LabelledValue = readonly [labels: Record<string, string>, value: number]

/** Makes a counter; series with closed labels start at 0, so that alerts see their first increase. */
export function makeCounter (registry: Registry, name: MetricName): Counter {
  const definition = definitionOf(name)
  const counter = new Counter({
    name,
    help: definition.help,
    labelNames: Object.keys(definition.labels),
    registers: [registry]
  })
  for (const labels of initialSeries(definition)) counter.inc(labels, 0)
  return counter
}

/** Makes a histogram; series with closed labels start empty. */
export function makeHistogram (registry: Registry, name: MetricName): Histogram {
  const definition = definitionOf(name)
  const histogram = new Histogram({
    name,
    help: definition.help,
    labelNames: Object.keys(definition.labels),
    buckets: [...definition.bounds],
    registers: [registry]
  })
  for (const labels of initialSeries(definition)) histogram.zero(labels)
  return histogram
}

/** Makes a gauge that calls `read` at a scrape. */
export function makeGauge (registry: Registry, name: MetricName, read: () => readonly LabelledValue[]): void {
  const { help, labels, aggregation } = definitionOf(name)
  const gauge: Gauge = new Gauge({
    name,
    help,
    labelNames: Object.keys(labels),
    ...(aggregation !== undefined && { aggregator: aggregation }),
    registers: [registry],
    collect: () => {
      // Drops series of upstreams that left the configuration.
      gauge.reset()
      for (const [labelsOfValue, value] of read()) gauge.set(labelsOfValue, value)
    }
  })
}

/** Makes a counter that calls `read` at a scrape, for numbers that are counted elsewhere. */
export function makeCollectedCounter (
  registry: Registry,
  name: MetricName,
  read: () => readonly LabelledValue[]
): void {
  const { help, labels } = definitionOf(name)
  const counter: Counter = new Counter({
    name,
    help,
    labelNames: Object.keys(labels),
    registers: [registry],
    collect: () => {
      counter.reset()
      for (const [labelsOfValue, value] of read()) counter.inc(labelsOfValue, value)
    }
  })
}

/** Returns the labels of each series that exists from the start. */
export function initialSeries ({ labels, isSparse }: MetricDefinition): ReadonlyArray<Record<string, string>> {
  if (isSparse === true) return []
  return Object.entries(labels).reduce<Array<Record<string, string>>>(
    (series, [label, values]) =>
      series.flatMap(others => closedValuesOf(values).map(value => ({ ...others, [label]: value }))),
    [{}]
  )
}

function closedValuesOf (values: LabelValues): readonly string[] {
  return typeof values === 'string' ? [] : values
}
