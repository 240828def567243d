import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { serveRead } from '../proxy/serve-read.js'
import { RequestVariantEntry } from '../proxy/request-variant-entry.js'
import { outcomeNameOf, isHit, type OutcomeName, ownStatusOf } from '../proxy/outcomes.js'
import { type ClientResponse } from '../proxy/stamper.js'
import { minVersionHeader } from '../api/min-version.js'
import { type EndpointMatch, matchEndpoint, readRequest } from '../api/read-request.js'
import { ErrorResponse } from '../api/error-response.js'
import { variantKeyOf } from '../api/request-variant.js'
import { forwardedTarget } from '../api/pass-through-target.js'
import { hijackExchange } from './http-exchange.js'
import { type ClientLimiter, type RequestCharge } from './client-limiter.js'
import { addPassThrough } from './pass-through.js'
import { sendFailure, type HttpContext, sendResponse } from './send-response.js'
import { checkRequest } from './request-checks.js'
import { BodyReadQueue } from './body-read-queue.js'
import { responsePreferencesOf } from './response-preferences.js'

// Charges larger bodies before parsing, which costs varve more than most reads cost an upstream.
const largeBodyBytes = 16 * 1024

/** Routes by the endpoint table, which parses raw targets as nodes do; unknown routes are forwarded. */
export function addReadRoutes (app: FastifyInstance, context: HttpContext, limiter: ClientLimiter): void {
  const bodyReadQueue = new BodyReadQueue()
  // Checks access by the headers alone, before any of the body is read.
  app.addHook('onRequest', async (request, reply) => {
    // Exempts preflights, which carry no key.
    const isPreflight = request.method === 'OPTIONS' && context.cors.isPreflight(request.headers)
    try {
      if (!isPreflight) await limiter.requireAccess(request)
    } catch (error) {
      sendFailure(context, hijackExchange(request, reply, context), error)
    }
  })
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<string | undefined> => {
    try {
      checkRequest(request.raw)
      if (request.method === 'OPTIONS' && servePreflight(context, request, reply)) return undefined
      const match = matchEndpoint(request.originalUrl, request.method)
      if (match === undefined) return forwardedTarget(request.originalUrl, request.method, context.config.passThrough)
      const charge = limiter.chargeOf(request)
      const { length } = bodyOf(request)
      if (match.endpoint.takesBody !== undefined && length > largeBodyBytes) {
        await charge?.chargeNow()
        await bodyReadQueue.waitForTurn(length, reply.raw)
      }
      const { outcome, clientResponse } = await serveMatch(context, match, request, limiter.clientIdOf(request), charge)
      sendResponse(context, hijackExchange(request, reply, context), match.endpoint.name, outcome, clientResponse)
    } catch (error) {
      sendFailure(context, hijackExchange(request, reply, context), error)
    }
    return undefined
  }
  addPassThrough(app, context, limiter, serve)
  // Methods that no route has are rejected, never forwarded.
  app.setNotFoundHandler(async (request, reply) => {
    await serve(request, reply)
  })
}

async function serveMatch (
  context: HttpContext,
  match: EndpointMatch,
  request: FastifyRequest,
  clientId: string,
  charge: RequestCharge | undefined
): Promise<{ outcome: OutcomeName, clientResponse: ClientResponse }> {
  const { headers } = request
  const variant = {
    method: request.method,
    target: request.originalUrl,
    accept: headers.accept,
    contentType: headers['content-type'],
    body: bodyOf(request)
  }
  const read = readRequest(match, { ...variant, minVersion: headers[minVersionHeader] }, context.config.pages)
  const outcome = await serveRead({ ...context.proxy, clientId, admit: charge?.admit }, read)
  if (isHit(outcome)) charge?.refund()
  // Remembers variants of hits only: others may never repeat. Minimum versions are in no variant key.
  const variantKey = isHit(outcome) && read.minVersion === undefined ? variantKeyOf(variant) : undefined
  if (variantKey !== undefined && context.parsedRequests.get(variantKey) === undefined) {
    context.parsedRequests.put(variantKey, new RequestVariantEntry(read))
  }
  return {
    outcome: outcomeNameOf(outcome),
    clientResponse: context.stamper.respond(read, outcome, responsePreferencesOf(headers))
  }
}

function bodyOf ({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

/** Answers a preflight; returns false if the request is none. */
function servePreflight (context: HttpContext, request: FastifyRequest, reply: FastifyReply): boolean {
  const granted = context.cors.preflight(request.headers)
  if (granted instanceof ErrorResponse) throw granted
  if (granted === undefined) return false
  const endpoint = matchEndpoint(request.originalUrl, request.method)?.endpoint.name ?? 'other'
  const rawHeaders = ['cache-status', ownStatusOf('preflight'), ...granted.rawHeaders]
  const clientResponse = { status: granted.status, rawHeaders, body: undefined }
  sendResponse(context, hijackExchange(request, reply, context), endpoint, 'preflight', clientResponse)
  return true
}
