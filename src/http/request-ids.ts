import { randomBytes } from 'node:crypto'
import { type IncomingMessage } from 'node:http'
import { trustedProxyCheck } from './client-address.js'

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
  const isTrusted = trustProxy.length === 0 ? () => false : trustedProxyCheck(trustProxy)
  return request => {
    const { headers, socket } = request
    const given = headers[requestIdHeader]
    // Believes no client: its ids could repeat those of others in the log.
    return typeof given === 'string' && idPattern.test(given) && isTrusted(socket.remoteAddress)
      ? given
      : ids.next()
  }
}
