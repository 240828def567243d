import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Socket } from 'node:net'

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
