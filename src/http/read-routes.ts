import { type IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { newAttemptBudget } from '../upstreams/upstream-request.js'
import { serveRead } from '../proxy/serve-read.js'
import { serveAwaited } from '../proxy/wait-for-transaction.js'
import { type ReadClient } from '../proxy/pinned-read.js'
import { ParsedRequest, variantKeyOf, type VariantParts } from '../proxy/parsed-request.js'
import { type Outcome, outcomeNameOf, ownCacheStatusOf } from '../proxy/outcomes.js'
import { readAccept } from '../api/accept.js'
import { webFrameworkError } from '../api/error-response.js'
import { type Read } from '../api/read.js'
import {
  type EndpointMatch,
  matchAwaited,
  matchEndpoint,
  type RawRequest,
  readRequest,
  minVersionHeader
} from '../api/read-request.js'
import { forwardedTarget } from '../api/pass-through-target.js'
import { type RequestCharge } from './client-policies.js'
import {
  hijackExchange,
  type HttpExchange,
  bypassesFollowing,
  checkRequest,
  isBackground,
  responsePreferencesOf
} from './http-exchange.js'
import { registerPassThrough } from './pass-through.js'
import { sandboxHeader, sendFailure, type ListenerContext, sendResponse } from './send-response.js'
import { readBody, RequestMemoryBudget, TurnQueue } from './request-body.js'
import { beginTrace } from './request-tracing.js'

// Size above which a body is charged before it is parsed, because parsing costs varve more than most reads cost an
// upstream.
const largeBodyBytes = 16 * 1024
// Bounds parsing in one turn of the event loop to some milliseconds; the body that exceeds the bound ends the turn.
const bodyBytesPerTurn = 256 * 1024
const maxQueuedBodyBytes = 64 * 1024 * 1024
// Bounds reads in one turn of the event loop to some milliseconds, since each turn accepts one connection.
const readsPerTurn = 8

// Limits the wait of background reads for room beside clients, and sets how often they look for it.
const [backgroundWaitMs, lookEveryMs] = [30_000, 100]

// Path of varve's own health check, which no node serves.
const healthPath = '/-/healthz'

const emptyBody = Buffer.alloc(0)

/** Serves a read, with its body if it has one, that needs nothing of the router; returns false for other requests. */
export type ServeDirectly = (exchange: HttpExchange, body: Buffer | undefined) => boolean

/** Routes by the endpoint table, which parses raw targets as nodes do; unknown routes are forwarded. */
export function addReadRoutes (app: FastifyInstance, context: ListenerContext): ServeDirectly {
  const { access, tracer } = context
  const maxBodyBytes = context.config.limits.bodyKb * 1024
  const bodyTurns = new TurnQueue(bodyBytesPerTurn, maxQueuedBodyBytes)
  const readTurns = new TurnQueue(readsPerTurn)
  const requestMemoryBudget = new RequestMemoryBudget(context)
  // Checks access before any of the body is read, by the headers alone.
  app.addHook('onRequest', async (request, reply) => {
    // Exempts preflights, which carry no key.
    const isPreflight = request.method === 'OPTIONS' && context.cors.isPreflight(request.headers)
    try {
      if (!isPreflight && request.routeOptions.url !== healthPath) {
        await access.requireAccess(
          request.raw,
          () => matchEndpoint(request.originalUrl, request.method)?.endpoint.name ?? 'other'
        )
      }
    } catch (error) {
      sendFailure(context, hijackExchange(request, reply, context), error)
    }
  })
  addHealthRoute(app, context)
  // Takes the bytes of a body before it is read.
  app.addHook('preParsing', (request, reply, payload, done) => {
    try {
      requestMemoryBudget.takeBody(request, reply, access.clientIdOf(request.raw))
    } catch (error) {
      sendFailure(context, hijackExchange(request, reply, context), error)
      return
    }
    // Reads even a chunked body without a meaning (RFC 9110, section 9.3.1), because unread chunks of one byte take
    // memory.
    if (isWithoutBody(request)) {
      readBody(request.raw, largeBodyBytes, error => {
        if (error === null) done(null, payload)
        else sendFailure(context, hijackExchange(request, reply, context), error)
      })
    } else done(null, payload)
  })
  const clientOf = (exchange: HttpExchange, read: Read, charge: RequestCharge | undefined): ReadClient => {
    const { request, response, receivedAtMs } = exchange
    const bytes = requestMemoryBudget.of(response, access.clientIdOf(request))
    return {
      id: bytes.clientId,
      bytes,
      admit: isBackground(request.headers)
        ? async () => await admitBackground(context, exchange, read, charge?.admit)
        : charge?.admit,
      span: tracer && beginTrace(tracer, request, receivedAtMs),
      attempts: newAttemptBudget(),
      bypassesFollowing: bypassesFollowing(read, request.headers)
    }
  }
  const serveKnown = async (match: EndpointMatch, exchange: HttpExchange, body: Buffer): Promise<void> => {
    try {
      if (!readTurns.tryStart(1)) await readTurns.waitForTurn(1, exchange.response)
      const charge = access.chargeOf(exchange.request)
      if (match.endpoint.takesBody !== undefined && body.length > largeBodyBytes) {
        await charge?.chargeNow()
        await bodyTurns.waitForTurn(body.length, exchange.response)
      }
      const variant = variantOf(exchange, body)
      const read = readRequest(match, variant)
      const client = clientOf(exchange, read, charge)
      const follower = match.isAwaited === true ? context.proxy.follower : undefined
      const outcome = await (follower === undefined
        ? serveRead(context.proxy, read, client)
        : serveAwaited(context.proxy, follower, read, client, goneSignalOf(exchange)))
      if (outcome.name === 'hit') charge?.refund()
      respond(context, exchange, variant, read, outcome)
    } catch (error) {
      sendFailure(context, exchange, error, match.endpoint)
    }
  }
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<string | undefined> => {
    try {
      const body = bodyOf(request)
      requestMemoryBudget.settleBody(request, reply, access.clientIdOf(request.raw), body.length)
      checkRequest(request.raw)
      if (request.method === 'OPTIONS' && servePreflight(context, request, reply)) return undefined
      const match = matchEndpoint(request.originalUrl, request.method) ?? awaitedMatchOf(context, request)
      if (match === undefined) return forwardedTarget(request.originalUrl, request.method, context.config.passThrough)
      await serveKnown(match, hijackExchange(request, reply, context), body)
    } catch (error) {
      sendFailure(context, hijackExchange(request, reply, context), error)
    }
    return undefined
  }
  registerPassThrough(app, context, requestMemoryBudget, serve)
  // Rejects methods that no route has, and never forwards them.
  app.setNotFoundHandler(async (request, reply) => await serve(request, reply))
  return (exchange, body) => {
    const { request, url, method } = exchange
    const { length } = body ?? emptyBody
    // Leaves to the router: a body beyond the limit, and a request that no endpoint takes.
    const isRead = method === 'GET' ? !announcesBody(request) : length > 0 && length <= maxBodyBytes
    if (!isRead || !access.isUnrestricted(request)) return false
    try {
      const match = matchEndpoint(url, method)
      if (match === undefined) return false
      checkRequest(request)
      serveKnown(match, exchange, body ?? emptyBody).catch(() => {})
    } catch (error) {
      sendFailure(context, exchange, error)
    }
    return true
  }
}

// Serves the health check of load balancers, which see only the public listener. The checks are no reads: they need no
// key, and no metric counts them.
function addHealthRoute (app: FastifyInstance, { drain, isSandbox }: ListenerContext): void {
  app.route({
    method: ['GET', 'HEAD'],
    url: healthPath,
    handler: async (_request, reply) => {
      reply.headers({ 'cache-control': 'no-store', 'cache-status': 'varve; detail=health' })
      if (isSandbox) reply.header(...sandboxHeader)
      if (drain.isDraining) reply.header('connection', 'close')
      return await reply.code(drain.isDraining ? 503 : 200).send({ status: drain.isDraining ? 'draining' : 'alive' })
    }
  })
}

/** Returns the parts of a request that decide its read. */
function variantOf ({ request: { headers }, method, url }: HttpExchange, body: Buffer): RawRequest & VariantParts {
  return {
    method,
    target: url,
    accept: headers.accept,
    contentType: headers['content-type'],
    body,
    minVersion: headers[minVersionHeader]
  }
}

function respond (
  context: ListenerContext,
  exchange: HttpExchange,
  variant: VariantParts,
  read: Read,
  outcome: Outcome
): void {
  const isHit = outcome.name === 'hit'
  // Remembers variants of hits only, since others may never repeat. Skips minimum versions, which are in no variant
  // key.
  const variantKey = isHit && read.minVersion === undefined ? variantKeyOf(variant) : undefined
  if (variantKey !== undefined && context.knownRequests.get(variantKey) === undefined) {
    context.knownRequests.put(variantKey, { parsed: new ParsedRequest(read) })
  }
  const response = context.responseBuilder.respond(read, outcome, responsePreferencesOf(exchange.request.headers))
  const source = isHit ? undefined : outcome.fetched.response.source
  sendResponse(context, exchange, read.endpoint.name, outcomeNameOf(outcome), response, source)
}

/** Delays a background read until clients leave room at the upstreams that may have its version. */
async function admitBackground (
  { proxy: { upstreamPool, now } }: ListenerContext,
  { response }: HttpExchange,
  { requestedVersion }: Read,
  admit: ReadClient['admit']
): Promise<void> {
  const untilMs = now() + backgroundWaitMs
  while (response.destroyed || !upstreamPool.hasRoomForBackground(requestedVersion)) {
    if (response.destroyed || now() >= untilMs) {
      throw webFrameworkError(429, 'background reads (Priority: u=7) wait for those of clients', ['retry-after', '1'])
    }
    await pause(lookEveryMs)
  }
  await admit?.()
}

/** Builds a signal that is aborted once the client has left. */
function goneSignalOf ({ response }: HttpExchange): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  response.once('close', () => gone.abort())
  return gone.signal
}

/**
 * Finds the transaction that the tail can wait for in place of a node. Nodes hold other reads, such as reads in BCS, in
 * which no field proves the hash.
 */
function awaitedMatchOf (
  { proxy: { follower }, config: { passThrough } }: ListenerContext,
  { originalUrl, method, headers }: FastifyRequest
): EndpointMatch | undefined {
  if (follower?.findsTransactions !== true || passThrough === 'none' || readAccept(headers.accept) !== 'json') {
    return undefined
  }
  return matchAwaited(originalUrl, method)
}

function announcesBody ({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

// Lists methods whose bodies Fastify does not read.
function isWithoutBody ({ method, headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined && ['GET', 'HEAD', 'TRACE'].includes(method)
}

function bodyOf ({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : emptyBody
}

/** Answers a preflight; returns false if the request is none. */
function servePreflight (context: ListenerContext, request: FastifyRequest, reply: FastifyReply): boolean {
  const granted = context.cors.preflight(request.headers)
  if (granted === undefined) return false
  const endpoint = matchEndpoint(request.originalUrl, request.method)?.endpoint.name ?? 'other'
  const rawHeaders = ['cache-status', ownCacheStatusOf('preflight'), ...granted]
  const clientResponse = { status: 200, rawHeaders, body: undefined }
  sendResponse(context, hijackExchange(request, reply, context), endpoint, 'preflight', clientResponse)
  return true
}
