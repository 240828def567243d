import { type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { answerAtHand } from '../proxy/answer-read.js'
import { type OutcomeName } from '../proxy/outcomes.js'
import { type Reply } from '../proxy/stamp.js'
import { type EndpointName } from '../api/endpoints.js'
import { minVersionHeader } from '../api/min-version.js'
import { longestBody, spellingOf } from '../api/spelling.js'
import { type Exchange } from './exchange.js'
import { failWith, type PublicParts, replyWith } from './reply.js'
import { requirePlain } from './requirements.js'
import { Turns } from './turns.js'
import { wishesOf } from './wishes.js'

/** An answer that can be written at once. */
interface AtHand {
  readonly endpoint: EndpointName
  readonly outcome: OutcomeName
  readonly reply: Reply
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Puts what can be answered at once in front of the router: a read in a spelling that is known, whose answer is at
 * hand. Everything else goes on to the router as if nobody had looked, and so do all errors; there are no rules here
 * that are not the router's too.
 */
export function answerInFront (server: Server, context: PublicParts, nextId: () => string): void {
  const [goOn] = server.listeners('request') as Listener[]
  if (goOn === undefined) throw new Error('the router listens to no requests')
  const turns = new Turns(() => {
    context.metrics.cut('ahead')
  })
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '', method = '' } = request
    const exchange = { request, response, url, method, receivedAtMs: context.parts.now(), id: nextId }
    // A small body mostly comes with its head, and is there when both have been parsed.
    if (method === 'POST') {
      process.nextTick(() => {
        if (!isAnsweredWithBody(context, exchange)) goOn(request, response)
      })
    } else if (!isAnswered(context, exchange, undefined)) goOn(request, response)
  }
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    // Node gives a response its socket when all earlier ones on the connection are out.
    if (response.socket === null) turns.wait(request, response, serve)
    else serve(request, response)
  })
}

function isAnsweredWithBody (context: PublicParts, exchange: Exchange): boolean {
  const { request } = exchange
  const length = request.readableLength
  const isThere = length > 0 && length <= longestBody && String(length) === request.headers['content-length']
  const body: unknown = isThere ? request.read() : null
  if (!Buffer.isBuffer(body)) return false
  if (!isAnswered(context, exchange, body)) {
    // Put back before anybody can have missed it.
    request.unshift(body)
    return false
  }
  request.resume()
  return true
}

function isAnswered (context: PublicParts, exchange: Exchange, body: Buffer | undefined): boolean {
  try {
    const atHand = atHandFor(context, exchange, body)
    if (atHand !== undefined) replyWith(context, exchange, atHand.endpoint, atHand.outcome, atHand.reply)
    return atHand !== undefined
  } catch (error) {
    // What fails before anything is written is the router's to answer.
    if (exchange.response.headersSent) failWith(context, exchange, error)
    return exchange.response.headersSent
  }
}

function atHandFor (
  context: PublicParts,
  { request, url: target, method }: Exchange,
  body: Buffer | undefined
): AtHand | undefined {
  const { headers } = request
  const spelling = spellingOf({ method, target, accept: headers.accept, contentType: headers['content-type'], body })
  const known = spelling === undefined ? undefined : context.known.find(spelling)
  // A least version is in no spelling, and may have to be waited for; so may who is held to a limit.
  if (known === undefined || headers[minVersionHeader] !== undefined || !context.access.isOpenTo(request)) {
    return undefined
  }
  requirePlain(request)
  known.tellAsked(context.parts)
  const wishes = wishesOf(headers)
  const { endpoint: { name: endpoint } } = known.read
  const again = known.again(context.parts, wishes)
  if (again !== undefined) return { endpoint, outcome: 'hit_memory', reply: again }
  const hit = answerAtHand(context.parts, known)
  if (hit === undefined) return undefined
  const reply = context.stamper.reply(known.read, hit, wishes)
  known.give(context.parts, hit, wishes, reply)
  return { endpoint, outcome: hit.name, reply }
}
