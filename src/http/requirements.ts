import { type IncomingMessage } from 'node:http'
import { Refusal } from '../api/refusal.js'

/** So many header lines are read of a request, and no more. */
export const mostLines = 1000

/**
 * Node drops what is over without a word: a form, a least version or a coding could stand there, and the answer would
 * be to another request.
 */
function requireAllLines ({ rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length > 2 * mostLines) {
    throw new Refusal(431, 'web_framework_error', 'there are too many header lines')
  }
}

/** One Host and no more (RFC 9112, section 3.2); Node would refuse its absence too, but not in the node's shape. */
function requireHost ({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return
  throw new Refusal(400, 'web_framework_error', 'expected one Host header', ['connection', 'close'])
}

/** Node itself says 100; any other expectation would be broken. */
function requireKnownExpectation ({ headers }: IncomingMessage): void {
  if ((headers.expect ?? '100-continue').toLowerCase() !== '100-continue') {
    throw new Refusal(417, 'web_framework_error', 'the only expectation that is known is 100-continue')
  }
}

/** A body that must be unpacked before it can be keyed could be unpacked to anything: refused on purpose. */
function requirePlainBody ({ headers }: IncomingMessage): void {
  const isPlain = (headers['content-encoding'] ?? 'identity') === 'identity' &&
    (headers['transfer-encoding'] ?? 'chunked').toLowerCase() === 'chunked'
  if (!isPlain) {
    throw new Refusal(415, 'web_framework_error', 'a compressed request body is not supported')
  }
}

/** Everything that is required of a request whatever it asks for. */
export function requirePlain (request: IncomingMessage): void {
  requireAllLines(request)
  requireHost(request)
  requireKnownExpectation(request)
  requirePlainBody(request)
}
