import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Lines } from './form.js'

// Of a connection, and not of what is sent over it (RFC 9110, section 7.6.1).
const hops = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'te', 'trailer', 'upgrade'])

/** The header lines of a message as they came, in their order. */
export function linesOf ({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): Lines {
  return rawHeaders.flatMap((name, at) => at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ''] as const] : [])
}

/** The value of a header, of several lines the first. */
export function valueOf (lines: Lines, wanted: string): string | undefined {
  return lines.find(([name]) => name.toLowerCase() === wanted)?.[1]
}

/** The lines that are to travel on. */
export function endToEnd (lines: Lines): Lines {
  const named = (valueOf(lines, 'connection') ?? '').toLowerCase().split(',').map(name => name.trim())
  return lines.filter(([name]) => !hops.has(name.toLowerCase()) && !named.includes(name.toLowerCase()))
}

/** Whether a body follows a head at all (RFC 9112, section 6.3). */
export function hasBody (method: string | undefined, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

/**
 * Writes the head of an answer with its own lines and no others, and has the end of the body marked as it was: by its
 * length, by a last chunk, or by the end of the connection, which is how many a gateway does it and no sign that all
 * has come.
 */
export function writeHead (response: ServerResponse, status: number, lines: Lines): void {
  const isMarked = valueOf(lines, 'content-length') !== undefined || valueOf(lines, 'transfer-encoding') !== undefined
  response.sendDate = false
  response.removeHeader('connection')
  if (!isMarked && hasBody(response.req.method, status)) {
    response.removeHeader('transfer-encoding')
    response.shouldKeepAlive = false
  }
  response.writeHead(status, endToEnd(lines).flat())
  // The head leaves at once. Not by flushHeaders, nor with a text: Node would print what is not ASCII in it otherwise
  // than it came.
  response.write(Buffer.alloc(0))
}

/**
 * Breaks an answer off behind what was written of it. Where the end of the connection marks that of the body, only a
 * reset tells that it is not whole.
 */
export function breakOff (response: ServerResponse, lines: Lines): void {
  const isMarked = valueOf(lines, 'content-length') !== undefined || valueOf(lines, 'transfer-encoding') !== undefined
  response.write(Buffer.alloc(0), () => {
    if (isMarked) response.socket?.destroy()
    else response.socket?.resetAndDestroy()
  })
}
