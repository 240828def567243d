import { type Logger } from 'pino'
import { type LoadedConfig } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { ConfigError, mistakeText } from '../config/config-error.js'
import { type ReloadResult } from '../http/admin-app.js'
import { type Metrics } from '../metrics/metrics.js'
import { Deferred } from '../peers/deferred.js'
import { type ReloadedKeys } from '../config/restart-keys.js'

/** Applies a configuration, or throws without a change. */
type Apply = (config: Config) => Promise<ReloadedKeys>

/** Reloads the configuration; after any error the previous configuration stays in use. */
export class ConfigReloader {
  readonly #load: () => LoadedConfig
  readonly #apply = new Deferred<Apply>()
  readonly #metrics: Pick<Metrics, 'process'>
  readonly #log: Logger
  #last: Promise<unknown> = this.#apply.promise
  #next: Promise<ReloadResult> | undefined
  #isClosed = false

  constructor (load: () => LoadedConfig, metrics: Pick<Metrics, 'process'>, log: Logger) {
    this.#load = load
    this.#metrics = metrics
    this.#log = log
  }

  /** Begins to reload, once varve has started. */
  start (apply: Apply): void {
    this.#apply.resolve(apply)
  }

  /** Reloads after a running reload, which may have read an older file; the calls that wait share one reload. */
  async reload (): Promise<ReloadResult> {
    this.#next ??= this.#last.then(async () => {
      this.#next = undefined
      return await this.#reload(await this.#apply.promise)
    })
    this.#last = this.#next
    return await this.#next
  }

  /** Ignores later reloads and logs nothing about a running one. */
  close (): void {
    this.#isClosed = true
  }

  async #reload (apply: Apply): Promise<ReloadResult> {
    try {
      if (this.#isClosed) throw new Error('varve is stopping')
      const { changed, needsRestart } = await apply(this.#load().config)
      if (!this.#isClosed) {
        for (const key of needsRestart) this.#log.warn({ key }, 'changed key needs a restart')
        this.#metrics.process.reloaded('reloaded')
        this.#log.info({ changed }, 'configuration reloaded')
      }
      return { reloaded: true, changed, needsRestart }
    } catch (error) {
      const file = error instanceof ConfigError ? error.file : undefined
      const mistakes = error instanceof ConfigError
        ? error.mistakes.map(mistake => mistakeText(mistake, file))
        : [(error as Error).message]
      if (!this.#isClosed) {
        this.#metrics.process.reloaded('rejected')
        this.#log.error(
          { file, reasons: mistakes },
          'new configuration rejected: the previous one stays in use'
        )
      }
      return { reloaded: false, mistakes }
    }
  }
}
