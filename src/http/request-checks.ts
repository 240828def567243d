import { type IncomingMessage, type IncomingHttpHeaders } from 'node:http'
import { webFrameworkError } from '../api/error-response.js'
import { classOf, type Read } from '../api/read.js'
import { type ResponsePreferences } from '../proxy/response-builder.js'

/** Number of header lines that Node parses of a request. */
export const maxHeaderLines = 1000

/** Checks the requirements on every request. */
export function checkRequest ({ headers, rawHeaders, httpVersion }: IncomingMessage): void {
  // Node drops excess header lines silently: a dropped Accept would get another form (law 1: what is keyed is sent).
  if (rawHeaders.length > 2 * maxHeaderLines) {
    throw webFrameworkError(431, `too many header lines: expected at most ${maxHeaderLines}`)
  }
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  // RFC 9112, section 3.2; Node's own check would not answer in the node's error shape.
  if (hosts !== 1 && (hosts !== 0 || httpVersion !== '1.0')) {
    throw webFrameworkError(400, 'expected one Host header', ['connection', 'close'])
  }
  // Node answers 100-continue itself.
  if ((headers.expect ?? '100-continue').toLowerCase() !== '100-continue') {
    throw webFrameworkError(417, 'unknown expectation: expected 100-continue')
  }
  // A small compressed body could decompress to any size before it is keyed (law 10: nothing grows without bound).
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
