import { type RecordedExchange } from './recording-format.js'
import { exactKeyOf, type RecordedRequest, semanticKeyOf, decodeRecordedRequest } from './request-match-keys.js'

/** Responses to equal requests in recorded order; the last one repeats. */
interface ResponseSequence {
  readonly exchanges: RecordedExchange[]
  next: number
}

/** Index of recorded responses by their requests. */
export class RecordedResponses {
  readonly #exact = new Map<string, ResponseSequence>()
  readonly #semantic = new Map<string, ResponseSequence>()
  readonly #used = new Set<RecordedExchange>()
  readonly #size: number

  constructor (exchanges: readonly RecordedExchange[]) {
    this.#size = exchanges.length
    for (const exchange of exchanges) {
      const request = decodeRecordedRequest(exchange.request)
      // A request without its whole body cannot match any other request.
      if (request === undefined) continue
      appendTo(this.#exact, exactKeyOf(request), exchange)
      if (isUnconditional(exchange)) appendTo(this.#semantic, semanticKeyOf(request), exchange)
    }
  }

  /** Finds the response to an identical request, or else to an equivalent one. */
  find (request: RecordedRequest): RecordedExchange | undefined {
    const sequence = this.#exact.get(exactKeyOf(request)) ?? this.#semantic.get(semanticKeyOf(request))
    if (sequence === undefined) return undefined
    const exchange = sequence.exchanges[Math.min(sequence.next++, sequence.exchanges.length - 1)]
    if (exchange !== undefined) this.#used.add(exchange)
    return exchange
  }

  /** Number of different requests, compared by exact text. */
  get requestCount (): number {
    return this.#exact.size
  }

  /** Number of responses that no request has matched. */
  get unusedCount (): number {
    return this.#size - this.#used.size
  }
}

function appendTo (sequences: Map<string, ResponseSequence>, key: string, exchange: RecordedExchange): void {
  const sequence = sequences.get(key)
  if (sequence === undefined) sequences.set(key, { exchanges: [exchange], next: 0 })
  else sequence.exchanges.push(exchange)
}

// A 304 or 206 is only valid for a client that has the rest.
function isUnconditional ({ response }: RecordedExchange): boolean {
  return response?.status !== 304 && response?.status !== 206
}
