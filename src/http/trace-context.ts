import { type IncomingHttpHeaders } from 'node:http'

// Matches version, trace id, parent id and flags, none all zero (W3C Trace Context, section 3.2). Excludes commas,
// which join repeated headers.
const traceparentPattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[\x21-\x2b\x2d-\x7e]*)?$/
// Ignores longer values, which no tracer sends.
const maxLength = 512

/** Returns the trace id in a request's traceparent; undefined if absent or invalid. */
export function traceIdOf ({ traceparent }: IncomingHttpHeaders): string | undefined {
  if (typeof traceparent !== 'string' || traceparent.length > maxLength) return undefined
  const [, version, traceId, more] = traceparentPattern.exec(traceparent) ?? []
  return version === '00' && more !== undefined ? undefined : traceId
}
