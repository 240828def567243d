import { type Metric, type Registry } from 'prom-client'
import { isSaved, outcomeNames, type OutcomeName } from '../proxy/outcomes.js'
import { type CounterName, definitionOf, type MetricDefinition, type MetricName, statusLabelOf } from './definitions.js'
import { makeCollectedCounter, type LabelledValue } from './metric-factories.js'
import { sumBuckets } from './recent-counts.js'

/** Durations of the requests that two labels name; buckets are not cumulative, the last one is above all bounds. */
interface Durations<Second extends string> {
  readonly labels: readonly [first: string, second: Second]
  readonly buckets: number[]
  readonly byStatus: Map<number | string, number>
  sum: number
  bytes: number
}

/**
 * A counter by two labels and status, a histogram by those of the two labels that it has, and bytes by the first label.
 */
interface SeriesOptions {
  readonly counter: CounterName
  readonly histogram: MetricName
  readonly bytes: CounterName
  readonly labels: readonly [first: string, second: string]
}

/**
 * Counts and times requests. prom-client hashes labels per observation, which took longer than a cache look-up; this
 * converts at a scrape.
 */
class TimedRequests<Second extends string> {
  readonly #options: SeriesOptions
  readonly #definition: MetricDefinition
  readonly #durations = new Map<string, Map<Second, Durations<Second>>>()

  constructor (registry: Registry, options: SeriesOptions) {
    const { counter, histogram, bytes, labels: [first, second] } = options
    this.#options = options
    this.#definition = definitionOf(histogram)
    makeCollectedCounter(
      registry,
      counter,
      () =>
        this.all().flatMap(({ labels, byStatus }) =>
          [...byStatus].map(([status, count]): LabelledValue => [
            { [first]: labels[0], [second]: labels[1], status: statusLabelOf(status) },
            count
          ])
        )
    )
    makeCollectedCounter(
      registry,
      bytes,
      () => this.all().map(({ labels, bytes }): LabelledValue => [{ [first]: labels[0] }, bytes])
    )
    // Registers the members that a registry uses of a metric.
    registry.registerMetric({
      name: histogram,
      get: async () => this.#histogram(),
      reset: () => this.#durations.clear()
    } as unknown as Metric)
  }

  add (first: string, second: Second, status: number | string, seconds: number, bytes: number): void {
    const { bounds } = this.#definition
    const durations = this.#durationsOf(first, second)
    const { buckets, byStatus } = durations
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
    durations.sum += seconds
    durations.bytes += bytes
    let at = 0
    while (seconds > (bounds[at] ?? Infinity)) at++
    buckets[at] = (buckets[at] ?? 0) + 1
  }

  all (): Array<Durations<Second>> {
    return [...this.#durations.values()].flatMap(each => [...each.values()])
  }

  #durationsOf (first: string, second: Second): Durations<Second> {
    let bySecond = this.#durations.get(first)
    if (bySecond === undefined) this.#durations.set(first, bySecond = new Map<Second, Durations<Second>>())
    let durations = bySecond.get(second)
    if (durations === undefined) {
      const buckets = Array.from({ length: this.#definition.bounds.length + 1 }, () => 0)
      durations = { labels: [first, second], buckets, byStatus: new Map(), sum: 0, bytes: 0 }
      bySecond.set(second, durations)
    }
    return durations
  }

  /** Merges series that differ only in labels that the histogram lacks. */
  #histogram (): object {
    const { name, help, bounds, labels: own } = this.#definition
    const [first, second] = this.#options.labels
    const series = second in own
      ? this.all().map(each => [each])
      : [...this.#durations.values()].map(bySecond => [...bySecond.values()])
    const values = series.flatMap(merged => {
      const [labels = ['', '']] = merged.map(each => each.labels)
      const named = { [first]: labels[0], ...(second in own && { [second]: labels[1] }) }
      let count = 0
      const lines = sumBuckets(merged.map(({ buckets }) => buckets)).map((bucketCount, at) => {
        count += bucketCount
        return { metricName: `${name}_bucket`, labels: { le: bounds[at] ?? '+Inf', ...named }, value: count }
      })
      const sum = merged.reduce((total, each) => total + each.sum, 0)
      return [...lines, { metricName: `${name}_sum`, labels: named, value: sum }, {
        metricName: `${name}_count`,
        labels: named,
        value: count
      }]
    })
    return { name, help, type: 'histogram', values, aggregator: 'sum' }
  }
}

/** Requests to upstreams, by upstream and endpoint. */
export function upstreamSeries (registry: Registry): TimedRequests<string> {
  return new TimedRequests(registry, {
    counter: 'varve_upstream_requests_total',
    histogram: 'varve_upstream_request_duration_seconds',
    bytes: 'varve_upstream_response_bytes_total',
    labels: ['upstream', 'endpoint']
  })
}

/** Requests of clients, by endpoint and outcome. */
export function requestSeries (registry: Registry): TimedRequests<OutcomeName> {
  return new TimedRequests(registry, {
    counter: 'varve_requests_total',
    histogram: 'varve_request_duration_seconds',
    bytes: 'varve_response_bytes_total',
    labels: ['endpoint', 'outcome']
  })
}

/** Adds up the requests since the start: by outcome, by endpoint, and those with status 500 or above. */
export function sumsOf (requests: TimedRequests<OutcomeName>) {
  const outcomes = Object.fromEntries(outcomeNames.map(name => [name, 0])) as Record<OutcomeName, number>
  const endpoints: Record<string, { requests: number, saved: number }> = {}
  let serverErrors = 0
  for (const { labels: [endpoint, outcome], byStatus } of requests.all()) {
    const of = endpoints[endpoint] ??= { requests: 0, saved: 0 }
    for (const [status, count] of byStatus) {
      outcomes[outcome] += count
      of.requests += count
      if (isSaved(outcome)) of.saved += count
      if (Number(status) >= 500) serverErrors += count
    }
  }
  return { outcomes, endpoints, serverErrors }
}

/** Returns the durations of the outcomes that match, over all endpoints: a count for each bucket. */
export function durationsOf (
  requests: TimedRequests<OutcomeName>,
  isWanted: (outcome: OutcomeName) => boolean
): number[] {
  return sumBuckets(requests.all().filter(({ labels: [, outcome] }) => isWanted(outcome)).map(({ buckets }) => buckets))
}
