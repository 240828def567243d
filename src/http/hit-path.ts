import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { minVersionHeader } from '../api/read-request.js'
import { type EndpointLabel } from '../metrics/metrics.js'
import { type ParsedRequest, maxMemoisedBodyBytes, variantKeyOf } from '../proxy/parsed-request.js'
import { type ClientResponse } from '../proxy/response-builder.js'
import { type OutcomeName, outcomeNameOf } from '../proxy/outcomes.js'
import { serveFromMemory } from '../proxy/serve-read.js'
import { type RequestSource } from './client-address.js'
import {
  type HttpExchange,
  printLines,
  requestIdHeader,
  bypassesFollowing,
  checkRequest,
  responsePreferencesOf
} from './http-exchange.js'
import { bypassedConnectionOf, pauseReading, resumeReading } from '../node.js'
import { type ListenerContext, perRequestHeaders, recordResponse, sendFailure, sendResponse } from './send-response.js'
import { type ServeDirectly } from './read-routes.js'
import { type ConnectionLimiter } from './connection-limiter.js'
import { serverTimeouts } from './listener.js'

/** Listener of Node's server for requests. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse) => void

/** Response from memory, with the names under which it is counted. */
interface MemoryHit {
  readonly endpoint: EndpointLabel
  readonly outcome: OutcomeName
  readonly response: ClientResponse
}

/**
 * Serves hits ahead of the router: to requests that Node has parsed, and to known bytes, which Node need not parse
 * again. Serves most other reads past the router, which gets the remaining requests and the errors of hits.
 */
export class HitPath {
  readonly #context: ListenerContext
  readonly #idOf: (request: IncomingMessage) => string
  readonly #serveDirectly: ServeDirectly
  readonly #passToRouter: RequestListener
  readonly #pipelineQueue: PipelineQueue
  readonly #writer: HitWriter
  readonly #ignored: readonly string[]
  readonly #excludedHeaders: readonly string[]
  readonly #textOf: (bytes: Buffer) => string | undefined

  constructor (
    context: ListenerContext,
    idOf: (request: IncomingMessage) => string,
    serveDirectly: ServeDirectly,
    passToRouter: RequestListener
  ) {
    this.#context = context
    this.#idOf = idOf
    this.#serveDirectly = serveDirectly
    this.#passToRouter = passToRouter
    this.#pipelineQueue = new PipelineQueue(() => context.metrics.connectionCut('pipelining'))
    this.#writer = new HitWriter(context.clients)
    this.#ignored = ignoredHeadersOf(context)
    this.#excludedHeaders = [...excludedHeaders, ...uniqueHeaders.filter(name => !this.#ignored.includes(name))]
    this.#textOf = requestTextReader(this.#ignored, Math.min(maxHeadBytes, context.config.limits.headerKb * 1024))
  }

  /** Serves a request that Node has parsed, after all earlier ones of its connection. */
  serve (request: IncomingMessage, response: ServerResponse): void {
    bypassedConnectionOf(request.socket)?.began(request)
    // Waits for the socket, which Node assigns once all earlier responses of the connection are sent.
    if (response.socket !== null) this.#serveNow(request, response)
    else this.#pipelineQueue.enqueue(request, response, () => this.#serveNow(request, response))
  }

  #serveNow (request: IncomingMessage, response: ServerResponse): void {
    const { url = '', method = '' } = request
    const receivedAtMs = this.#context.proxy.now()
    const exchange = { request, response, url, method, receivedAtMs, id: this.#idOf(request) }
    // Waits a tick, because a small body mostly arrives with its head, and is parsed after the head.
    if (method === 'POST') {
      process.nextTick(() => {
        if (!this.#tryServeWithBody(exchange)) this.#passToRouter(request, response)
      })
    } else if (!this.#tryServe(exchange, undefined) && !this.#serveDirectly(exchange, undefined)) {
      this.#passToRouter(request, response)
    }
  }

  #tryServeWithBody (exchange: HttpExchange): boolean {
    const { request } = exchange
    const length = request.readableLength
    const isWholeBody = length > 0 && length <= maxMemoisedBodyBytes &&
      String(length) === request.headers['content-length']
    const body: unknown = isWholeBody ? request.read() : null
    if (!Buffer.isBuffer(body)) return false
    if (!this.#tryServe(exchange, body) && !this.#serveDirectly(exchange, body)) {
      // Puts the body back within the tick, before the router reads it.
      request.unshift(body)
      return false
    }
    request.resume()
    return true
  }

  #tryServe (exchange: HttpExchange, body: Buffer | undefined): boolean {
    const context = this.#context
    try {
      const parsed = this.#findParsed(exchange, body)
      const hit = parsed && this.#findHit(parsed, exchange.request)
      if (parsed === undefined || hit === undefined) return false
      sendResponse(context, exchange, hit.endpoint, hit.outcome, hit.response)
      this.#remember(exchange, parsed, hit.response)
      return true
    } catch (error) {
      // Leaves failures to the router while no byte of a response is written.
      if (exchange.response.headersSent) sendFailure(context, exchange, error)
      return exchange.response.headersSent
    }
  }

  /** Returns the parsed form of a valid request; undefined if it is unknown or the router must serve it. */
  #findParsed (
    { request, url: target, method }: HttpExchange,
    body: Buffer | undefined
  ): ParsedRequest | undefined {
    const { headers } = request
    const variantKey = variantKeyOf({
      method,
      target,
      accept: headers.accept,
      contentType: headers['content-type'],
      body
    })
    const parsed = variantKey === undefined ? undefined : this.#context.knownRequests.get(variantKey)?.parsed
    // Leaves to the router: minimum versions, which are in no variant key and may wait, and a GET with a chunked body.
    if (
      parsed === undefined || headers[minVersionHeader] !== undefined || headers['transfer-encoding'] !== undefined ||
      bypassesFollowing(parsed.read, headers)
    ) {
      return undefined
    }
    checkRequest(request)
    return parsed
  }

  /** Charges the client, and returns the response if memory may serve it now. Every hit is decided here. */
  #findHit (
    parsed: ParsedRequest,
    request: RequestSource,
    isUsable: (response: ClientResponse) => boolean = () => true
  ): MemoryHit | undefined {
    const { access } = this.#context
    if (!access.chargeHit(request)) return undefined
    let hit: MemoryHit | undefined
    try {
      hit = this.#respondFromMemory(parsed, request)
      if (hit !== undefined && !isUsable(hit.response)) hit = undefined
    } finally {
      // Refunds a request that is no hit, because the router charges it again.
      if (hit === undefined) access.refundHit(request)
    }
    return hit
  }

  #respondFromMemory (parsed: ParsedRequest, { headers }: RequestSource): MemoryHit | undefined {
    const { proxy, responseBuilder } = this.#context
    const preferences = responsePreferencesOf(headers)
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

  /** Remembers the bytes of a request that memory answered, if the request is all that its chunk holds. */
  #remember (exchange: HttpExchange, parsed: ParsedRequest, response: ClientResponse): void {
    const { request, method, url } = exchange
    const connection = bypassedConnectionOf(request.socket)
    if (connection === undefined || !isRepeatable(exchange, this.#excludedHeaders) || !canWrite(response)) return
    connection.whenWhole(request, chunk => {
      const { headers, headersDistinct } = request
      const text = this.#textOf(chunk)
      // Leaves repeated header lines to Node, which joins some and drops others.
      const isRepeated = varyingHeaders.some(name => (headersDistinct[name]?.length ?? 0) > 1)
      if (text === undefined || isRepeated) return
      // Copies the text, which shares the memory of the whole chunk (law 10: nothing grows without bound).
      const copy = Buffer.from(text, 'latin1').toString('latin1')
      this.#context.knownRequests.put(copy, { parsed, sent: { method, url, headers: this.#headersReadOf(headers) } })
    })
  }

  /** Picks the headers that a hit reads in addition to those that chose its read. */
  #headersReadOf (headers: IncomingHttpHeaders): IncomingHttpHeaders {
    return Object.fromEntries(readHeaders.flatMap(name => this.#ignored.includes(name) ? [] : [[name, headers[name]]]))
  }

  /** Serves a chunk of known bytes on an idle connection; returns false to leave it to Node's parser. */
  serveBytes (socket: Socket, chunk: Buffer): boolean {
    const context = this.#context
    // Leaves drained connections to Node, which closes them with their next response.
    if (context.drain.isDraining) return false
    const text = this.#textOf(chunk)
    const known = text === undefined ? undefined : context.knownRequests.get(text)
    if (known?.sent === undefined) return false
    const { parsed, sent: { method, url, headers } } = known
    const request: RequestSource = { socket, headers }
    const receivedAtMs = context.proxy.now()
    let hit: MemoryHit | undefined
    try {
      hit = this.#findHit(parsed, request, canWrite)
    } catch {
      // Leaves failures to the router, which reports them.
    }
    if (hit === undefined) return false
    const { endpoint, outcome, response } = hit
    const id = context.requestIds.next()
    const tookMs = context.proxy.now() - receivedAtMs
    this.#writer.write(socket, method, response, perRequestHeaders(context, method, headers.origin, response), id)
    recordResponse(context, { request, method, url, receivedAtMs, id }, tookMs, endpoint, outcome, response)
    return true
  }
}

// Limits the head of a known request (law 10: nothing grows without bound).
const maxHeadBytes = 2048

// Size of the largest known request, with its body.
const maxKnownBytes = maxHeadBytes + maxMemoisedBodyBytes

// Keeps credentials out of the texts, and leaves heads to Node that change its handling of the connection.
const excludedHeaders = [
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'cookie',
  'expect',
  'upgrade',
  'transfer-encoding'
]

// Headers with a value that no other request has, so bytes with such a header never come again.
const uniqueHeaders = [requestIdHeader, 'traceparent']

// Headers whose values differ from request to request behind a proxy or within one trace.
const varyingHeaders = [
  ...uniqueHeaders,
  'user-agent',
  'referer',
  'x-forwarded-for',
  'x-real-ip',
  'tracestate',
  'x-amzn-trace-id',
  'x-cloud-trace-context',
  'cf-ray',
  'cf-connecting-ip'
]

// Headers that a hit reads besides the ones that chose its read.
const readHeaders = ['accept-encoding', 'if-none-match', 'origin', 'user-agent', 'x-forwarded-for']

/** Lists headers that a hit may ignore, because no feature of this configuration reads their values for a hit. */
function ignoredHeadersOf ({ access, tracer, config: { log, trustProxy } }: ListenerContext): readonly string[] {
  const isBehindProxy = trustProxy.length > 0
  const namesSender = log.access && log.clientAddress
  const read = [
    ...(isBehindProxy ? [requestIdHeader] : []),
    ...(isBehindProxy && (access.limitsHits || namesSender) ? ['x-forwarded-for'] : []),
    ...(namesSender ? ['user-agent'] : []),
    ...(tracer !== undefined || log.access ? ['traceparent'] : [])
  ]
  return varyingHeaders.filter(name => !read.includes(name))
}

// Matches heads whose lines can be read in one way only: one-byte characters, whole line ends, a name at the start of
// each line.
const strictHead = /^[A-Z]+ [\x21-\x7e]+ HTTP\/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e]*\r\n)+$/

/**
 * Returns a function that reads the text of a known request from its bytes, without the values of ignored headers;
 * their names stay, so their number and places count. Undefined for bytes that are no head in strict form. The path
 * that learns and the path that serves use the same function (law 15: bytes mean what the one parser that framed them
 * says).
 */
function requestTextReader (ignored: readonly string[], maxHead: number): (bytes: Buffer) => string | undefined {
  const ignoredName = new RegExp(`\\r\\n(?:${ignored.join('|')}):`, 'gi')
  return bytes => {
    if (bytes.length > maxKnownBytes) return undefined
    const sent = bytes.toString('latin1')
    const end = sent.indexOf('\r\n\r\n') + 2
    const head = sent.slice(0, end)
    if (end > maxHead || !strictHead.test(head)) return undefined
    let text = ''
    let from = 0
    ignoredName.lastIndex = 0
    while (ignoredName.test(head)) {
      text += sent.slice(from, ignoredName.lastIndex)
      from = ignoredName.lastIndex = head.indexOf('\r\n', ignoredName.lastIndex)
    }
    return text + sent.slice(from)
  }
}

/** Returns true if equal bytes ask for the same on any connection, and carry no credential. */
function isRepeatable (
  { request: { headers, httpVersion }, response, method }: HttpExchange,
  excluded: readonly string[]
): boolean {
  return httpVersion === '1.1' && response.shouldKeepAlive &&
    (method === 'POST' || headers['content-length'] === undefined) &&
    excluded.every(name => headers[name] === undefined)
}

function canWrite ({ headerText, rest, body }: ClientResponse): boolean {
  return headerText !== undefined && rest === undefined && (body?.length ?? 0) <= maxHitBodyBytes
}

// Largest body that is written at once, because Node reports no progress within one write, which connection-limiter.ts
// needs.
const maxHitBodyBytes = 128 * 1024

// Largest head and body that leave in one write; larger bodies leave by `writev`, which copies nothing.
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
  // Buffer of all responses, since the kernel mostly takes a response before the write returns.
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
      // Leaves the buffer to the socket, and takes a new one, while the socket has unsent bytes.
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

type Serve = (request: IncomingMessage, response: ServerResponse) => void

// Exceeds the number of requests that any honest client pipelines.
const maxQueued = 256

/**
 * Serves pipelined requests one at a time. Pauses the socket while one waits, so further bytes stay in the kernel
 * (law 10: nothing grows without bound).
 */
export class PipelineQueue {
  readonly #queued = new WeakMap<Socket, number>()
  readonly #onCut: () => void

  constructor (onCut: () => void) {
    this.#onCut = onCut
  }

  /** Serves a request after all earlier responses of its connection; never if the connection closes first. */
  enqueue (request: IncomingMessage, response: ServerResponse, serve: Serve): void {
    const { socket } = request
    const waiting = this.#queued.get(socket) ?? 0
    this.#queued.set(socket, waiting + 1)
    // Bounds the requests of one read, because Node parses all bytes of a read before it pauses.
    if (waiting === maxQueued) {
      this.#onCut()
      socket.destroy()
    }
    if (waiting === 0) pauseReading(socket)
    response.once('socket', () => {
      const left = (this.#queued.get(socket) ?? 1) - 1
      this.#queued.set(socket, left)
      if (left === 0) resumeReading(socket)
      // Waits a tick, until Node has flushed the response: before that, Node would end the response twice.
      process.nextTick(() => {
        if (socket.writable) serve(request, response)
      })
    })
  }
}
