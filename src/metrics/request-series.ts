import { Counter, type Metric, type Registry } from 'prom-client'
import { statusLabelOf } from './statuses.js'

/** How one metric of the two is called. */
interface Named {
  readonly name: string
  readonly help: string
}

/** What is told of answered requests. */
export interface RequestSeriesOptions {
  readonly requests: Named
  readonly seconds: Named
  /** Upper bounds of the histogram's buckets, rising. */
  readonly bounds: readonly number[]
}

/**
 * The times of one endpoint and outcome: for each bucket what fell into it alone, the last one being what no bound
 * holds.
 */
interface Times {
  readonly labels: { readonly endpoint: string, readonly outcome: string }
  readonly buckets: number[]
  readonly byStatus: Map<number, number>
  sum: number
}

/**
 * The two metrics that every answer adds to. The library finds a series by printing and hashing its labels, which took
 * longer than finding a kept answer does; here a request adds to numbers, and the library's forms are made of them when
 * they are scraped.
 */
export class RequestSeries {
  readonly #bounds: readonly number[]
  readonly #times = new Map<string, Map<string, Times>>()
  readonly #seconds: Named

  constructor (registry: Registry, { requests, seconds, bounds }: RequestSeriesOptions) {
    this.#bounds = bounds
    this.#seconds = seconds
    const all = (): Times[] => this.#all()
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
    // What a registry asks of a metric: its name, what it is at the moment, and to begin anew.
    registry.registerMetric({
      name: seconds.name,
      get: async () => this.#histogram(),
      reset: () => {
        this.#times.clear()
      }
    } as unknown as Metric)
  }

  /** Has a series exist at 0. */
  zero (endpoint: string, outcome: string): void {
    this.#timesOf(endpoint, outcome)
  }

  add (endpoint: string, outcome: string, status: number, seconds: number): void {
    const times = this.#timesOf(endpoint, outcome)
    const { buckets, byStatus } = times
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
    times.sum += seconds
    let at = 0
    while (seconds > (this.#bounds[at] ?? Infinity)) at++
    buckets[at] = (buckets[at] ?? 0) + 1
  }

  /** How many requests were answered like this so far, of whatever endpoint. */
  total (outcome: string): number {
    let total = 0
    for (const outcomes of this.#times.values()) {
      for (const count of outcomes.get(outcome)?.byStatus.values() ?? []) total += count
    }
    return total
  }

  #timesOf (endpoint: string, outcome: string): Times {
    let outcomes = this.#times.get(endpoint)
    if (outcomes === undefined) this.#times.set(endpoint, outcomes = new Map<string, Times>())
    let times = outcomes.get(outcome)
    if (times === undefined) {
      times = {
        labels: { endpoint, outcome },
        buckets: Array.from({ length: this.#bounds.length + 1 }, () => 0),
        byStatus: new Map(),
        sum: 0
      }
      outcomes.set(outcome, times)
    }
    return times
  }

  #all (): Times[] {
    return [...this.#times.values()].flatMap(outcomes => [...outcomes.values()])
  }

  #histogram (): object {
    const { name, help } = this.#seconds
    const values = this.#all().flatMap(({ labels, buckets, sum }) => {
      let count = 0
      const lines = buckets.map((alone, at) => {
        count += alone
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
