import { readAccept } from '../../api/accept.js'
import { keysOf } from '../../api/read.js'
import { matchEndpoint, readRequest } from '../../api/read-request.js'
import { decodeBody } from './recorded-body.js'
import { type HeaderLines, type RecordedExchange } from './recording-format.js'
import { targetToRecord } from './redact-secrets.js'
import { firstHeaderValue } from './verbatim-head.js'

/** Request reduced to the parts that are compared. */
export interface RecordedRequest {
  readonly method: string
  readonly target: string
  readonly headers: HeaderLines
  readonly body: Buffer
}

// Request headers that a response may depend on.
const varyingHeaderNames = ['accept', 'accept-encoding', 'if-none-match', 'if-modified-since', 'range', 'origin']

/** Returns the request of a recorded exchange; undefined if its body was left out. */
export function decodeRecordedRequest (
  { method, target, headers, ...body }: RecordedExchange['request']
): RecordedRequest | undefined {
  return body.leftOut === undefined ? { method, target, headers, body: decodeBody(body) } : undefined
}

/** Builds a key that identical requests share, as far as responses can depend on them. */
export function exactKeyOf ({ method, target, headers, body }: RecordedRequest): string {
  return [
    method,
    targetToRecord(target),
    ...varyingHeaderNames.map(name => joinedHeaderValues(headers, name)),
    body.toString('latin1')
  ].join(
    '\n'
  )
}

/** Builds a key that equivalent requests share, by varve's own parser; unknown routes compare by exact text. */
export function semanticKeyOf (request: RecordedRequest): string {
  const { method, headers, body } = request
  const target = targetToRecord(request.target)
  const accept = joinedHeaderValues(headers, 'accept')
  const exactKey = [method, readAccept(accept), target, body.toString('latin1')].join('\n')
  const match = matchEndpoint(target, method)
  if (match === undefined) return exactKey
  try {
    const read = readRequest(match, { method, accept, contentType: firstHeaderValue(headers, 'content-type'), body }, {
      eventsDefault
    })
    return [method, keysOf(read, { id: '', generation: '' }).value].join('\n')
  } catch {
    // Requests that varve rejects may mean anything to an upstream.
    return exactKey
  }
}

// Repeated headers form one list (RFC 9110, section 5.3).
function joinedHeaderValues (headers: HeaderLines, wanted: string): string {
  return headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value).join(', ')
}

// Default page limit of full nodes.
const eventsDefault = 25
