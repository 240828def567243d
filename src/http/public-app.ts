import { type Server } from 'node:http'
import { type Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifyHttpOptions } from 'fastify'
import { outcomeOfError } from '../proxy/outcomes.js'
import { answerClientErrors, refuseTunnel, slownessOf, type UnroutedErrors } from './client-errors.js'
import { takenFrom } from './exchange.js'
import { answerInFront } from './in-front.js'
import { Limits } from './limits.js'
import { believes } from './proxies.js'
import { readRoutes } from './read-routes.js'
import { failWith, type PublicParts, sandboxLine } from './reply.js'
import { mostLines } from './requirements.js'
import { httpTimeouts, serverTimeouts } from './timeouts.js'

// Node would wait two minutes for a TLS handshake.
const handshakeTimeoutMs = 5000

/** The public listener, not yet listening. */
export function publicApp (context: PublicParts, nextId = requestIds()): FastifyInstance {
  const { config: { limits, trustProxy }, certificate } = context
  const unrouted: UnroutedErrors = {
    lines: [...(context.cors.dependsOnOrigin ? ['Vary', 'Origin'] : []), ...(context.isSandbox ? sandboxLine : [])],
    answered: status => {
      context.metrics.answered('other', outcomeOfError(status), status, 0)
    }
  }
  const options: FastifyHttpOptions<Server> = {
    genReqId: nextId,
    trustProxy: trustProxy.length > 0 && believes(trustProxy),
    bodyLimit: limits.bodyKb * 1024,
    ...serverTimeouts,
    // A stop answers what still arrives on kept connections and closes them with that answer.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    clientErrorHandler: (error, socket) => {
      const slowness = slownessOf(error, socket)
      if (slowness !== undefined) context.metrics.cut(slowness)
      answerClientErrors(error, socket, unrouted)
    },
    frameworkErrors: (error, request, reply) => {
      failWith(context, takenFrom(request as FastifyRequest, reply as FastifyReply, context), error)
    }
  }
  const http = { requireHostHeader: false, ...httpTimeouts, maxHeaderSize: limits.headerKb * 1024 }
  // Of the two the framework takes one.
  const app = fastify({
    ...options,
    ...(certificate === undefined
      ? { http }
      : { https: { ...http, ...certificate.identity, handshakeTimeout: handshakeTimeoutMs } })
  })
  certificate?.watch(identity => {
    ;(app.server as SecureServer).setSecureContext(identity)
  })
  context.clients.attach(app.server)
  // Node's own number, said since what is over is refused by it.
  app.server.maxHeadersCount = mostLines
  // Node would answer an expectation that it does not know past the one place that replies.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response)
  })
  app.server.on('connect', (_request, socket) => {
    refuseTunnel(socket as Socket, unrouted)
  })
  app.setErrorHandler((error, request, reply) => {
    failWith(context, takenFrom(request, reply, context), error)
  })
  // Fastify notes when a request came where somebody wants to hear of its answer, and not else; what took how long is
  // made of that.
  app.addHook('onResponse', (_request, _reply, done) => {
    done()
  })
  // Bodies are read as bytes, whatever they say they are; what a read makes of them is its own affair.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    done(null, body)
  })
  readRoutes(app, context, new Limits(app, context.access))
  answerInFront(app.server, context, nextId)
  return app
}

/**
 * Has an open listener answer by another configuration; what is under way ends as it began. Throws where it cannot be
 * used; else the function that it resolves with does it.
 */
export async function exchangePublicApp (
  app: FastifyInstance,
  context: PublicParts,
  nextId: () => string
): Promise<() => void> {
  const { config: { limits }, certificate } = context
  // It never listens, and so shows nobody who it is.
  const next = publicApp({ ...context, certificate: undefined }, nextId)
  await next.ready()
  const takeIn = await certificate?.renewed()
  return () => {
    // It never listens itself: what hears its requests hears those of the open one from now on.
    for (const event of ['request', 'clientError', 'connect']) {
      app.server.removeAllListeners(event)
      for (const listener of next.server.listeners(event)) app.server.on(event, listener as () => void)
    }
    // Node looks at it for each connection that is opened.
    Object.assign(app.server, { maxHeaderSize: limits.headerKb * 1024 })
    takeIn?.()
  }
}

/** Numbers for requests, by which the log tells them apart. */
export function requestIds (): () => string {
  let last = 0
  return () => `req-${(++last).toString(36)}`
}
