import { type EndpointName } from './routes.js'

/** Requests that wait until they are let go. */
export class Hold {
  readonly match: EndpointName | undefined
  /** Whether the state is read on arrival rather than on release. */
  readonly late: boolean
  /** Resolves when the first request is here. */
  readonly arrived: Promise<void>
  readonly released: Promise<void>
  readonly #onRelease: () => void
  // A promise hands over its resolver at once.
  #arrive!: () => void
  #release!: () => void
  #count = 0

  constructor (match: EndpointName | undefined, late: boolean, onRelease: () => void) {
    this.match = match
    this.late = late
    this.#onRelease = onRelease
    this.arrived = new Promise(resolve => {
      this.#arrive = resolve
    })
    this.released = new Promise(resolve => {
      this.#release = resolve
    })
  }

  /** How many requests have come. */
  get count (): number {
    return this.#count
  }

  /** Marks that a request is here. */
  arrive (): void {
    this.#count++
    this.#arrive()
  }

  /** Lets everything go, and holds nothing from now on. */
  release (): void {
    this.#onRelease()
    this.#release()
  }
}
