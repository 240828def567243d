import { randomBytes } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, type IncomingHttpHeaders } from 'node:http'
import { type FastifyReply, type FastifyRequest } from 'fastify'
import { type RequestSource, trustedProxyCheck } from './client-address.js'
import { webFrameworkError } from '../api/error-response.js'
import { classOf, type Read } from '../api/read.js'
import { type ResponsePreferences } from '../proxy/response-builder.js'

/** A request and its response. */
export interface HttpExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Raw request target. */
  readonly url: string
  readonly method: string
  readonly receivedAtMs: number
  /** Id that names the request in the log, in its response, and in a forwarded request. */
  readonly id: string
}

/** Facts of a request for metrics, log and trace. */
export interface RecordedRequest extends Pick<HttpExchange, 'method' | 'url' | 'receivedAtMs' | 'id'> {
  readonly request: RequestSource
}

/** Takes an exchange from Fastify, so that `sendResponse` alone writes responses. */
export function hijackExchange (
  request: FastifyRequest,
  reply: FastifyReply,
  { proxy }: { readonly proxy: { readonly now: () => number } }
): HttpExchange {
  reply.hijack()
  const { raw, originalUrl: url, method } = request
  // Closes the connection instead of reading an unwanted chunked body, whose chunks of one byte would take all of the
  // processor.
  if (!raw.complete && raw.headers['transfer-encoding'] !== undefined) reply.raw.shouldKeepAlive = false
  return {
    request: raw,
    response: reply.raw,
    url,
    method,
    receivedAtMs: proxy.now() - reply.elapsedTime,
    id: request.id
  }
}

/** Prints header lines: names and values in turn. */
export function printLines (rawHeaders: readonly string[]): string {
  let text = ''
  for (let at = 0; at < rawHeaders.length; at += 2) text += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`
  return text
}

/** Returns the value of a header line by its exact name. */
export function rawHeaderValueOf (rawHeaders: readonly string[], name: string): string | undefined {
  const at = rawHeaders.indexOf(name)
  return at === -1 ? undefined : rawHeaders[at + 1]
}

/** Header with the id of a request: taken from trusted proxies, and sent with every response. */
export const requestIdHeader = 'x-request-id'

// Characters that are safe in a header, a log line and a shell.
const idPattern = /^[A-Za-z0-9._:@/+=~-]{1,128}$/

/** Makes request ids: a random prefix per process, and a number. */
export class RequestIds {
  readonly #prefix = `req-${randomBytes(5).toString('hex')}-`
  #last = 0
  #lines = 0

  /** Returns a new id. */
  next (): string {
    return this.#prefix + (++this.#last).toString(36)
  }

  /** Returns the number of a response, by which access lines are sampled: an id from a proxy has no number. */
  nextLineNumber (): number {
    return ++this.#lines
  }
}

/** Returns a function that takes the request id of a trusted proxy, or makes one. */
export function requestIdReader (ids: RequestIds, trustProxy: readonly string[]): (request: IncomingMessage) => string {
  const isTrusted = trustedProxyCheck(trustProxy)
  return request => {
    const { headers, socket } = request
    const given = headers[requestIdHeader]
    // Takes no id from a client, because it could repeat the id of another request in the log.
    return typeof given === 'string' && idPattern.test(given) && isTrusted(socket.remoteAddress)
      ? given
      : ids.next()
  }
}

/** Most header lines of a request that Node parses. */
export const maxHeaderLines = 1000

/** Checks the requirements on every request. */
export function checkRequest ({ headers, rawHeaders, httpVersion }: IncomingMessage): void {
  // Rejects excess header lines, which Node drops silently: a read without its Accept would get another form
  // (law 1: what is keyed is sent).
  if (rawHeaders.length > 2 * maxHeaderLines) {
    throw webFrameworkError(431, `too many header lines: expected at most ${maxHeaderLines}`)
  }
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  // Requires one Host (RFC 9112, section 3.2), because Node's own check would not answer in the node's error shape.
  if (hosts !== 1 && (hosts !== 0 || httpVersion !== '1.0')) {
    throw webFrameworkError(400, 'expected one Host header', ['connection', 'close'])
  }
  // Accepts 100-continue, which Node answers itself.
  if ((headers.expect ?? '100-continue').toLowerCase() !== '100-continue') {
    throw webFrameworkError(417, 'unknown expectation: expected 100-continue')
  }
  // Accepts no compressed body: a small one could decompress to any size before it is keyed (law 10: nothing grows
  // without bound).
  const isPlain = (headers['content-encoding'] ?? 'identity') === 'identity' &&
    (headers['transfer-encoding'] ?? 'chunked').toLowerCase() === 'chunked'
  if (!isPlain) throw webFrameworkError(415, 'a compressed request body is not supported')
}

/** Returns true for a latest read whose client accepts no older response (RFC 9111, section 5.2.1.4). */
export function bypassesFollowing (read: Read, headers: IncomingHttpHeaders): boolean {
  const directives = headers['cache-control']
  return directives !== undefined && classOf(read) === 'moving' && /\bno-cache\b/i.test(directives)
}

/** Returns true for a read that no client waits for (RFC 9218, section 4.1: urgency 7 is for background tasks). */
export function isBackground ({ priority }: IncomingHttpHeaders): boolean {
  return priority !== undefined && /(?:^|,) *u=7 *(?:[,;]|$)/.test(String(priority))
}

/** Reads the headers that choose the form of a response. */
export function responsePreferencesOf (headers: IncomingHttpHeaders): ResponsePreferences {
  return { ifNoneMatch: headers['if-none-match'], acceptEncoding: headers['accept-encoding'] }
}
