import { type EndpointName } from './routes.js'

/** One request that came in; the body is empty until it has been read. */
export interface AskedRequest {
  readonly endpoint: EndpointName
  readonly method: string
  readonly url: string
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[]
  body: string
}

const kept = 1_000

/** What the node was asked, counted and, for the latest thousand, in full. */
export class Asked {
  readonly #counts = new Map<EndpointName, number>()
  #log: AskedRequest[] = []

  /** How often the node was asked. */
  get total (): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0)
  }

  /** The latest requests, oldest first. */
  get log (): readonly AskedRequest[] {
    return this.#log
  }

  /** The counts by endpoint. */
  get counts (): Record<string, number> {
    return Object.fromEntries(this.#counts)
  }

  /** How often one endpoint was asked for. */
  of (endpoint: EndpointName): number {
    return this.#counts.get(endpoint) ?? 0
  }

  /** Counts one more. */
  note (request: AskedRequest): void {
    this.#counts.set(request.endpoint, this.of(request.endpoint) + 1)
    this.#log.push(request)
    if (this.#log.length > kept) this.#log.shift()
  }

  /** Begins again at nothing. */
  reset (): void {
    this.#counts.clear()
    this.#log = []
  }
}
