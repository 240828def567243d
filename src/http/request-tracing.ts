import { type IncomingHttpHeaders } from 'node:http'
import { type EndpointLabel } from '../metrics/metrics.js'
import { type OutcomeName } from '../proxy/outcomes.js'
import { type ClientResponse } from '../proxy/response-builder.js'
import { type ResponseSource } from '../api/upstream-response.js'
import { type RecordedSpan, type Tracer, type ParentContext } from '../tracing/tracer.js'
import { type RequestSource } from './client-address.js'
import { rawHeaderValueOf, type RecordedRequest } from './http-exchange.js'

/** Traces client requests. */
export type RequestTracer = Tracer<RequestSource>

// Outcomes of requests that waited for an upstream.
const upstreamOutcomes = new Set<OutcomeName>(['miss', 'collapsed', 'forwarded', 'unavailable'])

/** Begins the trace of a request, within the trace that its client names; returns its root span. */
export function beginTrace (tracer: RequestTracer, request: RequestSource, receivedAtMs: number): RecordedSpan {
  return tracer.begin(request, receivedAtMs, parentContextOf(request.headers))
}

/** Ends the trace of a request when its response is sent. */
export function endTrace (
  tracer: RequestTracer,
  { request, method, url, receivedAtMs, id }: RecordedRequest,
  endpoint: EndpointLabel,
  outcome: OutcomeName,
  { status, rawHeaders }: ClientResponse,
  source: ResponseSource | undefined
): void {
  tracer.finish(request, receivedAtMs, () => parentContextOf(request.headers), {
    name: `${method} ${endpoint}`,
    usedUpstream: upstreamOutcomes.has(outcome),
    failure: status >= 500 ? `status ${status}` : undefined,
    attributes: {
      'http.request.method': method,
      // Leaves out the query, which may hold a client's key.
      'url.path': url.split('?', 1).join(''),
      'http.response.status_code': status,
      'varve.endpoint': endpoint,
      'varve.outcome': outcome,
      'varve.cache_status': rawHeaderValueOf(rawHeaders, 'cache-status'),
      'varve.upstream': source?.upstream,
      'varve.request_id': id
    }
  })
}

// Matches version, trace id, parent id and flags, none all zero (W3C Trace Context, section 3.2). Excludes commas,
// which join repeated headers.
const traceparentPattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-[\x21-\x2b\x2d-\x7e]*)?$/
// Longest value that is parsed; no tracer sends longer ones.
const maxLength = 512

/** Returns the trace id in a request's traceparent; undefined if absent or invalid. */
export function traceIdOf (headers: IncomingHttpHeaders): string | undefined {
  return parentContextOf(headers)?.traceId
}

/** Returns trace id and span id in a request's traceparent; undefined if absent or invalid. */
export function parentContextOf ({ traceparent }: IncomingHttpHeaders): ParentContext | undefined {
  if (typeof traceparent !== 'string' || traceparent.length > maxLength) return undefined
  const [, version, traceId, spanId, more] = traceparentPattern.exec(traceparent) ?? []
  if (traceId === undefined || spanId === undefined || (version === '00' && more !== undefined)) return undefined
  return { traceId, spanId }
}
