import { Counter, type Metric, type Registry } from 'prom-client'
import { statusLabelOf } from './status-labels.js'
import { makeCollectedCounter, type LabelledValue } from './metric-factories.js'
import { sumBuckets } from './totals.js'

interface NameAndHelp {
  readonly name: string
  readonly help: string
}

/** Names and buckets of the two metrics. */
export interface RequestSeriesOptions {
  readonly requests: NameAndHelp
  readonly seconds: NameAndHelp
  /** Upper bounds of the histogram's buckets, ascending. */
  readonly bounds: readonly number[]
}

/** Durations of one endpoint and outcome; buckets are not cumulative, the last one is above all bounds. */
interface Durations {
  readonly labels: { readonly endpoint: string, readonly outcome: string }
  readonly buckets: number[]
  readonly byStatus: Map<number, number>
  sum: number
}

/**
 * Counts and times client requests. prom-client hashes labels per observation, which took longer than a cache look-up;
 * this converts at a scrape.
 */
export class RequestSeries {
  readonly #bounds: readonly number[]
  readonly #durations = new Map<string, Map<string, Durations>>()
  readonly #seconds: NameAndHelp

  constructor (registry: Registry, { requests, seconds, bounds }: RequestSeriesOptions) {
    this.#bounds = bounds
    this.#seconds = seconds
    const all = (): Durations[] => this.#all()
    const counter: Counter = new Counter({
      name: requests.name,
      help: requests.help,
      labelNames: ['endpoint', 'outcome', 'status'],
      registers: [registry],
      collect () {
        counter.reset()
        for (const { labels, byStatus } of all()) {
          for (const [status, count] of byStatus) counter.inc({ ...labels, status: statusLabelOf(status) }, count)
        }
      }
    })
    // Registers the members that a registry uses of a metric.
    registry.registerMetric({
      name: seconds.name,
      get: async () => this.#histogram(),
      reset: () => this.#durations.clear()
    } as unknown as Metric)
  }

  add (endpoint: string, outcome: string, status: number, seconds: number): void {
    const durations = this.#durationsOf(endpoint, outcome)
    const { buckets, byStatus } = durations
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
    durations.sum += seconds
    let at = 0
    while (seconds > (this.#bounds[at] ?? Infinity)) at++
    buckets[at] = (buckets[at] ?? 0) + 1
  }

  /** Returns the number of requests with an outcome, over all endpoints. */
  total (outcome: string): number {
    let total = 0
    for (const outcomes of this.#durations.values()) {
      for (const count of outcomes.get(outcome)?.byStatus.values() ?? []) total += count
    }
    return total
  }

  /** Returns the number of responses with status 500 or above, of varve or an upstream. */
  get serverErrors (): number {
    let total = 0
    for (const outcomes of this.#durations.values()) {
      for (const { byStatus } of outcomes.values()) {
        for (const [status, count] of byStatus) if (status >= 500) total += count
      }
    }
    return total
  }

  /** Counts the requests of an endpoint, and those with a saving outcome. */
  countsOf (endpoint: string, isSaving: (outcome: string) => boolean): { requests: number, saved: number } {
    let [requests, saved] = [0, 0]
    for (const { labels, byStatus } of this.#durations.get(endpoint)?.values() ?? []) {
      const count = [...byStatus.values()].reduce((sum, each) => sum + each, 0)
      requests += count
      if (isSaving(labels.outcome)) saved += count
    }
    return { requests, saved }
  }

  /** Returns the durations of the outcomes that match, over all endpoints: a count for each bucket. */
  durations (isWanted: (outcome: string) => boolean): number[] {
    return sumBuckets(this.#all().filter(({ labels }) => isWanted(labels.outcome)).map(({ buckets }) => buckets))
  }

  #durationsOf (endpoint: string, outcome: string): Durations {
    let outcomes = this.#durations.get(endpoint)
    if (outcomes === undefined) this.#durations.set(endpoint, outcomes = new Map<string, Durations>())
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
    const { name, help } = this.#seconds
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

/** Counts requests per client key in plain maps, since the hit path is hot; converts them at a scrape. */
export class ClientSeries {
  readonly #counts = new Map<string, Map<string, number>>()

  constructor (registry: Registry) {
    makeCollectedCounter(
      registry,
      'varve_client_requests_total',
      () =>
        [...this.#counts].flatMap(([client, outcomes]) =>
          [...outcomes].map(([outcome, count]): LabelledValue => [{ client, outcome }, count])
        )
    )
  }

  /** Creates a series at 0, so that its first request shows as an increase. */
  zero (client: string, outcome: string): void {
    this.#add(client, outcome, 0)
  }

  add (client: string, outcome: string): void {
    this.#add(client, outcome, 1)
  }

  #add (client: string, outcome: string, count: number): void {
    let outcomes = this.#counts.get(client)
    if (outcomes === undefined) this.#counts.set(client, outcomes = new Map<string, number>())
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count)
  }
}
