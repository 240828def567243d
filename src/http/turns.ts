import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Socket } from 'node:net'

type Serve = (request: IncomingMessage, response: ServerResponse) => void

// More than any client pipelines in good faith.
const maxWaiting = 256

/**
 * Serves pipelined requests one at a time, and stops reading a connection on which one waits: the rest stays in the
 * kernel (law 10). A client that leaves meanwhile is noticed when the response under way is written or times out.
 */
export class Turns {
  readonly #waiting = new WeakMap<Socket, number>()
  readonly #onCut: () => void

  constructor (onCut: () => void) {
    this.#onCut = onCut
  }

  /** Serves a request when all earlier responses of its connection are out; never if the connection ends first. */
  wait (request: IncomingMessage, response: ServerResponse, serve: Serve): void {
    const { socket } = request
    const waiting = this.#waiting.get(socket) ?? 0
    this.#waiting.set(socket, waiting + 1)
    // Bounds the requests of one read: Node parses all bytes that it has read.
    if (waiting === maxWaiting) {
      this.#onCut()
      socket.destroy()
    }
    if (waiting === 0) stopReading(socket)
    response.once('socket', () => {
      const left = (this.#waiting.get(socket) ?? 1) - 1
      this.#waiting.set(socket, left)
      if (left === 0) goOnReading(socket)
      // Node flushes the response after this event; one that is already written would be ended twice.
      process.nextTick(() => {
        if (socket.writable) serve(request, response)
      })
    })
  }
}

// Node resumes a socket after each parsed request and on drain, but moves its handle on these events alone.
// Emitting them leaves the stream's own state, which Node goes by, as it is.
function stopReading (socket: Socket): void {
  pauseHandle.call(socket)
  socket.on('resume', pauseHandle)
}

function goOnReading (socket: Socket): void {
  socket.off('resume', pauseHandle)
  // An unread body paused the socket and resumes it when read; a failed parse paused it for good.
  if (!socket.isPaused()) socket.emit('resume')
}

function pauseHandle (this: Socket): void {
  this.emit('pause')
}
