import { type EndpointName } from './routes.js'

/** Holds matching requests until a test releases them. */
export class Hold {
  readonly match: EndpointName | undefined
  /** Whether the state is read on arrival rather than on release. */
  readonly late: boolean
  /** Resolves when the first request is here. */
  readonly arrived: Promise<void>
  readonly released: Promise<void>
  readonly #onRelease: () => void
  // A promise hands over its resolver at once.
  #resolveArrived!: () => void
  #resolveReleased!: () => void
  #arrivedCount = 0

  constructor (match: EndpointName | undefined, late: boolean, onRelease: () => void) {
    this.match = match
    this.late = late
    this.#onRelease = onRelease
    this.arrived = new Promise(resolve => {
      this.#resolveArrived = resolve
    })
    this.released = new Promise(resolve => {
      this.#resolveReleased = resolve
    })
  }

  /** Number of requests that have arrived. */
  get arrivedCount (): number {
    return this.#arrivedCount
  }

  /** Marks that a request is here. */
  arrive (): void {
    this.#arrivedCount++
    this.#resolveArrived()
  }

  /** Releases all held requests and stops holding new ones. */
  release (): void {
    this.#onRelease()
    this.#resolveReleased()
  }
}
