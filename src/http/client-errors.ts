import { type ServerResponse, STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { outcomeOfErrorStatus, ownCacheStatusOf } from '../proxy/outcomes.js'
import {
  type ErrorResponseStatus,
  webFrameworkError,
  ErrorResponse,
  invalidInputError,
  unexpectedError
} from '../api/error-response.js'
import { methodNotAllowedError } from '../api/pass-through-target.js'
import { type ConnectionCutReason } from '../metrics/definitions.js'
import { findPendingResponse } from '../node.js'
import { printLines } from './http-exchange.js'

// Gives the client time to read the error before the connection closes.
const lingerMs = 1000

/** Options for errors of requests that never reach a route. */
export interface UnroutedErrorOptions {
  /** Header lines of every response of the listener: names and values in turn. */
  readonly rawHeaders: readonly string[]
  /** Reports the status of an error response. */
  onResponded(status: ErrorResponseStatus): void
}

/** Sends an error response in the node's shape for bytes that are no request, then closes the connection. */
export function respondToClientError (
  { code = '' }: Error & { code?: string },
  socket: Socket,
  options: UnroutedErrorOptions
): void {
  // Sends no error after a failed TLS handshake, because the client could not read one.
  if (/^ERR_(?:TLS|SSL)_/.test(code)) socket.destroy()
  else endWithError(webFrameworkError(statusOf(code), 'the request could not be read'), socket, options)
}

/** Rejects CONNECT with an error, since Node would send none, then closes the connection. */
export function rejectTunnel (socket: Socket, options: UnroutedErrorOptions): void {
  // Takes over the socket, which Node releases for a tunnel: no other code handles its errors, drains or closes it.
  socket.on('error', () => {}).once('finish', () => socket.destroy()).resume()
  endWithError(methodNotAllowedError('GET, HEAD, POST'), socket, options)
}

function endWithError (error: ErrorResponse, socket: Socket, options: UnroutedErrorOptions): void {
  const due = dueResponseOn(socket)
  if (due !== undefined) {
    // Sends the responses that are due first, or the client would take this error for one of them.
    socket.pause()
    due.once('finish', () => {
      // Closes without an error: the bad bytes are of the body of this request, which was answered before they came.
      if (!due.req.complete) socket.destroySoon()
      // Node has given the socket to the next response by now.
      else endWithError(error, socket, options)
    })
  } else if (socket.writable) {
    socket.end(printErrorResponse(error, options))
    // Bounds a client that never closes its side; closing at once could reset the connection before the error is read.
    setTimeout(() => socket.destroy(), lingerMs).unref()
    // Closes a socket that can no longer be written, unless an error is on its way: after a response Node may report
    // the same bytes again.
  } else if (!socket.writableEnded) socket.destroy()
}

function printErrorResponse ({ status, rawHeaders, body }: ErrorResponse, options: UnroutedErrorOptions): string {
  options.onResponded(status)
  const headers = [
    'Content-Type',
    'application/json',
    'Content-Length',
    String(Buffer.byteLength(body)),
    'Cache-Status',
    ownCacheStatusOf(outcomeOfErrorStatus(status)),
    ...options.rawHeaders,
    ...rawHeaders,
    'Connection',
    'close'
  ]
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${printLines(headers)}\r\n${body}`
}

/** Returns the reason for a timeout of the client; undefined for any other error. */
export function timeoutReasonOf ({ code }: Error & { code?: string }, socket: Socket): ConnectionCutReason | undefined {
  switch (code) {
    case 'ERR_TLS_HANDSHAKE_TIMEOUT':
      return 'handshake'
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return findPendingResponse(socket)?.req.complete === false ? 'body' : 'head'
    default:
      return undefined
  }
}

function statusOf (code: string): 400 | 408 | 431 {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408
    default:
      return 400
  }
}

// Finds the response that is due; ignores one to a request that broke off within its body.
function dueResponseOn (socket: Socket): ServerResponse | undefined {
  const message = findPendingResponse(socket)
  return message !== undefined && (message.headersSent || message.req.complete) ? message : undefined
}

const errorsByCode = new Map<unknown, ErrorResponse>([
  ['FST_ERR_CTP_BODY_TOO_LARGE', webFrameworkError(413, 'the request body is too large')],
  ['FST_ERR_CTP_INVALID_MEDIA_TYPE', webFrameworkError(415, 'the content type is not supported')],
  [
    'FST_ERR_CTP_INVALID_CONTENT_LENGTH',
    webFrameworkError(400, 'the request body is not as long as its content length')
  ],
  // Error of the method QUERY only, for which Fastify throws it and which no route has.
  ['FST_ERR_ROUTE_MISSING_CONTENT_TYPE', methodNotAllowedError('GET, HEAD, POST')],
  ['FST_ERR_BAD_URL', invalidInputError('the request target is not a valid path')],
  // Error of a client that left within its body: never read by the client, but counted as 400.
  ['ECONNRESET', webFrameworkError(400, 'the request body broke off')]
])

/** Converts every error to an ErrorResponse, so that clients see only the node's shape; hides unexpected errors. */
export function toErrorResponse (error: unknown): ErrorResponse {
  if (error instanceof ErrorResponse) return error
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  return errorsByCode.get(code) ?? unexpectedError()
}
