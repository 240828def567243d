import { type Logger } from 'pino'
import { type LoadedConfig } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { ConfigError, mistakeText } from '../config/config-error.js'
import { type Metrics } from '../metrics/metrics.js'
import { type Varve } from './single-process.js'

/** Reloads the configuration; after any error the previous configuration stays in use. */
export class ConfigReloader {
  readonly #load: () => LoadedConfig
  readonly #varve: Promise<Varve>
  readonly #metrics: Pick<Metrics, 'process'>
  readonly #log: Logger
  readonly #onLoaded: (config: Config) => void
  #reloading: Promise<void> | undefined
  #isRequestedAgain = false
  #isClosed = false

  /** `onLoaded` receives each valid configuration before it takes effect. */
  constructor (
    load: () => LoadedConfig,
    varve: Promise<Varve>,
    metrics: Pick<Metrics, 'process'>,
    log: Logger,
    onLoaded: (config: Config) => void = () => {}
  ) {
    this.#load = load
    this.#varve = varve
    this.#metrics = metrics
    this.#log = log
    this.#onLoaded = onLoaded
  }

  /** Reloads; a call during a reload causes one more reload after it. */
  reload (): void {
    if (this.#isClosed) return
    if (this.#reloading !== undefined) this.#isRequestedAgain = true
    // A failed start is reported by its own caller.
    this.#reloading ??= this.#reloadUntilCurrent().catch(() => {}).finally(() => {
      this.#reloading = undefined
    })
  }

  /** Ignores later reloads and logs nothing about a running one. */
  close (): void {
    this.#isClosed = true
  }

  async #reloadUntilCurrent (): Promise<void> {
    do {
      this.#isRequestedAgain = false
      await this.#reload()
    } while (this.#isRequestedAgain && !this.#isClosed)
  }

  async #reload (): Promise<void> {
    const varve = await this.#varve
    try {
      const { config } = this.#load()
      this.#onLoaded(config)
      const keys = await varve.reload(config)
      if (this.#isClosed) return
      for (const key of keys) {
        this.#log.warn({ key }, 'changed key needs a restart')
      }
      this.#metrics.process.reloaded('reloaded')
      this.#log.info('configuration reloaded')
    } catch (error) {
      if (this.#isClosed) return
      this.#metrics.process.reloaded('rejected')
      const reasons = error instanceof ConfigError
        ? error.mistakes.map(mistake => mistakeText(mistake, error.file))
        : [(error as Error).message]
      this.#log.error(
        { file: error instanceof ConfigError ? error.file : undefined, reasons },
        'new configuration rejected: the previous one stays in use'
      )
    }
  }
}
