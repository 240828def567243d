import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type TierName } from '../cache/tier.js'
import { type LabelValues, type MetricName, type MetricDefinition, definitionOf, metricList } from './definitions.js'

/** Labels and value of one series. */
export type LabelledValue = readonly [labels: Record<string, string>, value: number]

/**
 * Makes a counter; series with closed labels start at 0, so that alerts see their first increase. Those of a lower tier
 * wait for `startTier`.
 */
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

/** Makes a histogram; a series appears with its first observation, because each has a line per bucket. */
export function makeHistogram (registry: Registry, name: MetricName): Histogram {
  const definition = definitionOf(name)
  return new Histogram({
    name,
    help: definition.help,
    labelNames: Object.keys(definition.labels),
    buckets: [...definition.bounds],
    registers: [registry]
  })
}

/** Starts the counters of a tier at 0. */
export function startTier (registry: Registry, tier: TierName): void {
  for (const definition of metricList) {
    const metric = registry.getSingleMetric(definition.name)
    if (!(metric instanceof Counter)) continue
    for (const labels of initialSeries(definition, [tier])) {
      if (tierOf(definition, labels) === tier) metric.inc(labels, 0)
    }
  }
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
      const values = read()
      // A gauge without labels is reset to 0, although it may have no value.
      if (values.length === 0 && Object.keys(labels).length === 0) gauge.remove()
      for (const [labelsOfValue, value] of values) gauge.set(labelsOfValue, value)
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

/** Returns the labels of each series that exists from the start in a varve with these tiers. */
export function initialSeries (
  definition: MetricDefinition,
  tiers: readonly TierName[] = ['memory']
): ReadonlyArray<Record<string, string>> {
  if (definition.isSparse === true || definition.type === 'histogram') return []
  return possibleSeries(definition).filter(labels => {
    const tier = tierOf(definition, labels)
    return tier === undefined || (tiers as readonly string[]).includes(tier)
  })
}

/** Returns every set of closed labels that events can have. */
export function possibleSeries ({ labels, isPossible }: MetricDefinition): ReadonlyArray<Record<string, string>> {
  return Object.entries(labels).reduce<Array<Record<string, string>>>(
    (series, [label, values]) =>
      series.flatMap(others => closedValuesOf(values).map(value => ({ ...others, [label]: value }))),
    [{}]
  ).filter(set => isPossible?.(set) ?? true)
}

function tierOf (definition: MetricDefinition, labels: Readonly<Record<string, string>>): string | undefined {
  return definition.tier ?? labels['tier']
}

function closedValuesOf (values: LabelValues): readonly string[] {
  return typeof values === 'string' ? [] : values
}
