import { type ServerResponse } from 'node:http'
import { unavailableError } from '../api/error-response.js'

// Bounds the work of one event loop turn to some milliseconds; the body that exceeds this ends the turn.
const bytesPerLoopTurn = 256 * 1024
// Rejects bodies beyond this with 503, since clients that leave do not free memory at once (law 10: nothing grows
// without bound).
const maxQueuedBytes = 64 * 1024 * 1024

/** Spreads the parsing of large bodies over turns of the event loop, so that hits are served in between. */
export class BodyParseQueue {
  readonly #queue: Array<{ readonly length: number, readonly response: ServerResponse, readonly start: () => void }> =
    []
  #queuedBytes = 0

  /** Resolves when a body of `length` bytes may be parsed; never if the client leaves first. */
  async waitForTurn (length: number, response: ServerResponse): Promise<void> {
    if (this.#queuedBytes >= maxQueuedBytes) {
      throw unavailableError('overloaded: too many large request bodies at a time, retry later')
    }
    if (this.#queuedBytes === 0) {
      setImmediate(() => {
        this.#serveQueue()
      })
    }
    this.#queuedBytes += length
    await new Promise<void>(resolve => {
      this.#queue.push({ length, response, start: resolve })
    })
  }

  #serveQueue (): void {
    for (let bytes = 0; bytes < bytesPerLoopTurn;) {
      const next = this.#queue.shift()
      if (next === undefined) return
      this.#queuedBytes -= next.length
      if (next.response.destroyed) continue
      bytes += next.length
      next.start()
    }
    if (this.#queuedBytes > 0) {
      setImmediate(() => {
        this.#serveQueue()
      })
    }
  }
}
