import { type Registry } from 'prom-client'
import { makeCollectedCounter, type LabelledValue } from './make-metrics.js'

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
