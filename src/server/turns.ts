import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Socket } from 'node:net'
import { unavailable } from '../reads/refusal.js'

// More than any client sends ahead in good faith.
const maxWaiting = 256

/**
 * One request of a connection at a time. Node reads pipelined requests as they come, and would have each hold an answer, and a connection
 * of the node's with it, until its turn to be written; it says nothing of a client that leaves before that turn.
 */
export class Turns {
  readonly #waiting = new WeakMap<Socket, number>()
  readonly #onCut: () => void

  constructor (onCut: () => void) {
    this.#onCut = onCut
  }

  /** Resolves when every earlier answer on the connection is out; never for a client that leaves first. */
  async take ({ socket }: IncomingMessage, response: ServerResponse): Promise<void> {
    if (response.socket !== null) return
    const waiting = this.#waiting.get(socket) ?? 0
    // Who sends without end and reads nothing would fill the memory (law 10).
    if (waiting === maxWaiting) {
      this.#onCut()
      socket.destroy()
    }
    this.#waiting.set(socket, waiting + 1)
    await once(response, 'socket')
    this.#waiting.set(socket, (this.#waiting.get(socket) ?? 1) - 1)
  }
}

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
    if (this.#waitingBytes >= mostWaitingBytes) throw unavailable('overloaded: too many large request bodies at a time, retry later')
    if (this.#waitingBytes === 0) setImmediate(() => { this.#turn() })
    this.#waitingBytes += length
    await new Promise<void>(resolve => { this.#waiting.push({ length, response, go: resolve }) })
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
    if (this.#waitingBytes > 0) setImmediate(() => { this.#turn() })
  }
}
