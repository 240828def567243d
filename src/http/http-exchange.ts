import { randomBytes } from 'node:crypto'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type FastifyReply, type FastifyRequest } from 'fastify'
import { type RequestSource, trustedProxyCheck } from './client-address.js'

/** A request and its response. */
export interface HttpExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Raw request target. */
  readonly url: string
  readonly method: string
  readonly receivedAtMs: number
  /** Names the request in the log, in its response, and in a forwarded request. */
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
  // Reads no more of an unwanted chunked body: parsing chunks of one byte would take all of the processor.
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

/** Returns the value of a header line; names are as they are sent. */
export function rawHeaderValueOf (rawHeaders: readonly string[], name: string): string | undefined {
  const at = rawHeaders.indexOf(name)
  return at === -1 ? undefined : rawHeaders[at + 1]
}

/** Header with the id of a request: of requests through a trusted proxy, and of every response. */
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

  /** Numbers the responses that may get an access line: ids of a proxy have no number to sample by. */
  nextLineNumber (): number {
    return ++this.#lines
  }
}

/** Returns a function that takes the id of a trusted proxy, or makes one. */
export function requestIdReader (ids: RequestIds, trustProxy: readonly string[]): (request: IncomingMessage) => string {
  const isTrusted = trustedProxyCheck(trustProxy)
  return request => {
    const { headers, socket } = request
    const given = headers[requestIdHeader]
    // Believes no client: its ids could repeat those of others in the log.
    return typeof given === 'string' && idPattern.test(given) && isTrusted(socket.remoteAddress)
      ? given
      : ids.next()
  }
}
