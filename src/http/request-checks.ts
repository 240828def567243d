import { type IncomingMessage, type IncomingHttpHeaders } from 'node:http'
import { webFrameworkError } from '../api/error-response.js'
import { classOf, type Read } from '../api/read.js'
import { type ResponsePreferences } from '../proxy/response-builder.js'

/** Number of header lines that Node parses of a request. */
export const maxHeaderLines = 1000

/**
 * Rejects excess header lines, which Node drops silently: a dropped Accept would get another form (law 1: what is keyed
 * is what is sent).
 */
function requireAllHeaders ({ rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length > 2 * maxHeaderLines) {
    throw webFrameworkError(431, `too many header lines: expected at most ${maxHeaderLines}`)
  }
}

/** Requires one Host (RFC 9112, section 3.2); Node's own check would not answer in the node's error shape. */
function requireHost ({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return
  throw webFrameworkError(400, 'expected one Host header', ['connection', 'close'])
}

/** Rejects expectations other than 100-continue, which Node answers itself. */
function requireKnownExpectation ({ headers }: IncomingMessage): void {
  if ((headers.expect ?? '100-continue').toLowerCase() !== '100-continue') {
    throw webFrameworkError(417, 'unknown expectation: expected 100-continue')
  }
}

/**
 * Rejects compressed bodies: a small one could decompress to any size before it is keyed (law 10: nothing grows without
 * bound).
 */
function requirePlainBody ({ headers }: IncomingMessage): void {
  const isPlain = (headers['content-encoding'] ?? 'identity') === 'identity' &&
    (headers['transfer-encoding'] ?? 'chunked').toLowerCase() === 'chunked'
  if (!isPlain) {
    throw webFrameworkError(415, 'a compressed request body is not supported')
  }
}

/** Checks the requirements on every request. */
export function checkRequest (request: IncomingMessage): void {
  requireAllHeaders(request)
  requireHost(request)
  requireKnownExpectation(request)
  requirePlainBody(request)
}

/** Returns true for a latest read whose client accepts no older response (RFC 9111, section 5.2.1.4). */
export function bypassesFollowing (read: Read, headers: IncomingHttpHeaders): boolean {
  const directives = headers['cache-control']
  return directives !== undefined && classOf(read) === 'moving' && /\bno-cache\b/i.test(directives)
}

/** Reads the headers that choose the form of a response. */
export function responsePreferencesOf (headers: IncomingHttpHeaders): ResponsePreferences {
  return { ifNoneMatch: headers['if-none-match'], acceptEncoding: headers['accept-encoding'] }
}
