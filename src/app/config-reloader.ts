import { type Logger } from 'pino'
import { type LoadedConfig } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { ConfigError, mistakeText } from '../config/config-error.js'
import { type ReloadResult } from '../http/admin-app.js'
import { type Metrics } from '../metrics/metrics.js'
import { Deferred } from '../peers/deferred.js'
import { type Varve } from './single-process.js'

/** Reloads the configuration; after any error the previous configuration stays in use. */
export class ConfigReloader {
  readonly #load: () => LoadedConfig
  readonly #varve = new Deferred<Varve>()
  readonly #metrics: Pick<Metrics, 'process'>
  readonly #log: Logger
  readonly #onLoaded: (config: Config) => void
  #last: Promise<unknown> = this.#varve.promise
  #next: Promise<ReloadResult> | undefined
  #isClosed = false

  /** `onLoaded` receives each valid configuration before it takes effect. */
  constructor (
    load: () => LoadedConfig,
    metrics: Pick<Metrics, 'process'>,
    log: Logger,
    onLoaded: (config: Config) => void = () => {}
  ) {
    this.#load = load
    this.#metrics = metrics
    this.#log = log
    this.#onLoaded = onLoaded
  }

  /** Begins to reload, once this varve has started. */
  start (varve: Varve): void {
    this.#varve.resolve(varve)
  }

  /** Reloads after a running reload, which may have read an older file; the calls that wait share one reload. */
  async reload (): Promise<ReloadResult> {
    this.#next ??= this.#last.then(async () => {
      this.#next = undefined
      return await this.#reload(await this.#varve.promise)
    })
    this.#last = this.#next
    return await this.#next
  }

  /** Ignores later reloads and logs nothing about a running one. */
  close (): void {
    this.#isClosed = true
  }

  async #reload (varve: Varve): Promise<ReloadResult> {
    try {
      if (this.#isClosed) throw new Error('varve is stopping')
      const { config } = this.#load()
      this.#onLoaded(config)
      const { changed, needsRestart } = await varve.reload(config)
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
