import { type Config } from '../config/schema.js'

/** Configuration in use; a reload replaces it. */
export class CurrentConfig {
  #config: Config

  constructor (config: Config) {
    this.#config = config
  }

  get value (): Config {
    return this.#config
  }

  replace (config: Config): void {
    this.#config = config
  }
}
