import { type EndpointName } from './routes.js'

/** Delays matching requests until a test releases them. */
export class Hold {
  readonly match: EndpointName | undefined
  /** True if the state is read on arrival rather than on release. */
  readonly late: boolean
  /** Resolves when the first matching request has arrived. */
  readonly arrived: Promise<void>
  readonly released: Promise<void>
  readonly #onRelease: () => void
  // Assigned in the constructor, since a promise calls its executor synchronously.
  #resolveArrived!: () => void
  #resolveReleased!: () => void
  #arrivedCount = 0

  /** @internal */
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

  /** @internal Counts a request that has arrived. */
  arrive (): void {
    this.#arrivedCount++
    this.#resolveArrived()
  }

  /** Releases all delayed requests and delays no new ones. */
  release (): void {
    this.#onRelease()
    this.#resolveReleased()
  }
}
