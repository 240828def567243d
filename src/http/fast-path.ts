import { type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { serveFromMemory } from '../proxy/serve-read.js'
import { type OutcomeName, outcomeNameOf } from '../proxy/outcomes.js'
import { type ClientResponse } from '../proxy/stamper.js'
import { type EndpointName } from '../api/endpoints.js'
import { minVersionHeader } from '../api/min-version.js'
import { maxVariantBodyBytes, variantKeyOf } from '../api/request-variant-key.js'
import { type HttpExchange } from './http-exchange.js'
import { sendFailure, type HttpContext, sendResponse } from './send-response.js'
import { bypassesFollowing, checkRequest } from './request-checks.js'
import { PipelineQueue } from './pipeline-queue.js'
import { responsePreferencesOf } from './response-preferences.js'

/** A response that can be sent without waiting. */
interface FastPathResponse {
  readonly endpoint: EndpointName
  readonly outcome: OutcomeName
  readonly response: ClientResponse
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Serves hits of known request variants before the router. All else, including errors, goes to the router, which
 * applies the same rules.
 */
export function installFastPath (
  server: Server,
  context: HttpContext,
  idOf: (request: IncomingMessage) => string
): void {
  const [passToRouter] = server.listeners('request') as Listener[]
  if (passToRouter === undefined) {
    throw new Error('no request listener: expected the router to be installed before the fast path')
  }
  const pipelineQueue = new PipelineQueue(() => {
    context.metrics.connectionCut('pipelining')
  })
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '', method = '' } = request
    const exchange = { request, response, url, method, receivedAtMs: context.proxy.now(), id: idOf(request) }
    // Waits a tick: a small body mostly arrives with its head, and is parsed after it.
    if (method === 'POST') {
      process.nextTick(() => {
        if (!tryServeWithBody(context, exchange)) passToRouter(request, response)
      })
    } else if (!tryServe(context, exchange, undefined)) passToRouter(request, response)
  }
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    // Node assigns the socket once all earlier responses of the connection are sent.
    if (response.socket === null) pipelineQueue.enqueue(request, response, serve)
    else serve(request, response)
  })
}

function tryServeWithBody (context: HttpContext, exchange: HttpExchange): boolean {
  const { request } = exchange
  const length = request.readableLength
  const isWholeBody = length > 0 && length <= maxVariantBodyBytes &&
    String(length) === request.headers['content-length']
  const body: unknown = isWholeBody ? request.read() : null
  if (!Buffer.isBuffer(body)) return false
  if (!tryServe(context, exchange, body)) {
    // Puts the body back in the same tick, before the router reads it.
    request.unshift(body)
    return false
  }
  request.resume()
  return true
}

function tryServe (context: HttpContext, exchange: HttpExchange, body: Buffer | undefined): boolean {
  try {
    const found = findResponse(context, exchange, body)
    if (found !== undefined) sendResponse(context, exchange, found.endpoint, found.outcome, found.response)
    return found !== undefined
  } catch (error) {
    // Leaves failures to the router while nothing is written.
    if (exchange.response.headersSent) sendFailure(context, exchange, error)
    return exchange.response.headersSent
  }
}

function findResponse (
  context: HttpContext,
  { request, url: target, method }: HttpExchange,
  body: Buffer | undefined
): FastPathResponse | undefined {
  const { headers } = request
  const variantKey = variantKeyOf({
    method,
    target,
    accept: headers.accept,
    contentType: headers['content-type'],
    body
  })
  const parsed = variantKey === undefined ? undefined : context.parsedRequests.get(variantKey)
  // Leaves these to the router: minimum versions are in no variant key and may wait, as may limited clients.
  if (
    parsed === undefined || headers[minVersionHeader] !== undefined || !context.access.isUnrestricted(request) ||
    bypassesFollowing(parsed.read, headers)
  ) {
    return undefined
  }
  checkRequest(request)
  parsed.recordRequestedVersion(context.proxy)
  const preferences = responsePreferencesOf(headers)
  const { endpoint: { name: endpoint } } = parsed.read
  const memo = parsed.getMemo(context.proxy, preferences)
  if (memo !== undefined) return { endpoint, outcome: parsed.memoOutcome, response: memo }
  const hit = serveFromMemory(context.proxy, parsed)
  if (hit === undefined) return undefined
  const response = context.stamper.respond(parsed.read, hit, preferences)
  parsed.memoise(context.proxy, hit, preferences, response)
  return { endpoint, outcome: outcomeNameOf(hit), response }
}
