import { collectDefaultMetrics, Counter, type Registry } from 'prom-client'

/** What failed in a way that nobody foresaw: a request, a promise that nobody waited for, or a whole process. */
export type Unhandled = 'request' | 'rejection' | 'exception'

/** What befalls a process, whatever it is asked. */
export class ProcessMetrics {
  readonly #workersLost: Counter
  readonly #reloads: Counter
  readonly #unhandled: Counter
  readonly #exhausted: Counter
  #lostLines = (): number => 0

  constructor (registry: Registry) {
    const at = { registers: [registry] }
    collectDefaultMetrics({ register: registry })
    this.#workersLost = new Counter({ ...at, name: 'varve_workers_lost_total', help: 'Workers that have ended by themselves, or hung, and were replaced.' })
    this.#reloads = new Counter({ ...at, name: 'varve_config_reloads_total', help: 'Times that the configuration was read anew, by what came of it.', labelNames: ['result'] })
    this.#unhandled = new Counter({ ...at, name: 'varve_unhandled_total', help: 'Failures that nobody foresaw, by what failed.', labelNames: ['kind'] })
    this.#exhausted = new Counter({ ...at, name: 'varve_descriptors_exhausted_total', help: 'Times that a process had no file descriptor left.' })
    const lostLines: Counter = new Counter({
      ...at,
      name: 'varve_log_lines_lost_total',
      help: 'Log lines that found no room: a full disk, a reader that is gone or does not read.',
      collect: () => {
        lostLines.reset()
        lostLines.inc(this.#lostLines())
      }
    })
    for (const result of ['exchanged', 'refused']) this.#reloads.inc({ result }, 0)
    for (const kind of ['request', 'rejection', 'exception']) this.#unhandled.inc({ kind }, 0)
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
  }
}
