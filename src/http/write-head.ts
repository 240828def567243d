import { ServerResponse, STATUS_CODES } from 'node:http'
import { type Reply } from '../proxy/stamp.js'

/**
 * The part of Node's writeHead that prints: a first line, then lines that it checks and prints one by one, then its own
 * (Date, Connection, Keep-Alive).
 */
type Print = (this: ServerResponse, firstLine: string, lines: readonly string[]) => void

// No promise of Node's, though it has been there since its first days: where it is not, every head goes the long way.
// See ARCHITECTURE.md.
const print = (ServerResponse.prototype as { readonly _storeHeader?: Print })._storeHeader

/**
 * Writes the head of an answer. Lines that were printed and checked before, as those of what is kept are, go in as they
 * are, behind the first line: to check and print each of more than twenty anew took a quarter of the time of a hit. All
 * else about a response stays Node's own, but for what `setHeader` was told: nobody here does.
 */
export function writeHead (
  response: ServerResponse,
  { status, lines, text, body }: Reply,
  more: readonly string[]
): void {
  const reason = STATUS_CODES[status] ?? 'unknown'
  if (print === undefined || text === undefined || body === undefined) {
    // The reason in words, or a head that is refused would leave its own behind for that of the error.
    response.writeHead(status, reason, (more.length === 0 ? lines : lines.concat(more)) as string[])
    return
  }
  response.statusCode = status
  print.call(response, `HTTP/1.1 ${status} ${reason}\r\n${text}`, ['content-length', String(body.length), ...more])
}
