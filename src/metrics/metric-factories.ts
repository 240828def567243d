import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type StoreName } from '../cache/tier.js'
import { type CounterName, definitionOf, type MetricDefinition, metricList, type MetricName } from './definitions.js'

/** Labels and value of one series. */
export type LabelledValue = readonly [labels: Record<string, string>, value: number]

/** Counters by name. */
export type Counters = Readonly<Record<CounterName, Counter>>

/**
 * Makes the counters of a list, except those that are registered already, which are read at a scrape. Series with
 * closed labels start at 0, so that alerts see their first increase; series of a lower tier wait for `startTier`.
 */
export function makeCounters (registry: Registry, definitions: readonly MetricDefinition[]): Counters {
  const wanted = definitions.filter(({ name, type }) =>
    type === 'counter' && registry.getSingleMetric(name) === undefined
  )
  return Object.fromEntries(wanted.map(definition => {
    const counter = new Counter(optionsOf(registry, definition))
    for (const labels of initialSeries(definition)) counter.inc(labels, 0)
    return [definition.name, counter]
  })) as Counters
}

/** Makes a histogram; a series appears with its first observation, because each has a line per bucket. */
export function makeHistogram (registry: Registry, name: MetricName): Histogram {
  const definition = definitionOf(name)
  return new Histogram({ ...optionsOf(registry, definition), buckets: [...definition.bounds] })
}

/** Starts the counters of a tier at 0. */
export function startTier (registry: Registry, tier: StoreName): void {
  for (const definition of metricList) {
    const metric = registry.getSingleMetric(definition.name)
    if (!(metric instanceof Counter)) continue
    for (const labels of initialSeries(definition, [tier])) {
      if (tierOf(definition, labels) === tier) metric.inc(labels, 0)
    }
  }
}

/** Makes a gauge that calls `read` at a scrape. */
export function makeGauge (registry: Registry, name: MetricName, read: () => number | readonly LabelledValue[]): void {
  const definition = definitionOf(name)
  const { aggregation } = definition
  const gauge: Gauge = new Gauge({
    ...optionsOf(registry, definition),
    ...(aggregation !== undefined && { aggregator: aggregation }),
    collect: () => {
      // Drops series of upstreams that left the configuration.
      gauge.reset()
      const value = read()
      if (typeof value === 'number') gauge.set(value)
      else {
        // A gauge without labels is reset to 0, although it may have no value.
        if (value.length === 0 && Object.keys(definition.labels).length === 0) gauge.remove()
        for (const [labels, each] of value) gauge.set(labels, each)
      }
    }
  })
}

/** Makes a counter that calls `read` at a scrape, for numbers that are counted elsewhere. */
export function makeCollectedCounter (
  registry: Registry,
  name: CounterName,
  read: () => readonly LabelledValue[]
): void {
  const counter: Counter = new Counter({
    ...optionsOf(registry, definitionOf(name)),
    collect: () => {
      counter.reset()
      for (const [labels, value] of read()) counter.inc(labels, value)
    }
  })
}

function optionsOf (registry: Registry, { name, help, labels }: MetricDefinition) {
  return { name, help, labelNames: Object.keys(labels), registers: [registry] }
}

/** Returns the labels of each series that exists from the start in a varve with these tiers. */
export function initialSeries (
  definition: MetricDefinition,
  tiers: readonly StoreName[] = ['memory']
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
      typeof values === 'string' ? [] : series.flatMap(others => values.map(value => ({ ...others, [label]: value }))),
    [{}]
  ).filter(set => isPossible?.(set) ?? true)
}

function tierOf (definition: MetricDefinition, labels: Readonly<Record<string, string>>): string | undefined {
  return definition.tier ?? labels['tier']
}
