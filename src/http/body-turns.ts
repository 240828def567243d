import { type ServerResponse } from 'node:http'
import { unavailable } from '../api/refusal.js'

// So many bytes of bodies are read in a turn of the event loop, or one body: some milliseconds of work.
const bytesInTurn = 256 * 1024
// Beyond this a client is told to come again: the bodies of clients that leave would fill the memory (law 10).
const mostWaitingBytes = 64 * 1024 * 1024

/** Spreads the reading of large bodies over turns of the event loop, so that hits are answered between two of them. */
export class BodyTurns {
  readonly #waiting: Array<{ readonly length: number, readonly response: ServerResponse, readonly go: () => void }> = []
  #waitingBytes = 0

  /** Resolves when a body of so many bytes may be read; never for a client that leaves first. */
  async take (length: number, response: ServerResponse): Promise<void> {
    if (this.#waitingBytes >= mostWaitingBytes) {
      throw unavailable('overloaded: too many large request bodies at a time, retry later')
    }
    if (this.#waitingBytes === 0) {
      setImmediate(() => {
        this.#turn()
      })
    }
    this.#waitingBytes += length
    await new Promise<void>(resolve => {
      this.#waiting.push({ length, response, go: resolve })
    })
  }

  #turn (): void {
    for (let bytes = 0; bytes < bytesInTurn;) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      this.#waitingBytes -= next.length
      if (next.response.destroyed) continue
      bytes += next.length
      next.go()
    }
    if (this.#waitingBytes > 0) {
      setImmediate(() => {
        this.#turn()
      })
    }
  }
}
