import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { answerRead } from '../proxy/answer-read.js'
import { KnownRead } from '../proxy/known-read.js'
import { countedAs, isHit, type OutcomeName, ownStatusOf } from '../proxy/outcomes.js'
import { type Reply } from '../proxy/stamp.js'
import { minVersionHeader } from '../api/min-version.js'
import { type Match, matchEndpoint, readRequest } from '../api/read-request.js'
import { Refusal } from '../api/refusal.js'
import { spellingOf } from '../api/spelling.js'
import { passedTarget } from '../api/unknown-route.js'
import { takenFrom } from './exchange.js'
import { type Limits, type Toll } from './limits.js'
import { passThrough } from './pass-through.js'
import { failWith, type PublicParts, replyWith } from './reply.js'
import { requirePlain } from './requirements.js'
import { BodyTurns } from './body-turns.js'
import { wishesOf } from './wishes.js'

// A larger body is charged before it is read: by then it has cost varve more than most reads cost an upstream.
const largeBody = 16 * 1024

/**
 * Every path leads here: the table of endpoints is the router, since it reads the raw target as the nodes do; what is
 * not in it is passed on.
 */
export function readRoutes (app: FastifyInstance, context: PublicParts, limits: Limits): void {
  const bodyTurns = new BodyTurns()
  // By its head alone, before a byte of its body is taken in.
  app.addHook('onRequest', async (request, reply) => {
    // A browser that asks first sends no key.
    const isPreflight = request.method === 'OPTIONS' && context.cors.isPreflight(request.headers)
    try {
      if (!isPreflight) await limits.letIn(request)
    } catch (error) {
      failWith(context, takenFrom(request, reply, context), error)
    }
  })
  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<string | undefined> => {
    try {
      requirePlain(request.raw)
      if (request.method === 'OPTIONS' && answerPreflight(context, request, reply)) return undefined
      const match = matchEndpoint(request.originalUrl, request.method)
      if (match === undefined) return passedTarget(request.originalUrl, request.method, context.config.passThrough)
      const toll = limits.tollOf(request)
      const { length } = bodyOf(request)
      if (match.endpoint.takesBody !== undefined && length > largeBody) {
        await toll?.payAhead()
        await bodyTurns.take(length, reply.raw)
      }
      const { outcome, ready } = await answerMatch(context, match, request, limits.subjectOf(request), toll)
      replyWith(context, takenFrom(request, reply, context), match.endpoint.name, outcome, ready)
    } catch (error) {
      failWith(context, takenFrom(request, reply, context), error)
    }
    return undefined
  }
  passThrough(app, context, limits, answer)
  // Methods that no route has; none of them is passed on.
  app.setNotFoundHandler(async (request, reply) => {
    await answer(request, reply)
  })
}

async function answerMatch (
  context: PublicParts,
  match: Match,
  request: FastifyRequest,
  client: string,
  toll: Toll | undefined
): Promise<{ outcome: OutcomeName, ready: Reply }> {
  const { headers } = request
  const spelled = {
    method: request.method,
    target: request.originalUrl,
    accept: headers.accept,
    contentType: headers['content-type'],
    body: bodyOf(request)
  }
  const read = readRequest(match, { ...spelled, minVersion: headers[minVersionHeader] }, context.config.pages)
  const outcome = await answerRead({ ...context.parts, client, admit: toll?.admit }, read)
  if (isHit(outcome)) toll?.refund()
  // What is asked for but once is not worth remembering; a least version is in no spelling.
  const spelling = isHit(outcome) && read.atLeast === undefined ? spellingOf(spelled) : undefined
  if (spelling !== undefined && context.known.find(spelling) === undefined) {
    context.known.remember(spelling, new KnownRead(read))
  }
  return { outcome: countedAs(outcome), ready: context.stamper.reply(read, outcome, wishesOf(headers)) }
}

function bodyOf ({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

/** Answers a browser that asks what a page may send; false where none does. */
function answerPreflight (context: PublicParts, request: FastifyRequest, reply: FastifyReply): boolean {
  const granted = context.cors.preflight(request.headers)
  if (granted instanceof Refusal) throw granted
  if (granted === undefined) return false
  const endpoint = matchEndpoint(request.originalUrl, request.method)?.endpoint.name ?? 'other'
  const lines = ['cache-status', ownStatusOf('preflight'), ...granted.lines]
  const ready = { status: granted.status, lines, body: undefined }
  replyWith(context, takenFrom(request, reply, context), endpoint, 'preflight', ready)
  return true
}
