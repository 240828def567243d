import { readFileSync } from 'node:fs'
import { type Server } from 'node:http'
import { type Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifyHttpOptions } from 'fastify'
import { answerClientErrors, refuseTunnel } from './client-errors.js'
import { takenFrom } from './exchange.js'
import { answerInFront } from './in-front.js'
import { readRoutes } from './read-routes.js'
import { refusalOf } from './refusal-of.js'
import { type PublicParts, refuseWith } from './reply.js'

// A client that sends its head or body a byte at a time is cut off in seconds, not never.
const headersTimeoutMs = 5000
const requestTimeoutMs = 8000
const checkEveryMs = 1000

/** The public listener, not yet listening. */
export function publicApp (context: PublicParts): FastifyInstance {
  const { limits, tls } = context.config
  const refused = (status: number): void => { context.metrics.answered('other', 'refused', status, 0) }
  const nextId = requestIds()
  const options: FastifyHttpOptions<Server> = {
    genReqId: nextId,
    bodyLimit: limits.bodyKb * 1024,
    requestTimeout: requestTimeoutMs,
    // A stop answers what still arrives on kept connections and closes them with that answer.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    http: { requireHostHeader: false, headersTimeout: headersTimeoutMs, connectionsCheckingInterval: checkEveryMs, maxHeaderSize: limits.headerKb * 1024 },
    clientErrorHandler: (error, socket) => { answerClientErrors(error, socket, refused) },
    frameworkErrors: (error, request, reply) => { refuseWith(context, takenFrom(request as FastifyRequest, reply as FastifyReply, context), refusalOf(error)) }
  }
  const secure = tls.certFile === null || tls.keyFile === null ? {} : { https: { cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) } }
  const app = fastify({ ...options, ...secure })
  // Node would answer an expectation that it does not know past the one place that replies.
  app.server.on('checkExpectation', (request, response) => { app.server.emit('request', request, response) })
  app.server.on('connect', (_request, socket) => { refuseTunnel(socket as Socket, refused) })
  app.setErrorHandler((error, request, reply) => { refuseWith(context, takenFrom(request, reply, context), refusalOf(error)) })
  // Bodies are read as bytes, whatever they say they are; what a read makes of them is its own affair.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => { done(null, body) })
  readRoutes(app, context)
  answerInFront(app.server, context, nextId)
  return app
}

function requestIds (): () => string {
  let last = 0
  return () => `req-${(++last).toString(36)}`
}
