import { type IncomingMessage, ServerResponse } from 'node:http'
import { type Socket } from 'node:net'
import { type FastifyReply, type FastifyRequest } from 'fastify'
import { type ProxyContext } from '../proxy/proxy-context.js'

/** A request and its response. */
export interface HttpExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Raw request target. */
  readonly url: string
  readonly method: string
  readonly receivedAtMs: number
  /** Names the request in the log, in its response, and in a forwarded request. */
  readonly id: string
}

/** Takes an exchange from Fastify, so that `sendResponse` alone writes responses. */
export function hijackExchange (
  request: FastifyRequest,
  reply: FastifyReply,
  { proxy }: { readonly proxy: Pick<ProxyContext, 'now'> }
): HttpExchange {
  reply.hijack()
  const { raw, originalUrl: url, method } = request
  // Reads no more of an unwanted chunked body: parsing chunks of one byte would take all of the processor.
  if (!raw.complete && raw.headers['transfer-encoding'] !== undefined) reply.raw.shouldKeepAlive = false
  return {
    request: raw,
    response: reply.raw,
    url,
    method,
    receivedAtMs: proxy.now() - reply.elapsedTime,
    id: request.id
  }
}

/** Returns the response that a connection waits for, from the field that Node's own error handler reads. */
export function findPendingResponse (socket: Socket): ServerResponse | undefined {
  const message = '_httpMessage' in socket ? socket._httpMessage : undefined
  return message instanceof ServerResponse ? message : undefined
}
