import { type ResponsePosition } from '../api/position.js'
import { type Candidate } from './ranking.js'

/** Tracks the window of history that an upstream stamps on its responses; only responses of our chain are learned. */
export class WindowTracker {
  readonly #now: () => number
  #stamped: ResponsePosition | undefined
  #window: Candidate['window']
  #highestVersion = -1n
  #learnedAtMs = -Infinity

  constructor (now: () => number) {
    this.#now = now
  }

  /** Last stamped position; undefined before the first and after a chain reset. */
  get stamped (): ResponsePosition | undefined {
    return this.#stamped
  }

  /** First and last version that it has. */
  get window (): Candidate['window'] {
    return this.#window
  }

  /** Highest version ever stamped; several nodes behind one address may be behind it. */
  get highestVersion (): bigint {
    return this.#highestVersion
  }

  /** Time since the last stamp. */
  get ageMs (): number {
    return this.#now() - this.#learnedAtMs
  }

  learn (stamped: ResponsePosition): void {
    const { head, oldest } = stamped.position
    this.#stamped = stamped
    this.#learnedAtMs = this.#now()
    this.#window = { oldest: oldest.version, head: head.version }
    if (head.version > this.#highestVersion) this.#highestVersion = head.version
  }

  /** Drops everything learned, which belongs to the previous chain. */
  clear (): void {
    this.#stamped = undefined
    this.#window = undefined
    this.#highestVersion = -1n
  }
}
