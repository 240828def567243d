import { type ParsedRequestCache } from '../cache/parsed-request-cache.js'
import { type ParsedRequest } from '../proxy/parsed-request.js'
import { type ResponsePreferences } from '../proxy/response-builder.js'
import { maxMemoisedBodyBytes } from '../api/request-variant-key.js'
import { type HttpExchange } from './http-exchange.js'
import { requestIdHeader } from './request-ids.js'

/** A request whose bytes were parsed and answered from memory before. */
export interface KnownRequest {
  readonly parsed: ParsedRequest
  readonly method: string
  readonly url: string
  readonly preferences: ResponsePreferences
  readonly origin: string | undefined
}

/** Known requests by their bytes, as latin1 text. */
export type KnownRequestCache = ParsedRequestCache<KnownRequest>

// Limits the head of a known request (law 10: nothing grows without bound).
const maxHeadBytes = 2048

/** Size of the largest known request, with its body. */
export const maxKnownBytes = maxHeadBytes + maxMemoisedBodyBytes

// Keeps credentials out of the keys, and leaves heads to Node that change its handling of the connection.
const excludedHeaders = [
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'cookie',
  'traceparent',
  requestIdHeader,
  'expect',
  'upgrade',
  'transfer-encoding'
]

/** Returns true if equal bytes ask for the same on any connection, and carry no credential. */
export function isRepeatable ({ request: { headers, httpVersion }, response, method }: HttpExchange): boolean {
  return httpVersion === '1.1' && response.shouldKeepAlive &&
    (method === 'POST' || headers['content-length'] === undefined) &&
    excludedHeaders.every(name => headers[name] === undefined)
}

/** Returns true if the bytes of a request are few enough to remember. */
export function isShort (chunk: Buffer, { request: { headers } }: HttpExchange): boolean {
  return chunk.length <= maxKnownBytes && chunk.length - Number(headers['content-length'] ?? 0) <= maxHeadBytes
}
