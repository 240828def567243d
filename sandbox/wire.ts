import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Reply } from './reply.js'

/** How an answer gets onto the wire: whole, or ended within its body. */
export type Ending = 'whole' | 'half' | 'noLastChunk'

/** Sends an answer with lower-case names and no `connection` line, as the nodes do. */
export function send (response: ServerResponse, reply: Reply, ending: Ending): void {
  const length: Array<[string, string]> = ending === 'noLastChunk'
    ? [['transfer-encoding', 'chunked']]
    : [['content-length', String(reply.body.length)]]
  const own = new Set(reply.headers.map(([name]) => name.toLowerCase()))
  const added = [...length, ['date', new Date().toUTCString()] as const].filter(([name]) => !own.has(name))
  response.sendDate = false
  response.removeHeader('connection')
  // Where the HTTP layer could not read the request, it trusts the connection no more.
  if (reply.headers.length === 0) response.shouldKeepAlive = false
  response.writeHead(reply.status, [...reply.headers, ...added].flat())
  if (ending === 'whole') {
    response.end(reply.body)
    return
  }
  response.flushHeaders()
  const part = ending === 'half' ? reply.body.subarray(0, Math.floor(reply.body.length / 2)) : reply.body
  response.write(part, () => response.socket?.destroy())
}

/** Ends the connection without a byte. */
export function reset (request: IncomingMessage): void {
  request.socket.resetAndDestroy()
}

/** Sends bytes that are not HTTP. */
export function sendGarbage (request: IncomingMessage): void {
  request.socket.end('\u0000\u0001 this is not HTTP\r\n\r\n')
}

/** Reads a body, as far as it comes and as far as it may. */
export async function readBody (request: IncomingMessage, most: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size <= most) chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
