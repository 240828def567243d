import { type IncomingHttpHeaders } from 'node:http'

// A version, a trace, what called and its flags, in lower case and none of them nothing; what a later version adds is
// behind that (W3C Trace Context, section 3.2). A comma would be a second line.
const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[\x21-\x2b\x2d-\x7e]*)?$/
// Nobody means anything by a longer one.
const longest = 512

/** The trace that a request belongs to, by its own word; undefined where it says nothing, or nothing valid. */
export function traceIdOf ({ traceparent }: IncomingHttpHeaders): string | undefined {
  if (typeof traceparent !== 'string' || traceparent.length > longest) return undefined
  const [, version, traceId, more] = form.exec(traceparent) ?? []
  return version === '00' && more !== undefined ? undefined : traceId
}
