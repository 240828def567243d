import { ServerResponse, STATUS_CODES } from 'node:http'
import { type ClientResponse } from '../proxy/stamper.js'

/** Node's internal printer of a response head: status line, given headers, then its own (Date, Connection). */
type PrintHead = (this: ServerResponse, firstLine: string, lines: readonly string[]) => void

// Private to Node: without it every head takes the public writeHead. See ARCHITECTURE.md.
const printHead = (ServerResponse.prototype as { readonly _storeHeader?: PrintHead })._storeHeader

/**
 * Writes a response head. Inserts cached header text unchecked: checking and printing it again took a quarter of the
 * time of a hit.
 */
export function writeHead (
  response: ServerResponse,
  { status, rawHeaders, headerText, body }: ClientResponse,
  extraHeaders: readonly string[]
): void {
  const reason = STATUS_CODES[status] ?? 'unknown'
  if (printHead === undefined || headerText === undefined || body === undefined) {
    // Passes the reason: a head that Node rejects would otherwise leave its reason on the error response.
    response.writeHead(
      status,
      reason,
      (extraHeaders.length === 0 ? rawHeaders : rawHeaders.concat(extraHeaders)) as string[]
    )
    return
  }
  response.statusCode = status
  printHead.call(response, `HTTP/1.1 ${status} ${reason}\r\n${headerText}`, [
    'content-length',
    String(body.length),
    ...extraHeaders
  ])
}
