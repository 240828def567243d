import { type EndpointName } from './routes.js'

/** One request that came in; the body is empty until it has been read. */
export interface RequestLogEntry {
  readonly endpoint: EndpointName
  readonly method: string
  readonly url: string
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[]
  body: string
}

const maxEntries = 1_000

/** What the node was asked, counted and, for the latest thousand, in full. */
export class RequestLog {
  readonly #counts = new Map<EndpointName, number>()
  #latest: RequestLogEntry[] = []

  /** How often the node was asked. */
  get total (): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0)
  }

  /** The latest requests, oldest first. */
  get latest (): readonly RequestLogEntry[] {
    return this.#latest
  }

  /** The counts by endpoint. */
  get counts (): Record<string, number> {
    return Object.fromEntries(this.#counts)
  }

  /** How often one endpoint was asked for. */
  countFor (endpoint: EndpointName): number {
    return this.#counts.get(endpoint) ?? 0
  }

  /** Counts one more. */
  record (entry: RequestLogEntry): void {
    this.#counts.set(entry.endpoint, this.countFor(entry.endpoint) + 1)
    this.#latest.push(entry)
    if (this.#latest.length > maxEntries) this.#latest.shift()
  }

  /** Begins again at nothing. */
  reset (): void {
    this.#counts.clear()
    this.#latest = []
  }
}
