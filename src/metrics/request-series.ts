import { type Metric, type Registry } from 'prom-client'
import { isSaved, outcomeNames, type OutcomeName } from '../proxy/outcomes.js'
import { definitionOf, statusLabelOf } from './definitions.js'
import { makeCollectedCounter, type LabelledValue } from './metric-factories.js'
import { sumBuckets } from './totals.js'

/** Durations of one endpoint and outcome; buckets are not cumulative, the last one is above all bounds. */
interface Durations {
  readonly labels: { readonly endpoint: string, readonly outcome: OutcomeName }
  readonly buckets: number[]
  readonly byStatus: Map<number, number>
  sum: number
}

/**
 * Counts and times client requests. prom-client hashes labels per observation, which took longer than a cache look-up;
 * this converts at a scrape.
 */
export class RequestSeries {
  readonly #definition = definitionOf('varve_request_duration_seconds')
  readonly #bounds = this.#definition.bounds
  readonly #durations = new Map<string, Map<OutcomeName, Durations>>()

  constructor (registry: Registry) {
    makeCollectedCounter(
      registry,
      'varve_requests_total',
      () =>
        this.#all().flatMap(({ labels, byStatus }) =>
          [...byStatus].map(([status, count]): LabelledValue => [{ ...labels, status: statusLabelOf(status) }, count])
        )
    )
    // Registers the members that a registry uses of a metric.
    registry.registerMetric({
      name: this.#definition.name,
      get: async () => this.#histogram(),
      reset: () => this.#durations.clear()
    } as unknown as Metric)
  }

  add (endpoint: string, outcome: OutcomeName, status: number, seconds: number): void {
    const durations = this.#durationsOf(endpoint, outcome)
    const { buckets, byStatus } = durations
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
    durations.sum += seconds
    let at = 0
    while (seconds > (this.#bounds[at] ?? Infinity)) at++
    buckets[at] = (buckets[at] ?? 0) + 1
  }

  /** Adds up the requests since the start: by outcome, by endpoint, and those with status 500 or above. */
  get sums () {
    const outcomes = Object.fromEntries(outcomeNames.map(name => [name, 0])) as Record<OutcomeName, number>
    const endpoints: Record<string, { requests: number, saved: number }> = {}
    let serverErrors = 0
    for (const { labels: { endpoint, outcome }, byStatus } of this.#all()) {
      const of = endpoints[endpoint] ??= { requests: 0, saved: 0 }
      for (const [status, count] of byStatus) {
        outcomes[outcome] += count
        of.requests += count
        if (isSaved(outcome)) of.saved += count
        if (status >= 500) serverErrors += count
      }
    }
    return { outcomes, endpoints, serverErrors }
  }

  /** Returns the durations of the outcomes that match, over all endpoints: a count for each bucket. */
  durations (isWanted: (outcome: OutcomeName) => boolean): number[] {
    return sumBuckets(this.#all().filter(({ labels }) => isWanted(labels.outcome)).map(({ buckets }) => buckets))
  }

  #durationsOf (endpoint: string, outcome: OutcomeName): Durations {
    let outcomes = this.#durations.get(endpoint)
    if (outcomes === undefined) this.#durations.set(endpoint, outcomes = new Map<OutcomeName, Durations>())
    let durations = outcomes.get(outcome)
    if (durations === undefined) {
      durations = {
        labels: { endpoint, outcome },
        buckets: Array.from({ length: this.#bounds.length + 1 }, () => 0),
        byStatus: new Map(),
        sum: 0
      }
      outcomes.set(outcome, durations)
    }
    return durations
  }

  #all (): Durations[] {
    return [...this.#durations.values()].flatMap(outcomes => [...outcomes.values()])
  }

  #histogram (): object {
    const { name, help } = this.#definition
    const values = this.#all().flatMap(({ labels, buckets, sum }) => {
      let count = 0
      const lines = buckets.map((bucketCount, at) => {
        count += bucketCount
        return { metricName: `${name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf', ...labels }, value: count }
      })
      return [...lines, { metricName: `${name}_sum`, labels, value: sum }, {
        metricName: `${name}_count`,
        labels,
        value: count
      }]
    })
    return { name, help, type: 'histogram', values, aggregator: 'sum' }
  }
}
