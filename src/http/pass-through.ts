import { type IncomingHttpHeaders } from 'node:http'
import { fastifyHttpProxy } from '@fastify/http-proxy'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { forwardUnknownRoute } from '../proxy/forward-unknown-route.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { isSdkHeaderName } from '../api/position.js'
import { minVersionHeader } from '../api/read-request.js'
import { indexTarget } from '../api/request-targets.js'
import { hijackExchange, requestIdHeader } from './http-exchange.js'
import { type RequestMemoryBudget } from './request-body.js'
import { sendFailure, type ListenerContext, sendResponse } from './send-response.js'
import { traceIdOf, beginTrace } from './request-tracing.js'

// Forwards listed headers only: credentials, cookies and hop-by-hop headers never go upstream (law 9: credentials
// stay).
const keyedHeaderNames = ['accept', 'accept-encoding']
// Forwards tracestate only beside a valid traceparent (W3C Trace Context, section 3.3).
const traceHeaderNames = ['traceparent', 'tracestate']

/** Body of a response as the plugin expects it. */
interface PluginBody {
  readonly response: UpstreamResponse
  destroy(): void
}

// Key of the forwarding function among the headers, which the plugin copies. An async context would make every promise
// slower.
const forwardKey = Symbol('forward')

/** Headers as the plugin passes them on, with the function that forwards the request. */
type PluginHeaders = IncomingHttpHeaders & { readonly [forwardKey]: () => Promise<UpstreamResponse> }

// Satisfies the plugin, which requires a URL; the upstream pool chooses the real one.
const placeholderUpstream = 'http://upstream'

/**
 * Forwards requests to the target that `choose` returns; `choose` may also serve the request itself. The plugin must
 * not retry, open connections or set headers.
 */
export function registerPassThrough (
  app: FastifyInstance,
  context: ListenerContext,
  requestMemoryBudget: RequestMemoryBudget,
  choose: (request: FastifyRequest, reply: FastifyReply) => Promise<string | undefined>
): void {
  const targets = new WeakMap<FastifyRequest, string>()
  app.register(fastifyHttpProxy, {
    upstream: placeholderUpstream,
    routes: ['*'],
    proxyPayloads: false,
    disableRequestLogging: true,
    preRewrite: () => indexTarget,
    undici: { request: forwardForPlugin as never },
    preHandler: async (request: FastifyRequest, reply: FastifyReply) => {
      const target = await choose(request, reply)
      if (target !== undefined) targets.set(request, target)
    },
    handler: (request, reply, dest, options) =>
      reply.from(dest, {
        ...options,
        // Hides the body from the plugin, which would parse target and body, and print them again (law 2: bytes are
        // sacred).
        ...(request.method === 'POST' && { body: null }),
        rewriteRequestHeaders: (_request, headers): PluginHeaders => ({
          [forwardKey]: forwarderOf(context, request, reply, headers, targets.get(request) ?? '', requestMemoryBudget)
        })
      }),
    replyOptions: {
      // Never retries, because the plugin would send a failed read to a busy upstream ten more times.
      retryDelay: () => null,
      rewriteHeaders: () => ({}),
      onResponse: (request, reply, response) => {
        const { response: upstreamResponse } = response.stream as unknown as PluginBody
        const exchange = hijackExchange(request as FastifyRequest, reply as FastifyReply, context)
        try {
          const clientResponse = context.responseBuilder.respondForwarded(upstreamResponse)
          sendResponse(context, exchange, 'other', 'forwarded', clientResponse, upstreamResponse.source)
        } catch (error) {
          // Responds here, because the plugin would lose the error, and the client would wait for ever.
          sendFailure(context, exchange, error)
        }
      },
      onError: (reply, { error }) => {
        // Neither answers nor counts a request whose client has left.
        if (reply.raw.destroyed) {
          reply.hijack()
          return
        }
        const exchange = hijackExchange(reply.request as FastifyRequest, reply as FastifyReply, context)
        sendFailure(context, exchange, error.cause)
      }
    }
  })
}

/** Stands for the plugin's connection pool, of which the plugin uses no other method. */
function forwardForPlugin (
  { headers }: { readonly headers: PluginHeaders },
  done: (error: unknown, response?: object) => void
): void {
  headers[forwardKey]().then(
    // Caps the status for Fastify, which rejects higher ones; the client gets the upstream's own status.
    response =>
      done(null, {
        statusCode: Math.min(response.status, 599),
        headers: {},
        body: { response, destroy: () => response.rest?.destroy() } satisfies PluginBody
      }),
    done
  )
}

/**
 * Returns the function that forwards a request; `headers` are the client's without those that its Connection header
 * lists.
 */
function forwarderOf (
  { proxy, access, tracer }: ListenerContext,
  request: FastifyRequest,
  { raw, elapsedTime }: FastifyReply,
  headers: IncomingHttpHeaders,
  target: string,
  requestMemoryBudget: RequestMemoryBudget
): () => Promise<UpstreamResponse> {
  const { method, body, id } = request
  const { 'content-type': contentType, [minVersionHeader]: minVersion } = request.headers
  const bytes = requestMemoryBudget.of(raw, access.clientIdOf(request.raw))
  const clientGone = new AbortController()
  bytes.add({ release: () => clientGone.abort() })
  const span = tracer && beginTrace(tracer, request.raw, proxy.now() - elapsedTime)
  const client = { id: bytes.clientId, bytes, admit: access.chargeOf(request.raw)?.admit, span }
  const clientAddress = access.addressOf(request.raw)
  const isTraced = traceIdOf(headers) !== undefined
  const forwarded = {
    method,
    target,
    // Passes the minimum version to varve, which sends it to no upstream.
    minVersion,
    headers: {
      ...pickHeaders(headers, name => keyedHeaderNames.includes(name)),
      ...(contentType !== undefined && { 'content-type': contentType })
    },
    callerHeaders: {
      ...pickHeaders(headers, name => namesCaller(name) || (isTraced && traceHeaderNames.includes(name))),
      ...(clientAddress !== undefined && { 'x-forwarded-for': clientAddress }),
      ...(span !== undefined && { traceparent: span.traceparent }),
      [requestIdHeader]: id
    },
    body: Buffer.isBuffer(body) ? body : undefined
  }
  return async () => await forwardUnknownRoute(proxy, forwarded, client, clientGone.signal)
}

// Excludes a client's own `x-forwarded-client`, which would pass for a claim of a proxy.
function namesCaller (name: string): boolean {
  return name === 'user-agent' || (isSdkHeaderName(name) && !name.startsWith('x-forwarded-'))
}

function pickHeaders (headers: IncomingHttpHeaders, isWanted: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' && isWanted(name) ? [[name, value]] : []
    )
  )
}
