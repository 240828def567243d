import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type SandboxResponse } from './make-response.js'

/** Ending of a response on the wire: complete, or cut off within the body. */
export type BodyEnding = 'whole' | 'half' | 'noLastChunk'

/** Sends a response with lower-case header names and without a `connection` header, as nodes do. */
export function writeResponse (response: ServerResponse, nodeResponse: SandboxResponse, ending: BodyEnding): void {
  const length: Array<[string, string]> = ending === 'noLastChunk'
    ? [['transfer-encoding', 'chunked']]
    : [['content-length', String(nodeResponse.body.length)]]
  const setNames = new Set(nodeResponse.headers.map(([name]) => name.toLowerCase()))
  const added = [...length, ['date', new Date().toUTCString()] as const].filter(([name]) => !setNames.has(name))
  response.sendDate = false
  response.removeHeader('connection')
  // A response without headers means an unreadable request, after which the connection cannot be reused.
  if (nodeResponse.headers.length === 0) response.shouldKeepAlive = false
  response.writeHead(nodeResponse.status, [...nodeResponse.headers, ...added].flat())
  if (ending === 'whole') {
    response.end(nodeResponse.body)
    return
  }
  response.flushHeaders()
  const part = ending === 'half'
    ? nodeResponse.body.subarray(0, Math.floor(nodeResponse.body.length / 2))
    : nodeResponse.body
  response.write(part, () => response.socket?.destroy())
}

/** Resets the connection without sending a byte. */
export function resetConnection (request: IncomingMessage): void {
  request.socket.resetAndDestroy()
}

/** Sends bytes that are not HTTP. */
export function sendGarbage (request: IncomingMessage): void {
  request.socket.end('\u0000\u0001 this is not HTTP\r\n\r\n')
}

/** Reads a body to its end; discards the chunk that exceeds `maxBytes` and all later ones. */
export async function readBody (request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size <= maxBytes) chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
