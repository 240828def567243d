import { type EndpointName } from './routes.js'

/** One received request; the body is empty until it has been read. */
export interface RequestLogEntry {
  readonly endpoint: EndpointName
  readonly method: string
  readonly url: string
  /** Alternating names and values, as received. */
  readonly headers: readonly string[]
  body: string
}

const maxEntries = 1_000

/** Log of received requests: counts of all, details of the latest 1,000. */
export class RequestLog {
  readonly #counts = new Map<EndpointName, number>()
  #latest: RequestLogEntry[] = []

  /** Number of requests received. */
  get total (): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0)
  }

  /** The latest requests, oldest first. */
  get latest (): readonly RequestLogEntry[] {
    return this.#latest
  }

  /** Number of requests by endpoint. */
  get counts (): Record<string, number> {
    return Object.fromEntries(this.#counts)
  }

  /** Returns the number of requests for one endpoint. */
  countFor (endpoint: EndpointName): number {
    return this.#counts.get(endpoint) ?? 0
  }

  /** @internal Counts a request and records its details. */
  record (entry: RequestLogEntry): void {
    this.#counts.set(entry.endpoint, this.countFor(entry.endpoint) + 1)
    this.#latest.push(entry)
    if (this.#latest.length > maxEntries) this.#latest.shift()
  }

  /** Clears all counts and details. */
  reset (): void {
    this.#counts.clear()
    this.#latest = []
  }
}
