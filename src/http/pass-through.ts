import { type IncomingHttpHeaders } from 'node:http'
import { fastifyHttpProxy } from '@fastify/http-proxy'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { type PassedQuestion, passOn } from '../proxy/pass-on.js'
import { type Answer } from '../api/answer.js'
import { minVersionHeader } from '../api/min-version.js'
import { addressOf } from './client-of.js'
import { takenFrom } from './exchange.js'
import { type Limits } from './limits.js'
import { failWith, type PublicParts, replyWith } from './reply.js'
import { traceIdOf } from './trace-context.js'

/** A request on its way through, led past the plugin, which would parse and print its target anew. */
interface Passing {
  readonly target: string
  /** The client's own word on its body; the plugin would make one up. */
  readonly contentType: string | undefined
  /** The least version that an answer must have been read at; for varve alone. */
  readonly minVersion: string | string[] | undefined
  /**
   * The client's address, as its connection or a proxy that is believed shows it: what the client says of where it is
   * itself is not.
   */
  readonly from: string | undefined
  readonly client: string
  readonly admit: (() => Promise<void>) | undefined
  readonly signal: AbortSignal
}

/** Answers a request, or says with which target it is to be passed on. */
export type Choose = (request: FastifyRequest, reply: FastifyReply) => Promise<string | undefined>

// What an answer may depend on, and who asks: an allow-list, since credentials, cookies and hop-by-hop names stay here
// (law 9).
const keyedNames = ['accept', 'accept-encoding']
const aboutNames = /^(?:user-agent|x-(?!forwarded-)[a-z0-9-]{1,64}-(?:client|origin-method))$/
// The one means nothing without the other (W3C Trace Context, section 3.3).
const traceNames = ['traceparent', 'tracestate']

/** What the plugin takes for the body of a response. */
interface Handed {
  readonly answer: Answer
  destroy(): void
}

// Travels with the headers, which the plugin copies; an async context would make every promise of the process dearer
// from the first use on.
const passingKey = Symbol('passing')

// The plugin wants to know where it leads; the node that is asked knows that better.
const upstream = 'http://node'
const everywhere = '/v1'

/**
 * Passes every request on that `choose` leaves to it, with the plugin kept from asking twice, from connections of its
 * own and from its ideas of headers.
 */
export function passThrough (app: FastifyInstance, context: PublicParts, limits: Limits, choose: Choose): void {
  const targets = new WeakMap<FastifyRequest, string>()
  const ask = async (
    question: Omit<PassedQuestion, 'target' | 'minVersion'>,
    { target, contentType, minVersion, client, admit, signal }: Passing
  ): Promise<Answer> => {
    const headers = { ...question.headers, ...(contentType !== undefined && { 'content-type': contentType }) }
    return await passOn({ ...context.parts, client, admit }, { ...question, headers, target, minVersion }, signal)
  }
  app.register(fastifyHttpProxy, {
    upstream,
    routes: ['*'],
    proxyPayloads: false,
    disableRequestLogging: true,
    preRewrite: () => everywhere,
    undici: { request: requestThrough(ask) },
    preHandler: async (request: FastifyRequest, reply: FastifyReply) => {
      const target = await choose(request, reply)
      if (target !== undefined) targets.set(request, target)
    },
    handler: (request, reply, dest, options) => {
      const gone = new AbortController()
      reply.raw.once('close', () => {
        gone.abort()
      })
      if (reply.raw.destroyed) gone.abort()
      const { 'content-type': contentType, [minVersionHeader]: minVersion } = request.headers
      const passing: Passing = {
        target: targets.get(request) ?? '',
        contentType,
        minVersion,
        from: addressOf(request),
        client: limits.subjectOf(request),
        admit: limits.tollOf(request)?.admit,
        signal: gone.signal
      }
      return reply.from(dest, {
        ...options,
        ...bodyOf(request),
        rewriteRequestHeaders: (_request, headers) => ({ ...headers, [passingKey]: passing })
      })
    },
    replyOptions: {
      // A read that fails is the client's to repeat: the plugin would ask a node that is busy ten times more.
      retryDelay: () => null,
      rewriteHeaders: () => ({}),
      onResponse: (request, reply, response) => {
        const { answer } = response.stream as unknown as Handed
        const exchange = takenFrom(request as FastifyRequest, reply as FastifyReply, context)
        try {
          replyWith(context, exchange, 'other', 'forwarded', context.stamper.pass(answer))
        } catch (error) {
          // Nobody above this would catch it, and the client would wait for ever.
          failWith(context, exchange, error)
        }
      },
      onError: (reply, { error }) => {
        // A client that has left is told nothing, and is no failure to count.
        if (reply.raw.destroyed) reply.hijack()
        else failWith(context, takenFrom(reply.request as FastifyRequest, reply as FastifyReply, context), error.cause)
      }
    }
  })
}

/** What the plugin takes for a connection pool: it leads to the node that is asked for everything else too. */
function requestThrough (
  ask: (question: Omit<PassedQuestion, 'target' | 'minVersion'>, passing: Passing) => Promise<Answer>
): never {
  const request = (
    options: { method: string, headers: IncomingHttpHeaders & { readonly [passingKey]: Passing }, body?: Buffer },
    done: (error: unknown, response?: object) => void
  ): void => {
    const headers = picked(options.headers, name => keyedNames.includes(name))
    const { from } = options.headers[passingKey]
    const isTraced = traceIdOf(options.headers) !== undefined
    const about = {
      ...picked(options.headers, name => aboutNames.test(name) || (isTraced && traceNames.includes(name))),
      ...(from !== undefined && { 'x-forwarded-for': from })
    }
    ask({ method: options.method, headers, about, body: options.body }, options.headers[passingKey]).then(
      // The reply has the node's own status; the plugin would trip over one beyond those that Fastify knows.
      answer => {
        done(null, {
          statusCode: Math.min(answer.status, 599),
          headers: {},
          body: {
            answer,
            destroy: () => {
              answer.rest?.destroy()
            }
          } satisfies Handed
        })
      },
      error => {
        done(error)
      }
    )
  }
  // The plugin calls nothing of a pool but this, in this one way.
  return request as never
}

function picked (headers: IncomingHttpHeaders, isWanted: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' && isWanted(name) ? [[name, value]] : []
    )
  )
}

// Given as bytes with some type, or the plugin would print them as the JSON of a Buffer.
function bodyOf ({ method, body }: FastifyRequest): { body?: Buffer | null, contentType?: string } {
  if (method !== 'POST') return {}
  return Buffer.isBuffer(body) ? { body, contentType: 'application/octet-stream' } : { body: null }
}
