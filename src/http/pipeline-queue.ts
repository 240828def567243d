import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Socket } from 'node:net'
import { pauseReading, resumeReading } from '../node.js'

type Serve = (request: IncomingMessage, response: ServerResponse) => void

// Exceeds what any honest client pipelines.
const maxQueued = 256

/**
 * Serves pipelined requests one at a time. Pauses the socket while one waits, so further bytes stay in the kernel
 * (law 10: nothing grows without bound).
 */
export class PipelineQueue {
  readonly #queued = new WeakMap<Socket, number>()
  readonly #onCut: () => void

  constructor (onCut: () => void) {
    this.#onCut = onCut
  }

  /** Serves a request after all earlier responses of its connection; never if the connection closes first. */
  enqueue (request: IncomingMessage, response: ServerResponse, serve: Serve): void {
    const { socket } = request
    const waiting = this.#queued.get(socket) ?? 0
    this.#queued.set(socket, waiting + 1)
    // Bounds the requests in one read: Node parses all bytes it has read before it pauses.
    if (waiting === maxQueued) {
      this.#onCut()
      socket.destroy()
    }
    if (waiting === 0) pauseReading(socket)
    response.once('socket', () => {
      const left = (this.#queued.get(socket) ?? 1) - 1
      this.#queued.set(socket, left)
      if (left === 0) resumeReading(socket)
      // Waits until Node has flushed the response, which it does after this event, or it would end twice.
      process.nextTick(() => {
        if (socket.writable) serve(request, response)
      })
    })
  }
}
