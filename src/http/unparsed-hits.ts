import { type Server, STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { maxMemoisedBodyBytes } from '../api/request-variant-key.js'
import { type ParsedRequest } from '../proxy/parsed-request.js'
import { type ClientResponse, type ResponsePreferences, type ResponseBuilder } from '../proxy/response-builder.js'
import { outcomeNameOf } from '../proxy/outcomes.js'
import { type ProxyContext } from '../proxy/proxy-context.js'
import { serveFromMemory } from '../proxy/serve-read.js'
import {
  type HttpExchange,
  type KnownRequest,
  type KnownRequestCache,
  printLines,
  requestIdHeader
} from './http-exchange.js'
import { type BypassedConnection, bypassedConnectionOf, idleChunkEvent } from './parser-bypass.js'
import { responsePreferencesOf } from './request-checks.js'
import { type ListenerContext, perRequestHeaders, recordResponse } from './send-response.js'
import { type ConnectionLimiter } from './connection-limiter.js'
import { serverTimeouts } from './listener.js'

// Limits the head of a known request (law 10: nothing grows without bound).
const maxHeadBytes = 2048

// Size of the largest known request, with its body.
const maxKnownBytes = maxHeadBytes + maxMemoisedBodyBytes

// Keeps credentials out of the keys, and leaves heads to Node that change its handling of the connection.
const excludedHeaders = [
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'cookie',
  'traceparent',
  requestIdHeader,
  'expect',
  'upgrade',
  'transfer-encoding'
]

/** Returns true if equal bytes ask for the same on any connection, and carry no credential. */
function isRepeatable ({ request: { headers, httpVersion }, response, method }: HttpExchange): boolean {
  return httpVersion === '1.1' && response.shouldKeepAlive &&
    (method === 'POST' || headers['content-length'] === undefined) &&
    excludedHeaders.every(name => headers[name] === undefined)
}

/** Returns true if the bytes of a request are few enough to remember. */
function isShort (chunk: Buffer, { request: { headers } }: HttpExchange): boolean {
  return chunk.length <= maxKnownBytes && chunk.length - Number(headers['content-length'] ?? 0) <= maxHeadBytes
}

/** Serves hits of known bytes before Node parses them; everything else goes to Node untouched. */
export class UnparsedHits {
  readonly #context: ListenerContext
  readonly #cache: KnownRequestCache
  readonly #writer: HitWriter

  constructor (context: ListenerContext, cache: KnownRequestCache) {
    this.#context = context
    this.#cache = cache
    this.#writer = new HitWriter(context.clients)
  }

  install (server: Server): void {
    server.on(idleChunkEvent, (connection: BypassedConnection, chunk: Buffer) => {
      connection.isTaken = this.#tryServe(connection.socket, chunk)
    })
  }

  /** Remembers the bytes of a request that memory answered, if it is all that its chunk holds. */
  remember (exchange: HttpExchange, parsed: ParsedRequest, response: ClientResponse): void {
    const connection = bypassedConnectionOf(exchange.request.socket)
    if (connection === undefined || !isRepeatable(exchange) || !canWrite(response)) return
    connection.whenWhole(exchange.request, chunk => {
      if (!isShort(chunk, exchange)) return
      const { request: { headers }, method, url } = exchange
      const preferences = responsePreferencesOf(headers)
      this.#cache.put(keyOf(chunk), { parsed, method, url, preferences, origin: headers.origin })
    })
  }

  #tryServe (socket: Socket, chunk: Buffer): boolean {
    const context = this.#context
    // Drained connections close with their next response, which Node does.
    if (chunk.length > maxKnownBytes || context.drain.isDraining) return false
    const key = keyOf(chunk)
    const known = this.#cache.get(key)
    if (known === undefined) return false
    const receivedAtMs = context.proxy.now()
    const found = this.#respond(known)
    if (found === undefined) return false
    const { endpoint, outcome, response } = found
    if (!canWrite(response)) {
      this.#cache.delete(key)
      return false
    }
    const { method, url, origin } = known
    const tookMs = context.proxy.now() - receivedAtMs
    const id = context.requestIds.next()
    this.#writer.write(socket, method, response, perRequestHeaders(context, method, origin), id)
    const recorded = { method, url, client: undefined, sender: undefined, tookMs, id, traceId: undefined }
    recordResponse(context, recorded, endpoint, outcome, response)
    return true
  }

  #respond ({ parsed, preferences }: KnownRequest): ReturnType<typeof respondFromMemory> {
    try {
      return respondFromMemory(this.#context, parsed, preferences)
    } catch {
      // Leaves failures to the router, which reports them.
      return undefined
    }
  }
}

function keyOf (chunk: Buffer): string {
  return chunk.toString('latin1')
}

function canWrite ({ headerText, rest, body }: ClientResponse): boolean {
  return headerText !== undefined && rest === undefined && (body?.length ?? 0) <= maxHitBodyBytes
}

// Largest body that is written at once: of longer ones Node would report no progress (connection-limiter.ts).
const maxHitBodyBytes = 128 * 1024

// Head and body up to this size leave in one write; larger bodies by `writev`, which copies nothing.
const maxCopiedBytes = 16 * 1024
const bufferBytes = maxCopiedBytes + 8 * 1024
const keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${
  Math.floor(serverTimeouts.keepAliveTimeout / 1000)
}\r\n\r\n`
const emptyBody = Buffer.alloc(0)

/** Writes responses of cached headers to idle connections, with the lines that Node's own printer adds. */
class HitWriter {
  readonly #clients: ConnectionLimiter
  readonly #statusLines = new Map<number, string>()
  // Shared by all responses, since the kernel mostly takes a response before the write returns.
  #buffer = Buffer.allocUnsafeSlow(bufferBytes)
  #dateSecond = NaN
  #lastLines = ''

  constructor (clients: ConnectionLimiter) {
    this.#clients = clients
  }

  write (
    socket: Socket,
    method: string,
    response: ClientResponse,
    extraHeaders: readonly string[],
    requestId: string
  ): void {
    const { status, headerText = '', body } = response
    const length = body === undefined ? '' : `content-length: ${body.length}\r\n`
    const head = `${this.#statusLine(status)}${headerText}${requestIdHeader}: ${requestId}\r\n${length}` +
      printLines(extraHeaders) + this.#currentLastLines()
    const sent = body === undefined || method === 'HEAD' ? emptyBody : body
    if (sent.length > maxCopiedBytes || head.length > bufferBytes - maxCopiedBytes || socket instanceof TLSSocket) {
      socket.cork()
      socket.write(head, 'latin1')
      if (sent.length > 0) socket.write(sent)
      socket.uncork()
    } else {
      const headLength = this.#buffer.write(head, 0, 'latin1')
      sent.copy(this.#buffer, headLength)
      socket.write(this.#buffer.subarray(0, headLength + sent.length))
      // Leaves the buffer to the socket until its bytes are sent.
      if (socket.writableLength > 0) this.#buffer = Buffer.allocUnsafeSlow(bufferBytes)
    }
    if (socket.writableLength > 0) this.#clients.trackUnsent(socket, sent)
  }

  #statusLine (status: number): string {
    let line = this.#statusLines.get(status)
    if (line === undefined) this.#statusLines.set(status, line = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`)
    return line
  }

  #currentLastLines (): string {
    const now = new Date()
    const second = Math.floor(now.getTime() / 1000)
    if (second !== this.#dateSecond) {
      this.#dateSecond = second
      this.#lastLines = `Date: ${now.toUTCString()}\r\n${keepAliveLines}`
    }
    return this.#lastLines
  }
}

/**
 * Returns the response to a parsed request if memory may serve it at this moment. Each hit before the router is decided
 * here, at each look-up again.
 */
export function respondFromMemory (
  { proxy, responseBuilder }: { readonly proxy: ProxyContext, readonly responseBuilder: ResponseBuilder },
  parsed: ParsedRequest,
  preferences: ResponsePreferences
) {
  parsed.recordRequestedVersion(proxy)
  const { endpoint: { name: endpoint } } = parsed.read
  const memo = parsed.getMemo(proxy, preferences)
  if (memo !== undefined) return { endpoint, outcome: parsed.memoOutcome, response: memo }
  const hit = serveFromMemory(proxy, parsed)
  if (hit === undefined) return undefined
  const response = responseBuilder.respond(parsed.read, hit, preferences)
  parsed.memoise(proxy, hit, preferences, response)
  return { endpoint, outcome: outcomeNameOf(hit), response }
}
