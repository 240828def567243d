import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type HeaderLines } from './recording-format.js'

// Connection headers are not forwarded (RFC 9110, section 7.6.1).
const hopByHopNames = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade'
])

/** Returns the headers as received, in order. */
export function headerLinesOf ({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): HeaderLines {
  return rawHeaders.flatMap((name, at) => at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ''] as const] : [])
}

/** Returns the first value of a header. */
export function firstHeaderValue (lines: HeaderLines, wanted: string): string | undefined {
  return lines.find(([name]) => name.toLowerCase() === wanted)?.[1]
}

/** Removes connection headers. */
export function endToEndHeaders (lines: HeaderLines): HeaderLines {
  const named = (firstHeaderValue(lines, 'connection') ?? '').toLowerCase().split(',').map(name => name.trim())
  return lines.filter(([name]) => !hopByHopNames.has(name.toLowerCase()) && !named.includes(name.toLowerCase()))
}

/** Responses to HEAD and statuses 204 and 304 have no body (RFC 9112, section 6.3). */
export function hasBody (method: string | undefined, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

/** Writes the head unchanged and ends the body as the upstream did: by length, chunks or connection close. */
export function writeVerbatimHead (response: ServerResponse, status: number, lines: HeaderLines): void {
  const isMarked = firstHeaderValue(lines, 'content-length') !== undefined ||
    firstHeaderValue(lines, 'transfer-encoding') !== undefined
  response.sendDate = false
  response.removeHeader('connection')
  if (!isMarked && hasBody(response.req.method, status)) {
    response.removeHeader('transfer-encoding')
    response.shouldKeepAlive = false
  }
  response.writeHead(status, endToEndHeaders(lines).flat())
  // Sends the head at once; flushHeaders or a text would make Node.js encode non-ASCII bytes differently.
  response.write(Buffer.alloc(0))
}

/** Aborts a response; if connection close ends the body, only a reset shows that it is incomplete. */
export function abortResponse (response: ServerResponse, lines: HeaderLines): void {
  const isMarked = firstHeaderValue(lines, 'content-length') !== undefined ||
    firstHeaderValue(lines, 'transfer-encoding') !== undefined
  response.write(Buffer.alloc(0), () => {
    if (isMarked) response.socket?.destroy()
    else response.socket?.resetAndDestroy()
  })
}
