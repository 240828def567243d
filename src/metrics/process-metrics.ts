import { collectDefaultMetrics, type Counter, type Registry } from 'prom-client'
import { makeCollectedCounter, makeGauge, makeCounter } from './metric-factories.js'

/** Origin of an unexpected error: a request, an unhandled rejection or an uncaught exception. */
export type UnhandledKind = 'request' | 'rejection' | 'exception'

// Removes gauges with names of counters and labels from an open list (law 10: nothing grows without bound).
const removedDefaults = ['nodejs_active_handles', 'nodejs_active_requests', 'nodejs_active_resources'].flatMap(
  name => [name, `${name}_total`]
)

/** Metrics of the process itself. */
export class ProcessMetrics {
  readonly #workersLost: Counter
  readonly #reloads: Counter
  readonly #unhandled: Counter
  readonly #exhausted: Counter
  #wasLastReloadSuccessful = true
  #lostLines = (): number => 0
  #timesExhausted = 0

  constructor (registry: Registry) {
    collectDefaultMetrics({ register: registry })
    // Aggregates with the earliest start; the library would omit this gauge for several processes.
    Object.assign(registry.getSingleMetric('process_start_time_seconds') ?? {}, { aggregator: 'min' })
    for (const name of removedDefaults) registry.removeSingleMetric(name)
    this.#workersLost = makeCounter(registry, 'varve_workers_lost_total')
    this.#reloads = makeCounter(registry, 'varve_config_reloads_total')
    // The primary counts reloads; workers keep their initial 1, and `min` shows the primary's value.
    makeGauge(registry, 'varve_config_last_reload_successful', () => [[{}, Number(this.#wasLastReloadSuccessful)]])
    this.#unhandled = makeCounter(registry, 'varve_unhandled_total')
    this.#exhausted = makeCounter(registry, 'varve_descriptors_exhausted_total')
    makeCollectedCounter(registry, 'varve_log_lines_lost_total', () => [[{}, this.#lostLines()]])
  }

  /** Sets the source of the count of lost log lines. */
  countLostLines (lost: () => number): void {
    this.#lostLines = lost
  }

  workerLost (): void {
    this.#workersLost.inc()
  }

  /** Times that the process ran out of file descriptors. */
  get timesExhausted (): number {
    return this.#timesExhausted
  }

  descriptorsExhausted (): void {
    this.#timesExhausted++
    this.#exhausted.inc()
  }

  unhandled (kind: UnhandledKind): void {
    this.#unhandled.inc({ kind })
  }

  reloaded (result: 'reloaded' | 'rejected'): void {
    this.#reloads.inc({ result })
    this.#wasLastReloadSuccessful = result === 'reloaded'
  }
}
