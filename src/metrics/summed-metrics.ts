import { AggregatorRegistry, type Registry } from 'prom-client'

/** Metric as a worker reports it to the primary. */
export interface MetricFamily {
  readonly name: string
  readonly type: string
  readonly values: ReadonlyArray<{ readonly value: number, readonly labels: object, readonly metricName?: string }>
}

/** Metrics of one process. */
export type MetricFamilies = readonly MetricFamily[]

/** Sums metrics of all workers. Counts of ended workers stay: Prometheus takes a falling total for a restart. */
export class SummedMetrics {
  readonly #last = new Map<object, MetricFamilies>()
  readonly #ended = new WeakSet<object>()
  readonly #primaryOnly: readonly string[]
  #removed: Promise<MetricFamilies> = Promise.resolve([])

  /** Ignores the workers' values of `primaryOnly` metrics, which the primary counts for all. */
  constructor (primaryOnly: readonly string[] = []) {
    this.#primaryOnly = primaryOnly
  }

  /** Replaces the metrics of a worker. */
  update (worker: object, families: MetricFamilies): void {
    // Ignores late reports of a removed worker, which would count twice.
    if (!this.#ended.has(worker)) {
      this.#last.set(
        worker,
        families.filter(({ name }) => !this.#primaryOnly.includes(name))
      )
    }
  }

  /** Removes an ended worker: its counters and histograms stay in the sum, its gauges do not. */
  remove (worker: object): void {
    const counted = (this.#last.get(worker) ?? []).filter(({ type }) => type === 'counter' || type === 'histogram')
    this.#last.delete(worker)
    this.#ended.add(worker)
    this.#removed = this.#removed.then(async removed =>
      await aggregate([removed, counted]).getMetricsAsJSON() as unknown as MetricFamilies
    )
  }

  /** Returns the sum in Prometheus' text format, with the primary's own metrics. */
  async text (own: MetricFamilies): Promise<string> {
    const removed = await this.#removed
    return await aggregate(withoutUnknownGauges(withoutRepeats([own, ...this.#last.values(), removed]))).metrics()
  }
}

function aggregate (families: readonly MetricFamilies[]): Registry {
  return AggregatorRegistry.aggregate(families as never)
}

// All workers read one log, so the sizes of the worker that knows most are right for all.
function withoutRepeats (families: readonly MetricFamilies[]): MetricFamilies[] {
  const isOfLog = (labels: object): boolean => 'tier' in labels && (labels.tier === 'shared' || labels.tier === 'disk')
  const largest = new Map<string, number>()
  for (const { name, values } of families.flat().filter(isGauge)) {
    for (const { value, labels } of values) {
      const key = keyOf(name, labels)
      if (isOfLog(labels)) largest.set(key, Math.max(value, largest.get(key) ?? 0))
    }
  }
  // Takes each largest size once, even if several workers report it.
  const isRepeat = (key: string, value: number): boolean => largest.get(key) !== value || !largest.delete(key)
  return families.map(metrics =>
    metrics.map(metric => {
      const values = metric.values.filter(({ value, labels }) =>
        !isOfLog(labels) || !isRepeat(keyOf(metric.name, labels), value)
      )
      return isGauge(metric) ? { ...metric, values } : metric
    })
  )
}

// Drops NaN if another process has a value, or the aggregate would be NaN.
function withoutUnknownGauges (families: readonly MetricFamilies[]): MetricFamilies[] {
  const known = new Set(
    families.flat().filter(isGauge).flatMap(({ name, values }) =>
      values.filter(({ value }) => Number.isFinite(value)).map(({ labels }) => keyOf(name, labels))
    )
  )
  return families.map(metrics =>
    metrics.map(metric => {
      const values = metric.values.filter(({ value, labels }) =>
        Number.isFinite(value) || !known.has(keyOf(metric.name, labels))
      )
      return isGauge(metric) ? { ...metric, values } : metric
    })
  )
}

function keyOf (name: string, labels: object): string {
  return `${name} ${JSON.stringify(labels)}`
}

function isGauge ({ type }: MetricFamily): boolean {
  return type === 'gauge'
}
