import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type FastifyReply, type FastifyRequest } from 'fastify'
import { type Parts } from '../proxy/parts.js'

/** A request and the answer that it waits for. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The raw target. */
  readonly url: string
  readonly method: string
  /** On the clock of this process. */
  readonly receivedAtMs: number
  /** By which the log tells requests apart; made where it is logged. */
  readonly id: () => string
}

/** Takes an exchange out of the router's hands: it is answered in the one place that replies. */
export function takenFrom (
  request: FastifyRequest,
  reply: FastifyReply,
  { parts }: { readonly parts: Pick<Parts, 'now'> }
): Exchange {
  reply.hijack()
  const { raw, originalUrl: url, method } = request
  return {
    request: raw,
    response: reply.raw,
    url,
    method,
    receivedAtMs: parts.now() - reply.elapsedTime,
    id: () => request.id
  }
}
