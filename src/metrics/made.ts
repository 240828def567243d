import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type LabelValues, type MetricName, type MetricRow, rowOf } from './list.js'

/** The labels of one series and its value. */
export type Labelled = readonly [labels: Record<string, string>, value: number]

/**
 * Makes a counter of the list; its series exist from the start, at 0, where their labels are closed: such are those
 * that an alert can be written on.
 */
export function counterOf (registry: Registry, name: MetricName): Counter {
  const row = rowOf(name)
  const counter = new Counter({ name, help: row.help, labelNames: Object.keys(row.labels), registers: [registry] })
  for (const labels of closedSeries(row)) counter.inc(labels, 0)
  return counter
}

/** The same of a histogram. */
export function histogramOf (registry: Registry, name: MetricName): Histogram {
  const row = rowOf(name)
  const histogram = new Histogram({
    name,
    help: row.help,
    labelNames: Object.keys(row.labels),
    buckets: [...row.bounds],
    registers: [registry]
  })
  for (const labels of closedSeries(row)) histogram.zero(labels)
  return histogram
}

/** Makes a gauge of the list, which is read when it is scraped. */
export function addGauge (registry: Registry, name: MetricName, read: () => readonly Labelled[]): void {
  const { help, labels, across } = rowOf(name)
  const gauge: Gauge = new Gauge({
    name,
    help,
    labelNames: Object.keys(labels),
    ...(across !== undefined && { aggregator: across }),
    registers: [registry],
    collect: () => {
      // A node may have left the configuration.
      gauge.reset()
      for (const [of, value] of read()) gauge.set(of, value)
    }
  })
}

/** The same of a counter whose numbers are counted elsewhere. */
export function addCounter (registry: Registry, name: MetricName, read: () => readonly Labelled[]): void {
  const { help, labels } = rowOf(name)
  const counter: Counter = new Counter({
    name,
    help,
    labelNames: Object.keys(labels),
    registers: [registry],
    collect: () => {
      counter.reset()
      for (const [of, value] of read()) counter.inc(of, value)
    }
  })
}

/** The labels of every series that exists from the start. */
export function closedSeries ({ labels, isSparse }: MetricRow): ReadonlyArray<Record<string, string>> {
  if (isSparse === true) return []
  return Object.entries(labels).reduce<Array<Record<string, string>>>(
    (series, [label, values]) => series.flatMap(others => closed(values).map(value => ({ ...others, [label]: value }))),
    [{}]
  )
}

function closed (values: LabelValues): readonly string[] {
  return typeof values === 'string' ? [] : values
}
