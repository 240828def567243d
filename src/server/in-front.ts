import { type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { answerAtHand } from '../proxy/answer-read.js'
import { spellingOf } from '../reads/spelling.js'
import { type Exchange } from './exchange.js'
import { type PublicParts, replyWith } from './reply.js'
import { requirePlain } from './requirements.js'
import { wishesOf } from './wishes.js'

type Listener = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Puts what can be answered at once in front of the router: a read in a spelling that is known, whose answer is at hand. Everything else
 * goes on to the router as if nobody had looked, and so do all errors; there are no rules here that are not the router's too.
 */
export function answerInFront (server: Server, context: PublicParts, nextId: () => string): void {
  const [goOn] = server.listeners('request') as Listener[]
  if (goOn === undefined) throw new Error('the router listens to no requests')
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { url = '', method = '' } = request
    const exchange = { request, response, url, method, receivedAtMs: context.parts.now(), id: nextId }
    // Who sends ahead on a connection waits for a turn (Turns).
    if (response.socket === null) goOn(request, response)
    // A small body mostly comes with its head, and is there when both have been parsed.
    else if (method === 'POST') process.nextTick(() => { if (!isAnsweredWithBody(context, exchange)) goOn(request, response) })
    else if (!isAnswered(context, exchange, undefined)) goOn(request, response)
  })
}

function isAnsweredWithBody (context: PublicParts, exchange: Exchange): boolean {
  const { request } = exchange
  const isThere = request.readableLength > 0 && String(request.readableLength) === request.headers['content-length']
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
  const { request, url: target, method } = exchange
  try {
    const { headers } = request
    const spelling = spellingOf({ method, target, accept: headers.accept, contentType: headers['content-type'], body })
    const known = spelling === undefined ? undefined : context.parts.spellings.find(spelling)
    if (known === undefined) return false
    requirePlain(request)
    const wishes = wishesOf(headers)
    const { endpoint: { name } } = known.read
    const again = known.again(context.parts, wishes)
    if (again !== undefined) replyWith(context, exchange, name, 'hit_memory', again)
    else {
      const hit = answerAtHand(context.parts, known)
      if (hit === undefined) return false
      const reply = context.stamper.reply(known.read, hit, wishes)
      known.give(context.parts, hit, wishes, reply)
      replyWith(context, exchange, name, hit.name, reply)
    }
    return true
  } catch {
    return false
  }
}
