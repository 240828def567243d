import { type ServerResponse, STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { outcomeOfError, ownStatusOf } from '../proxy/outcomes.js'
import { Refusal, type RefusalStatus } from '../api/refusal.js'
import { methodNotAllowed } from '../api/unknown-route.js'
import { type CutReason } from '../metrics/cut-reasons.js'
import { answerOn } from './answer-on.js'

// As long as words take to be read.
const lingerMs = 1000

/** Says what a listener does with requests that never reach its routes. */
export interface UnroutedErrors {
  /** Header lines of every response of the listener: names and values in turn. */
  readonly lines: readonly string[]
  /** Reports the status of an error response. */
  answered(status: RefusalStatus): void
}

/** Sends an error response in the node's shape for bytes that are no request, then closes the connection. */
export function answerClientErrors (error: Error & { code?: string }, socket: Socket, errors: UnroutedErrors): void {
  // Whoever has not got through the handshake could not read it.
  if (isOfTls(error)) {
    socket.destroy()
    return
  }
  endWith(new Refusal(statusOf(error.code), 'web_framework_error', 'the request could not be read'), socket, errors)
}

/** Refuses a tunnel, which Node would cut off without a word, and closes the connection. */
export function refuseTunnel (socket: Socket, errors: UnroutedErrors): void {
  // Node has let go of it: nobody else hears of its errors, reads what stands in the way of its end, or ends it.
  socket.on('error', () => {}).once('finish', () => {
    socket.destroy()
  }).resume()
  endWith(methodNotAllowed('GET, HEAD, POST'), socket, errors)
}

function endWith (refusal: Refusal, socket: Socket, errors: UnroutedErrors): void {
  const due = answerDueOn(socket)
  if (due !== undefined) {
    // An answer to an earlier request comes first, or the client would take this one for it; what it sends meanwhile is
    // of no use.
    endAfter(due, socket)
    socket.pause()
  } else if (socket.writable) {
    socket.end(replyOf(refusal, errors))
    // Who goes on sending, or does not end its own side, would keep the connection for ever; to end it at once could
    // take the words from who reads them.
    setTimeout(() => {
      socket.destroy()
    }, lingerMs).unref()
  } else socket.destroy()
}

/**
 * Ends a connection after a response, and after those to requests that were pipelined whole: varve stopped reading, not
 * the client sending.
 */
function endAfter (due: ServerResponse, socket: Socket): void {
  due.once('finish', () => {
    // Node has given the socket to the next response by now.
    const next = answerDueOn(socket)
    if (next === undefined) socket.destroySoon()
    else endAfter(next, socket)
  })
}

function replyOf ({ status, lines, body }: Refusal, errors: UnroutedErrors): string {
  errors.answered(status)
  const more = [...errors.lines, ...lines].map((text, at) => at % 2 === 0 ? `${text}: ` : `${text}\r\n`).join('')
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${
    Buffer.byteLength(body)
  }\r\n` +
    `Cache-Status: ${ownStatusOf(outcomeOfError(status))}\r\n${more}Connection: close\r\n\r\n${body}`
}

/** Why a client is cut off that has been too slow; undefined for any other error. */
export function slownessOf ({ code }: Error & { code?: string }, socket: Socket): CutReason | undefined {
  switch (code) {
    case 'ERR_TLS_HANDSHAKE_TIMEOUT':
      return 'handshake'
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return answerOn(socket)?.req.complete === false ? 'body' : 'head'
    default:
      return undefined
  }
}

function isOfTls ({ code = '' }: Error & { code?: string }): boolean {
  return code.startsWith('ERR_TLS_') || code.startsWith('ERR_SSL_')
}

function statusOf (code: string | undefined): 400 | 408 | 431 {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408
    default:
      return 400
  }
}

// An answer to the very request that broke off, its body still coming, is not due any more.
function answerDueOn (socket: Socket): ServerResponse | undefined {
  const message = answerOn(socket)
  return message !== undefined && (message.headersSent || message.req.complete) ? message : undefined
}
