import { type FastifyReply, type FastifyRequest } from 'fastify'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type EndpointLabel, type Metrics } from '../metrics.js'
import { type OutcomeName } from '../proxy/outcomes.js'
import { type Parts } from '../proxy/parts.js'
import { type Reply, type Stamper } from '../proxy/stamp.js'
import { matchEndpoint } from '../reads/read-request.js'
import { type Refusal } from '../reads/refusal.js'
import { type Drain } from './drain.js'

/** What the public listener is made of. */
export interface PublicParts {
  readonly config: Pick<Config, 'limits' | 'log' | 'tls'>
  readonly parts: Parts
  readonly stamper: Stamper
  readonly metrics: Metrics
  readonly log: Logger
  readonly drain: Drain
}

/** The one place that replies: writes the answer out, counts it and, where asked for, logs it. */
export function replyWith (
  context: PublicParts, request: FastifyRequest, reply: FastifyReply, endpoint: EndpointLabel, outcome: OutcomeName, ready: Reply
): void {
  reply.hijack()
  const { raw } = reply
  const tookMs = reply.elapsedTime
  const lines = context.drain.isDraining ? [...ready.lines, 'connection', 'close'] : ready.lines
  raw.writeHead(ready.status, lines)
  raw.end(request.method === 'HEAD' ? undefined : ready.body)
  context.metrics.answered(endpoint, outcome, ready.status, tookMs / 1000)
  if (context.config.log.access) {
    context.log.info({ id: request.id, method: request.method, url: request.originalUrl, endpoint, outcome, status: ready.status, tookMs: Math.round(tookMs * 1000) / 1000 }, 'answered')
  }
}

/** Replies with what varve refuses; a known read bears the present position then too. */
export function refuseWith (context: PublicParts, request: FastifyRequest, reply: FastifyReply, refusal: Refusal): void {
  const endpoint = matchEndpoint(request.originalUrl)?.endpoint.name
  replyWith(context, request, reply, endpoint ?? 'other', 'refused', context.stamper.refuse(refusal, endpoint !== undefined))
}
