import { type IncomingMessage, type Server } from 'node:http'
import { type Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifyHttpOptions } from 'fastify'
import { outcomeOfErrorStatus } from '../proxy/outcomes.js'
import { respondToClientError, rejectTunnel, timeoutReasonOf, type UnroutedErrorOptions } from './client-errors.js'
import { hijackExchange, requestIdReader } from './http-exchange.js'
import { HitPath, type RequestListener } from './hit-path.js'
import { type BypassedConnection, idleChunkEvent, installParserBypass } from './parser-bypass.js'
import { readBody } from './request-body.js'
import { addReadRoutes, type ServeDirectly } from './read-routes.js'
import { sendFailure, type ListenerContext, sandboxHeader } from './send-response.js'
import { maxHeaderLines } from './request-checks.js'
import { headerTimeouts, serverTimeouts, withoutSchemas } from './listener.js'

// Shortens Node's default of two minutes.
const handshakeTimeoutMs = 5000

/** Builds the public listener; the caller starts it. */
export function publicApp (context: ListenerContext): FastifyInstance {
  const { config: { limits, trustProxy }, certificate } = context
  const idOf = requestIdReader(context.requestIds, trustProxy)
  const unrouted: UnroutedErrorOptions = {
    rawHeaders: [
      ...(context.cors.dependsOnOrigin ? ['Vary', 'Origin'] : []),
      ...(context.isSandbox ? sandboxHeader : [])
    ],
    onResponded: status => context.metrics.answered('other', outcomeOfErrorStatus(status), status, 0)
  }
  const options: FastifyHttpOptions<Server> = {
    genReqId: idOf,
    bodyLimit: limits.bodyKb * 1024,
    ...serverTimeouts,
    ...withoutSchemas,
    // Serves requests that arrive on open connections during a drain; each response closes its connection.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    clientErrorHandler: (error, socket) => {
      const timeoutReason = timeoutReasonOf(error, socket)
      if (timeoutReason !== undefined) context.metrics.connectionCut(timeoutReason)
      respondToClientError(error, socket, unrouted)
    },
    frameworkErrors: (error, request, reply) => {
      sendFailure(context, hijackExchange(request as FastifyRequest, reply as FastifyReply, context), error)
    }
  }
  const http = { requireHostHeader: false, ...headerTimeouts, maxHeaderSize: limits.headerKb * 1024 }
  // Fastify takes either `http` or `https` options.
  const app = fastify({
    ...options,
    ...(certificate === undefined
      ? { http }
      : { https: { ...http, ...certificate.identity, handshakeTimeout: handshakeTimeoutMs } })
  })
  certificate?.watch(identity => (app.server as SecureServer).setSecureContext(identity))
  context.clients.attach(app.server)
  // Sets Node's own default, since `checkRequest` rejects requests beyond it.
  app.server.maxHeadersCount = maxHeaderLines
  // Routes unknown expectations to `checkRequest`: Node's own 417 has no JSON error body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.server.on('connect', (_request, socket) => rejectTunnel(socket as Socket, unrouted))
  app.setErrorHandler((error, request, reply) => sendFailure(context, hijackExchange(request, reply, context), error))
  // Enables `elapsedTime`: Fastify records the start of a request only if a hook needs it.
  app.addHook('onResponse', (_request, _reply, done) => done())
  // Reads every body; each endpoint checks its own content type.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => readBody(payload, limits.bodyKb * 1024, done))
  const serveDirectly = addReadRoutes(app, context)
  installParserBypass(app.server, () => {
    context.log.warn('http.fastPath has no effect: this Node.js release lacks what it needs')
  })
  installHitPath(app.server, context, idOf, serveDirectly)
  return app
}

function installHitPath (
  server: Server,
  context: ListenerContext,
  idOf: (request: IncomingMessage) => string,
  serveDirectly: ServeDirectly
): void {
  const [passToRouter] = server.listeners('request') as RequestListener[]
  if (passToRouter === undefined) {
    throw new Error('no request listener: expected the router to be installed before the hit path')
  }
  const hitPath = new HitPath(context, idOf, serveDirectly, passToRouter)
  server.removeAllListeners('request').on('request', (request, response) => hitPath.serve(request, response))
  if (!context.config.http.fastPath) return
  server.on(idleChunkEvent, (connection: BypassedConnection, chunk: Buffer) => {
    connection.isTaken = hitPath.serveBytes(connection.socket, chunk)
  })
}

/**
 * Prepares a reload of an open listener; throws if the configuration is unusable. Calling the result applies it;
 * requests in flight finish unchanged.
 */
export async function reloadPublicApp (
  app: FastifyInstance,
  context: ListenerContext
): Promise<() => void> {
  const { config: { limits }, certificate } = context
  // Needs no certificate, since the new app never listens.
  const next = publicApp({ ...context, certificate: undefined })
  await next.ready()
  const useCertificate = await certificate?.prepareRenewal()
  return () => {
    // Moves the new app's listeners to the open server.
    for (const event of ['request', 'clientError', 'connect', idleChunkEvent]) {
      app.server.removeAllListeners(event)
      for (const listener of next.server.listeners(event)) app.server.on(event, listener as () => void)
    }
    // Node reads this for each new connection.
    Object.assign(app.server, { maxHeaderSize: limits.headerKb * 1024 })
    useCertificate?.()
  }
}
