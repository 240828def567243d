import { type Registry } from 'prom-client'
import { addCounter, type Labelled } from './made.js'

/**
 * What clients that are known by name have been answered: numbers to add to, as a hit has no time for more; the
 * library's form is made of them when they are scraped.
 */
export class ClientSeries {
  readonly #counts = new Map<string, Map<string, number>>()

  constructor (registry: Registry) {
    addCounter(
      registry,
      'varve_client_requests_total',
      () =>
        [...this.#counts].flatMap(([client, outcomes]) =>
          [...outcomes].map(([outcome, count]): Labelled => [{ client, outcome }, count])
        )
    )
  }

  /** Has a series exist at 0. */
  zero (client: string, outcome: string): void {
    this.#add(client, outcome, 0)
  }

  add (client: string, outcome: string): void {
    this.#add(client, outcome, 1)
  }

  #add (client: string, outcome: string, more: number): void {
    let outcomes = this.#counts.get(client)
    if (outcomes === undefined) this.#counts.set(client, outcomes = new Map<string, number>())
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + more)
  }
}
