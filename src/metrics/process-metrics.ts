import { collectDefaultMetrics, type Counter, type Registry } from 'prom-client'
import { addCounter, addGauge, counterOf } from './made.js'

/** What failed in a way that nobody foresaw: a request, a promise that nobody waited for, or a whole process. */
export type Unhandled = 'request' | 'rejection' | 'exception'

// Their names are those of counters, which they are not, and what they are labelled with is whatever Node has open.
const leftOut = ['nodejs_active_handles', 'nodejs_active_requests', 'nodejs_active_resources'].flatMap(
  name => [name, `${name}_total`]
)

/** What befalls a process, whatever it is asked. */
export class ProcessMetrics {
  readonly #workersLost: Counter
  readonly #reloads: Counter
  readonly #unhandled: Counter
  readonly #exhausted: Counter
  #isUnderstood = true
  #lostLines = (): number => 0

  constructor (registry: Registry) {
    collectDefaultMetrics({ register: registry })
    // The library tells of no start where there are several processes; the first one's is the start of them all.
    Object.assign(registry.getSingleMetric('process_start_time_seconds') ?? {}, { aggregator: 'min' })
    for (const name of leftOut) registry.removeSingleMetric(name)
    this.#workersLost = counterOf(registry, 'varve_workers_lost_total')
    this.#reloads = counterOf(registry, 'varve_config_reloads_total')
    // Of several processes the one that reloads knows; the others have what they were begun with.
    addGauge(registry, 'varve_config_last_reload_successful', () => [[{}, Number(this.#isUnderstood)]])
    this.#unhandled = counterOf(registry, 'varve_unhandled_total')
    this.#exhausted = counterOf(registry, 'varve_descriptors_exhausted_total')
    addCounter(registry, 'varve_log_lines_lost_total', () => [[{}, this.#lostLines()]])
  }

  /** Has the lines that a log has lost counted too. */
  observeLog (lost: () => number): void {
    this.#lostLines = lost
  }

  workerLost (): void {
    this.#workersLost.inc()
  }

  exhausted (): void {
    this.#exhausted.inc()
  }

  unhandled (kind: Unhandled): void {
    this.#unhandled.inc({ kind })
  }

  reloaded (result: 'exchanged' | 'refused'): void {
    this.#reloads.inc({ result })
    this.#isUnderstood = result === 'exchanged'
  }
}
