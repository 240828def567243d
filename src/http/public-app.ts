import { createServer, type Server } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'
import {
  fastify,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions
} from 'fastify'
import { type ChunkListener, installParserBypass, setMaxHeaderSize } from '../node.js'
import { outcomeOfErrorStatus } from '../proxy/outcomes.js'
import { respondToClientError, rejectTunnel, timeoutReasonOf, type UnroutedErrorOptions } from './client-errors.js'
import { hijackExchange, requestIdReader, maxHeaderLines } from './http-exchange.js'
import { HitPath, type RequestListener } from './hit-path.js'
import { readBody } from './request-body.js'
import { addReadRoutes } from './read-routes.js'
import { sendFailure, type ListenerContext, sandboxHeader } from './send-response.js'
import { headerTimeouts, serverTimeouts, withoutSchemas } from './listener.js'

// Replaces Node's default of two minutes, which is too long.
const handshakeTimeoutMs = 5000

/** Public listener; the caller starts it. */
export interface PublicApp {
  readonly app: FastifyInstance
  /**
   * Prepares a reload; throws if the configuration is unusable. Calling the result applies it to the open listener;
   * requests in flight finish unchanged.
   */
  reload(context: ListenerContext): Promise<() => void>
}

/** Listeners for the server, as one configuration makes them. */
interface Listeners {
  readonly request: RequestListener
  /** Undefined if Node parses every request. */
  readonly chunk: ChunkListener | undefined
  readonly clientError: (error: Error, socket: Socket) => void
  readonly connect: (socket: Socket) => void
}

/** Builds the public listener: one server, whose listeners a reload switches. */
export function publicApp (context: ListenerContext): PublicApp {
  const server = createPublicServer(context)
  const first = buildApp(context, server, (error, socket) => current.clientError(error, socket))
  let current = first.listeners
  server.on('request', (request, response) => current.request(request, response))
  // Routes unknown expectations to `checkRequest`: Node's own 417 has no JSON error body.
  server.on('checkExpectation', (request, response) => current.request(request, response))
  server.on('connect', (_request, socket) => current.connect(socket as Socket))
  installParserBypass(
    server,
    () => current.chunk,
    () => context.log.warn('http.fastPath has no effect: this Node.js release lacks what it needs')
  )
  context.metrics.addClients(context.access.clientNames)
  context.certificate?.watch(identity => (server as SecureServer).setSecureContext(identity))
  return {
    app: first.app,
    reload: async next => {
      const { app, listeners } = buildApp(next, createServer())
      await app.ready()
      const useCertificate = await next.certificate?.prepareRenewal()
      return () => {
        current = listeners
        setMaxHeaderSize(server, next.config.limits.headerKb * 1024)
        useCertificate?.()
        next.metrics.addClients(next.access.clientNames)
      }
    }
  }
}

/** Creates the server with all limits, because Fastify sets none on a server that it is given. */
function createPublicServer ({ config: { limits }, certificate, clients }: ListenerContext): Server {
  const options = {
    requireHostHeader: false,
    ...serverTimeouts,
    ...headerTimeouts,
    maxHeaderSize: limits.headerKb * 1024
  }
  const server = certificate === undefined
    ? createServer(options)
    : createSecureServer({ ...options, ...certificate.identity, handshakeTimeout: handshakeTimeoutMs })
  // Sets Node's default explicitly, since `checkRequest` rejects requests with more lines.
  server.maxHeadersCount = maxHeaderLines
  clients.attach(server)
  return server
}

/** Builds the routes of one configuration; Fastify takes client errors from the server that it is given. */
function buildApp (
  context: ListenerContext,
  server: Server,
  onClientError: Listeners['clientError'] = () => {}
): { readonly app: FastifyInstance, readonly listeners: Listeners } {
  const { config: { limits, trustProxy, http } } = context
  const idOf = requestIdReader(context.requestIds, trustProxy)
  const unrouted: UnroutedErrorOptions = {
    rawHeaders: [
      ...(context.cors.dependsOnOrigin ? ['Vary', 'Origin'] : []),
      ...(context.isSandbox ? sandboxHeader : [])
    ],
    onResponded: status => context.metrics.answered('other', outcomeOfErrorStatus(status), status, 0)
  }
  const routers: RequestListener[] = []
  const options = {
    serverFactory: (router: RequestListener) => {
      routers.push(router)
      return server
    },
    // Sets the scheme of the address that Fastify reports, and nothing else.
    https: context.certificate === undefined ? null : {},
    genReqId: idOf,
    bodyLimit: limits.bodyKb * 1024,
    ...withoutSchemas,
    // Serves requests on open connections during a drain; each response then closes its connection.
    return503OnClosing: false,
    forceCloseConnections: 'idle' as const,
    exposeHeadRoutes: false,
    clientErrorHandler: onClientError,
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) =>
      sendFailure(context, hijackExchange(request, reply, context), error)
  }
  const app: FastifyInstance = fastify(options as FastifyServerOptions)
  app.setErrorHandler((error, request, reply) => sendFailure(context, hijackExchange(request, reply, context), error))
  // Adds a hook for `elapsedTime`: Fastify records the start of a request only if a hook needs it.
  app.addHook('onResponse', (_request, _reply, done) => done())
  // Reads every body; each endpoint checks its own content type.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => readBody(payload, limits.bodyKb * 1024, done))
  const serveDirectly = addReadRoutes(app, context)
  const hitPath = new HitPath(context, idOf, serveDirectly, (request, response) => routers[0]?.(request, response))
  return {
    app,
    listeners: {
      request: (request, response) => hitPath.serve(request, response),
      chunk: http.fastPath ? (socket, chunk) => hitPath.serveBytes(socket, chunk) : undefined,
      clientError: (error, socket) => {
        const timeoutReason = timeoutReasonOf(error, socket)
        if (timeoutReason !== undefined) context.metrics.connectionCut(timeoutReason)
        respondToClientError(error, socket, unrouted)
      },
      connect: socket => rejectTunnel(socket, unrouted)
    }
  }
}
