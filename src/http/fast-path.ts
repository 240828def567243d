import { type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { minVersionHeader } from '../api/min-version.js'
import { maxMemoisedBodyBytes, variantKeyOf } from '../api/request-variant-key.js'
import { type ParsedRequest } from '../proxy/parsed-request.js'
import { type HttpExchange } from './http-exchange.js'
import { UnparsedHits, respondFromMemory } from './unparsed-hits.js'
import { bypassedConnectionOf } from './parser-bypass.js'
import { sendFailure, type ListenerContext, sendResponse } from './send-response.js'
import { bypassesFollowing, checkRequest, responsePreferencesOf } from './request-checks.js'
import { type ServeDirectly } from './read-routes.js'
import { PipelineQueue } from './pipeline-queue.js'

type Listener = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Serves hits of known request variants before the router, and most other reads past it. All else, including
 * errors of a hit, goes to the router, which applies the same rules.
 */
export function installFastPath (
  server: Server,
  context: ListenerContext,
  idOf: (request: IncomingMessage) => string,
  serveDirectly: ServeDirectly
): void {
  const [passToRouter] = server.listeners('request') as Listener[]
  if (passToRouter === undefined) {
    throw new Error('no request listener: expected the router to be installed before the fast path')
  }
  const pipelineQueue = new PipelineQueue(() => context.metrics.connectionCut('pipelining'))
  // Limits on hits are charged by address, which is not in the bytes, and a trace needs the parsed request.
  const needsParser = context.access.limitsHits || context.tracer !== undefined
  const unparsedHits = context.knownRequests === undefined || needsParser
    ? undefined
    : new UnparsedHits(context, context.knownRequests)
  unparsedHits?.install(server)
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '', method = '' } = request
    const exchange = { request, response, url, method, receivedAtMs: context.proxy.now(), id: idOf(request) }
    // Waits a tick: a small body mostly arrives with its head, and is parsed after it.
    if (method === 'POST') {
      process.nextTick(() => {
        if (!tryServeWithBody(context, unparsedHits, exchange, serveDirectly)) passToRouter(request, response)
      })
    } else if (!tryServe(context, unparsedHits, exchange, undefined) && !serveDirectly(exchange, undefined)) {
      passToRouter(request, response)
    }
  }
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    bypassedConnectionOf(request.socket)?.began(request)
    // Node assigns the socket once all earlier responses of the connection are sent.
    if (response.socket === null) pipelineQueue.enqueue(request, response, serve)
    else serve(request, response)
  })
}

function tryServeWithBody (
  context: ListenerContext,
  unparsedHits: UnparsedHits | undefined,
  exchange: HttpExchange,
  serveDirectly: ServeDirectly
): boolean {
  const { request } = exchange
  const length = request.readableLength
  const isWholeBody = length > 0 && length <= maxMemoisedBodyBytes &&
    String(length) === request.headers['content-length']
  const body: unknown = isWholeBody ? request.read() : null
  if (!Buffer.isBuffer(body)) return false
  if (!tryServe(context, unparsedHits, exchange, body) && !serveDirectly(exchange, body)) {
    // Puts the body back in the same tick, before the router reads it.
    request.unshift(body)
    return false
  }
  request.resume()
  return true
}

function tryServe (
  context: ListenerContext,
  unparsedHits: UnparsedHits | undefined,
  exchange: HttpExchange,
  body: Buffer | undefined
): boolean {
  try {
    const parsed = findParsed(context, exchange, body)
    if (parsed === undefined) return false
    const found = respondFromMemory(context, parsed, responsePreferencesOf(exchange.request.headers))
    if (found === undefined) return false
    sendResponse(context, exchange, found.endpoint, found.outcome, found.response)
    unparsedHits?.remember(exchange, parsed, found.response)
    return true
  } catch (error) {
    // Leaves failures to the router while nothing is written.
    if (exchange.response.headersSent) sendFailure(context, exchange, error)
    return exchange.response.headersSent
  }
}

/** Returns the parsed form of a valid request; undefined if it is unknown or the router must serve it. */
function findParsed (
  context: ListenerContext,
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
  const parsed = variantKey === undefined ? undefined : context.parsedRequests.get(variantKey)
  // Leaves these to the router: minimum versions are in no variant key and may wait, as may limited clients. It reads
  // the chunked body that a GET may have.
  if (
    parsed === undefined || headers[minVersionHeader] !== undefined || headers['transfer-encoding'] !== undefined ||
    !context.access.isUnrestricted(request) || bypassesFollowing(parsed.read, headers)
  ) {
    return undefined
  }
  checkRequest(request)
  return parsed
}
