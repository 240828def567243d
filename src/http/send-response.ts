import { type ServerResponse, STATUS_CODES } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { type Logger } from 'pino'
import { type TokenBuckets } from '../clients/token-buckets.js'
import { type Config } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { type Endpoint } from '../api/endpoints.js'
import { type EndpointLabel, type Metrics } from '../metrics/metrics.js'
import { type KnownRequestCache, knownRequestCache } from '../proxy/parsed-request.js'
import { outcomeOfErrorStatus, type OutcomeName } from '../proxy/outcomes.js'
import { type ForwardParts } from '../proxy/forward-unknown-route.js'
import { type AwaitParts } from '../proxy/wait-for-transaction.js'
import { type ClientResponse, ResponseBuilder } from '../proxy/response-builder.js'
import { matchEndpoint } from '../api/read-request.js'
import { type RemainingBody, type ResponseSource } from '../api/upstream-response.js'
import { type AccessField, accessFields } from '../config/access-fields.js'
import { writePrintedHead } from '../node.js'
import { ClientPolicies } from './client-policies.js'
import { type Certificate } from './certificate.js'
import { type ConnectionLimiter } from './connection-limiter.js'
import { Cors } from './cors.js'
import { type DrainFlag } from './listener.js'
import {
  type HttpExchange,
  rawHeaderValueOf,
  type RecordedRequest,
  requestIdHeader,
  type RequestIds
} from './http-exchange.js'
import { toErrorResponse } from './client-errors.js'
import { traceIdOf, endTrace, type RequestTracer } from './request-tracing.js'

/** Parts of the public listener that a reload leaves in place. */
export interface ListenerParts {
  readonly buckets: TokenBuckets
  readonly metrics: Metrics
  readonly log: Logger
  readonly requestIds: RequestIds
  /** Present only if `tracing.otlpUrl` is set. */
  readonly tracer?: RequestTracer | undefined
  /** Marks every response with the sandbox header (law 14: made-up data is never served by accident). */
  readonly isSandbox: boolean
  readonly drain: DrainFlag
  readonly clients: ConnectionLimiter
  /** Present only on a TLS listener. */
  readonly certificate?: Certificate | undefined
}

/** Parts that serve reads and unknown routes. */
export type ProxyParts = AwaitParts & ForwardParts

/** Parts of the public listener by one configuration. */
export interface ListenerContext extends ListenerParts {
  readonly config: Config
  readonly proxy: ProxyParts
  readonly knownRequests: KnownRequestCache
  readonly access: ClientPolicies
  readonly responseBuilder: ResponseBuilder
  readonly cors: Cors
}

/** Builds the parts that one configuration decides. */
export function listenerContextOf (parts: ListenerParts, config: Config, proxy: ProxyParts): ListenerContext {
  const cors = new Cors(config.cors.origins)
  return {
    ...parts,
    config,
    proxy,
    knownRequests: knownRequestCache(config.cache.memory.maxMb * bytesPerMb),
    access: new ClientPolicies(config, parts.buckets),
    responseBuilder: new ResponseBuilder(
      proxy,
      config.downstream.cacheControl,
      config.clients.required,
      cors.dependsOnOrigin
    ),
    cors
  }
}

const chunkBytes = 64 * 1024
const noHeaders: readonly string[] = []
/** Header of every sandbox response (law 14: made-up data is never served by accident). */
export const sandboxHeader = ['X-Varve-Sandbox', 'true'] as const
const emptyBody = Buffer.alloc(0)
// Limits the logged user agent to what programs say of themselves, since clients may send any text.
const maxUserAgentChars = 256

/** Sends, counts and logs a response; all responses of the public listener's routes pass here. */
export function sendResponse (
  context: ListenerContext,
  exchange: HttpExchange,
  endpoint: EndpointLabel,
  outcome: OutcomeName,
  prepared: ClientResponse,
  source?: ResponseSource
): void {
  const { request, response, method, receivedAtMs, id } = exchange
  const tookMs = context.proxy.now() - receivedAtMs
  writeHead(response, prepared, perRequestHeaders(context, method, request.headers.origin, prepared), id)
  writeBody(context.clients, prepared, method, response)
  recordResponse(context, exchange, tookMs, endpoint, outcome, prepared, source)
}

/** Counts, logs and traces a response. */
export function recordResponse (
  { access, config: { log: settings }, metrics, log, requestIds, tracer }: ListenerContext,
  recorded: RecordedRequest,
  tookMs: number,
  endpoint: EndpointLabel,
  outcome: OutcomeName,
  prepared: ClientResponse,
  source?: ResponseSource
): void {
  const { request, method, url, id } = recorded
  const client = access.clientNameOf(request)
  if (tracer !== undefined) endTrace(tracer, recorded, endpoint, outcome, prepared, source)
  const bytes = bodyBytesOf(prepared, method)
  metrics.answered(endpoint, outcome, prepared.status, tookMs / 1000, bytes, client)
  if (!settings.access) return
  const sender = settings.clientAddress ? request : undefined
  const line = accessLineOf(settings, {
    id,
    traceId: traceIdOf(request.headers),
    method,
    url,
    client,
    clientAddress: sender && access.addressOf(sender),
    userAgent: sender?.headers['user-agent']?.slice(0, maxUserAgentChars),
    endpoint,
    outcome,
    status: prepared.status,
    cacheStatus: rawHeaderValueOf(prepared.rawHeaders, 'cache-status'),
    upstream: source?.upstream,
    attempts: source?.attempts,
    bytes,
    tookMs: Math.round(tookMs * 1000) / 1000
  }, requestIds.nextLineNumber())
  if (line !== undefined) log.info(line, 'request completed')
}

/**
 * Answers a failed request, on a known endpoint with the current position, and reports unexpected errors. Closes the
 * connection if a response has begun or the answer fails too, because the client would wait.
 */
export function sendFailure (
  context: ListenerContext,
  exchange: HttpExchange,
  error: unknown,
  known?: Endpoint
): void {
  const { access, metrics, responseBuilder } = context
  const { request, response, url, method, id } = exchange
  const errorResponse = toErrorResponse(error)
  const { status } = errorResponse
  const logFields = { id, traceId: traceIdOf(request.headers) }
  if (status === 500) reportUnexpectedError(context, error, logFields)
  // Leaves a complete response as it is, although something failed after it was sent.
  if (response.writableEnded) return
  try {
    const endpoint = (known ?? matchEndpoint(url, method)?.endpoint)?.name
    if (status === 429) metrics.limited(access.clientNameOf(request) === undefined ? 'address' : 'key')
    // Hides the position from clients without a required key.
    const hasPosition = endpoint !== undefined && !access.lacksKey(request)
    const prepared = responseBuilder.respondWithError(errorResponse, hasPosition)
    sendResponse(context, exchange, endpoint ?? 'other', outcomeOfErrorStatus(status), prepared)
  } catch (sendError) {
    reportUnexpectedError(context, sendError, logFields)
    response.destroy()
  }
}

/** Logs and counts an unexpected error of a request. */
export function reportUnexpectedError (
  { log, metrics }: Pick<ListenerContext, 'log'> & { readonly metrics: Pick<Metrics, 'process'> },
  error: unknown,
  requestFields: { readonly id?: string, readonly traceId?: string | undefined } = {}
): void {
  metrics.process.unhandled('request')
  log.error({ ...requestFields, err: error }, 'request failed: unexpected error')
}

/** Returns headers that depend on the client and the moment, not on the response; memoised responses lack them. */
export function perRequestHeaders (
  { cors, drain, isSandbox }: ListenerContext,
  method: string,
  origin: string | undefined,
  { rawHeaders }: ClientResponse
): readonly string[] {
  if (origin === undefined && !drain.isDraining) return isSandbox ? sandboxHeader : noHeaders
  // Skips a granted preflight, which already has its CORS headers.
  const granted = origin === undefined || method === 'OPTIONS'
    ? []
    : cors.headersFor(origin, rawHeaders)
  return [...(isSandbox ? sandboxHeader : noHeaders), ...granted, ...(drain.isDraining ? ['connection', 'close'] : [])]
}

// Returns the bytes of the body; undefined for a streamed body without a length.
function bodyBytesOf ({ status, body, rest, rawHeaders }: ClientResponse, method: string): number | undefined {
  if (isBodiless(method, status)) return 0
  if (rest === undefined) return body?.length ?? 0
  const length = rawHeaderValueOf(rawHeaders, 'content-length')
  return length === undefined ? undefined : Number(length)
}

function writeBody (
  clients: ConnectionLimiter,
  { status, body, rest }: ClientResponse,
  method: string,
  raw: ServerResponse
): void {
  const hasNoBody = isBodiless(method, status)
  if (rest !== undefined && !hasNoBody) return stream(clients, body, rest, raw)
  rest?.destroy()
  if (body === undefined || hasNoBody) raw.end()
  else {
    writeInChunks(clients, body, raw, last => raw.end(last))
    // Counts a short body too if the socket still has unsent bytes.
    if (body.length <= 2 * chunkBytes && (raw.socket?.writableLength ?? 0) > 0) clients.trackBody(raw, body)
  }
}

// Returns true for HEAD, 204 and 304, which have no body, although headers may describe one (RFC 9110, section 6.4.1).
function isBodiless (method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

/**
 * Streams a body. Closes the connection if the upstream breaks off, because the client would take the body for whole.
 */
function stream (
  clients: ConnectionLimiter,
  firstPart: Buffer | undefined,
  rest: RemainingBody,
  raw: ServerResponse
): void {
  const destroyRest = (): void => rest.destroy()
  // Covers a client that leaves before the pipeline starts; the pipeline covers one that leaves later.
  if (raw.destroyed) destroyRest()
  raw.once('close', destroyRest)
  writeInChunks(clients, firstPart ?? emptyBody, raw, last => {
    raw.off('close', destroyRest)
    clients.untrackBody(raw)
    if (last.length > 0) raw.write(last)
    pipeline(rest, raw).catch(() => raw.destroy())
  })
}

/**
 * Writes a long body in chunks, because Node reports no progress within one write: between chunks a slow reader shows.
 */
function writeInChunks (
  clients: ConnectionLimiter,
  body: Buffer,
  raw: ServerResponse,
  onLastChunk: (chunk: Buffer) => void
): void {
  if (body.length > 2 * chunkBytes) clients.trackBody(raw, body)
  let at = 0
  const writeMore = (): void => {
    // Sends up to two chunks at once, because few clients would take two chunks in two steps.
    if (body.length - at <= 2 * chunkBytes) return onLastChunk(at === 0 ? body : body.subarray(at))
    if (raw.write(body.subarray(at, at += chunkBytes))) writeMore()
    else raw.once('drain', writeMore)
  }
  writeMore()
}

/**
 * Writes a response head. Inserts cached header text unchecked: checking and printing it again took a quarter of the
 * time of a hit.
 */
export function writeHead (
  response: ServerResponse,
  { status, rawHeaders, headerText, body }: ClientResponse,
  extraHeaders: readonly string[],
  requestId: string
): void {
  const reason = STATUS_CODES[status] ?? 'unknown'
  if (headerText !== undefined && body !== undefined) {
    const text = `HTTP/1.1 ${status} ${reason}\r\n${headerText}${requestIdHeader}: ${requestId}\r\n`
    const lines = ['content-length', String(body.length), ...extraHeaders]
    if (writePrintedHead(response, status, text, lines)) return
  }
  // Passes the reason phrase: if Node rejects the head, its phrase would stay in `statusMessage`, and the error
  // response would carry it.
  response.writeHead(status, reason, rawHeaders.concat(extraHeaders, requestIdHeader, requestId))
}

/**
 * Returns the fields to log; undefined if the response gets no line. Errors and slow responses always get a line. Other
 * responses get one by their share of consecutive numbers, which is exact and evenly spread.
 */
function accessLineOf (
  { accessFields: chosen, accessSample, accessSlowMs }: Config['log'],
  line: Readonly<Record<AccessField, string | number | undefined>> & {
    readonly status: number,
    readonly tookMs: number
  },
  requestNumber: number
): object | undefined {
  const isAlwaysLogged = line.status >= 400 || line.tookMs >= accessSlowMs
  const isSampled = Math.floor(requestNumber * accessSample) > Math.floor((requestNumber - 1) * accessSample)
  if (!isAlwaysLogged && !isSampled) return undefined
  return Object.fromEntries(
    accessFields.filter(field => chosen === null || chosen.includes(field)).map(field => [field, line[field]])
  )
}
