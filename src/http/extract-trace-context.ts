import { type IncomingHttpHeaders } from 'node:http'
import { type ParentContext } from '../tracing/tracer.js'

// Matches version, trace id, parent id and flags, none all zero (W3C Trace Context, section 3.2). Excludes commas,
// which join repeated headers.
const traceparentPattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-[\x21-\x2b\x2d-\x7e]*)?$/
// Ignores longer values, which no tracer sends.
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
