import { STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { type ClientResponse } from '../proxy/response-builder.js'
import { type ConnectionLimiter } from './connection-limiter.js'
import { requestIdHeader } from './request-ids.js'
import { serverTimeouts } from './timeouts.js'

/** Largest body that is written at once: of longer ones Node would report no progress (slow-readers.ts). */
export const maxHitBodyBytes = 128 * 1024

// Head and body up to this size leave in one write; larger bodies by `writev`, which copies nothing.
const maxCopiedBytes = 16 * 1024
const bufferBytes = maxCopiedBytes + 8 * 1024
const keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${
  Math.floor(serverTimeouts.keepAliveTimeout / 1000)
}\r\n\r\n`
const emptyBody = Buffer.alloc(0)

/** Writes responses of cached headers to idle connections, with the lines that Node's own printer adds. */
export class HitWriter {
  readonly #clients: ConnectionLimiter
  readonly #now: () => Date
  readonly #statusLines = new Map<number, string>()
  // Shared by all responses, since the kernel mostly takes a response before the write returns.
  #buffer = Buffer.allocUnsafeSlow(bufferBytes)
  #dateSecond = NaN
  #lastLines = ''

  constructor (clients: ConnectionLimiter, now = (): Date => new Date()) {
    this.#clients = clients
    this.#now = now
  }

  write (
    socket: Socket,
    method: string,
    response: ClientResponse,
    extraHeaders: readonly string[],
    requestId: string
  ): void {
    const { status, headerText = '', body } = response
    const length = body === undefined ? '' : `content-length: ${body.length}\r\n`
    const head = `${this.#statusLine(status)}${headerText}${requestIdHeader}: ${requestId}\r\n${length}` +
      print(extraHeaders) + this.#currentLastLines()
    const sent = body === undefined || method === 'HEAD' ? emptyBody : body
    if (sent.length > maxCopiedBytes || head.length > bufferBytes - maxCopiedBytes || socket instanceof TLSSocket) {
      socket.cork()
      socket.write(head, 'latin1')
      if (sent.length > 0) socket.write(sent)
      socket.uncork()
    } else {
      const headLength = this.#buffer.write(head, 0, 'latin1')
      sent.copy(this.#buffer, headLength)
      socket.write(this.#buffer.subarray(0, headLength + sent.length))
      // Leaves the buffer to the socket until its bytes are sent.
      if (socket.writableLength > 0) this.#buffer = Buffer.allocUnsafeSlow(bufferBytes)
    }
    if (socket.writableLength > 0) this.#clients.trackUnsent(socket, sent)
  }

  #statusLine (status: number): string {
    let line = this.#statusLines.get(status)
    if (line === undefined) this.#statusLines.set(status, line = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`)
    return line
  }

  #currentLastLines (): string {
    const now = this.#now()
    const second = Math.floor(now.getTime() / 1000)
    if (second !== this.#dateSecond) {
      this.#dateSecond = second
      this.#lastLines = `Date: ${now.toUTCString()}\r\n${keepAliveLines}`
    }
    return this.#lastLines
  }
}

function print (headers: readonly string[]): string {
  let text = ''
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return text
}
