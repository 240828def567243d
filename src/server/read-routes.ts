import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { answerRead } from '../proxy/answer-read.js'
import { type OutcomeName } from '../proxy/outcomes.js'
import { type Reply } from '../proxy/stamp.js'
import { type Match, matchEndpoint, readRequest } from '../reads/read-request.js'
import { Refusal } from '../reads/refusal.js'
import { refusalOf } from './refusal-of.js'
import { type PublicParts, refuseWith, replyWith } from './reply.js'

/** Every path leads here: the table of endpoints is the router, since it reads the raw target as the nodes do. */
export function readRoutes (app: FastifyInstance, context: PublicParts): void {
  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    try {
      requireHost(request)
      requireKnownExpectation(request)
      const match = matchEndpoint(request.originalUrl)
      if (match === undefined) throw new Refusal(404, 'web_framework_error', 'not found')
      const { outcome, ready } = await answerMatch(context, match, request)
      replyWith(context, request, reply, match.endpoint.name, outcome, ready)
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal.status === 500) context.log.error({ err: error }, 'a read failed in a way that nobody foresaw')
      refuseWith(context, request, reply, refusal)
    }
  }
  app.all('*', answer)
  app.setNotFoundHandler(answer)
}

async function answerMatch (context: PublicParts, match: Match, request: FastifyRequest): Promise<{ outcome: OutcomeName, ready: Reply }> {
  const { headers } = request
  // A body that must be unpacked before it can be keyed could be unpacked to anything: refused on purpose.
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw new Refusal(415, 'web_framework_error', 'a compressed request body is not supported')
  }
  const read = readRequest(match, {
    method: request.method,
    accept: headers.accept,
    contentType: headers['content-type'],
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  })
  const outcome = await answerRead(context.parts, read)
  return { outcome: outcome.name, ready: context.stamper.reply(read, outcome, headers['if-none-match']) }
}

// One Host and no more (RFC 9112, section 3.2); Node would refuse its absence too, but not in the node's shape.
function requireHost ({ raw }: FastifyRequest): void {
  let hosts = 0
  for (let at = 0; at < raw.rawHeaders.length; at += 2) {
    if (raw.rawHeaders[at]?.length === 4 && raw.rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  if (hosts === 1 || (hosts === 0 && raw.httpVersion === '1.0')) return
  throw new Refusal(400, 'web_framework_error', 'expected one Host header', ['connection', 'close'])
}

function requireKnownExpectation ({ headers }: FastifyRequest): void {
  if ((headers.expect ?? '100-continue').toLowerCase() !== '100-continue') {
    throw new Refusal(417, 'web_framework_error', 'the only expectation that is known is 100-continue')
  }
}
