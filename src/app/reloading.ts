import { type Logger } from 'pino'
import { type Loaded } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { ConfigError } from '../config/mistakes.js'
import { type Varve } from './varve.js'

/**
 * Goes over to what the configuration says by now, once it is wholly understood; whatever stands in the way, the old
 * one goes on.
 */
export class Reloading {
  readonly #load: () => Loaded
  readonly #varve: Promise<Varve>
  readonly #log: Logger
  readonly #onLoaded: (config: Config) => void
  #underWay: Promise<void> | undefined
  #isToldAgain = false
  #isOver = false

  /** `onLoaded` hears of each configuration that is understood, before it is gone over to. */
  constructor (load: () => Loaded, varve: Promise<Varve>, log: Logger, onLoaded: (config: Config) => void = () => {}) {
    this.#load = load
    this.#varve = varve
    this.#log = log
    this.#onLoaded = onLoaded
  }

  /** Reloads; who is told so while that is under way does it once more after it. */
  reload (): void {
    if (this.#isOver) return
    if (this.#underWay !== undefined) this.#isToldAgain = true
    // A start that has failed tells of itself.
    this.#underWay ??= this.#reloadAndAgain().catch(() => {}).finally(() => {
      this.#underWay = undefined
    })
  }

  /** Begins none any more, and tells of none: what is under way ends with varve. */
  end (): void {
    this.#isOver = true
  }

  async #reloadAndAgain (): Promise<void> {
    do {
      this.#isToldAgain = false
      await this.#reload()
    } while (this.#isToldAgain && !this.#isOver)
  }

  async #reload (): Promise<void> {
    const varve = await this.#varve
    try {
      const { config } = this.#load()
      this.#onLoaded(config)
      const keys = await varve.exchange(config)
      if (this.#isOver) return
      for (const key of keys) {
        this.#log.warn({ key }, 'this key is another one now, and is taken in when varve is started anew')
      }
      varve.metrics.process.reloaded('exchanged')
      this.#log.info('the configuration was exchanged')
    } catch (error) {
      if (this.#isOver) return
      varve.metrics.process.reloaded('refused')
      const reasons = error instanceof ConfigError
        ? error.mistakes.map(({ path, message }) => `${path}: ${message}`)
        : [(error as Error).message]
      this.#log.error(
        { file: error instanceof ConfigError ? error.file : undefined, reasons },
        'the new configuration is refused, and the old one goes on'
      )
    }
  }
}
