import { type IncomingHttpHeaders } from 'node:http'
import { fastifyHttpProxy } from '@fastify/http-proxy'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { type ForwardedRequest, forwardUnknownRoute } from '../proxy/forward-unknown-route.js'
import { type ReadClient } from '../proxy/pinned-read.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { isSdkHeaderName } from '../api/sdk-header-name.js'
import { minVersionHeader } from '../api/min-version.js'
import { indexTarget } from '../api/request-targets.js'
import { clientAddressOf } from './client-address.js'
import { hijackExchange } from './http-exchange.js'
import { requestIdHeader } from './request-ids.js'
import { type RequestMemoryBudget } from './request-body.js'
import { sendFailure, type ListenerContext, sendResponse } from './send-response.js'
import { traceIdOf, beginTrace } from './request-tracing.js'

/** A request to forward, passed beside the plugin, which would parse and print its target again. */
interface PassThroughRequest {
  readonly target: string
  /** The client's own Content-Type; the plugin would replace it. */
  readonly contentType: string | undefined
  /** Minimum version of the response; a header for varve, not for upstreams. */
  readonly minVersion: string | string[] | undefined
  /** Address that the connection or a trusted proxy reports, never the client's own claim. */
  readonly clientAddress: string | undefined
  readonly requestId: string
  /** Names the span of this request to the upstream; undefined if it is not traced. */
  readonly traceparent: string | undefined
  readonly client: ReadClient
  readonly signal: AbortSignal
}

/** Serves a request itself, or returns the target to forward it to. */
export type ChooseTarget = (request: FastifyRequest, reply: FastifyReply) => Promise<string | undefined>

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

// Attaches to the headers, which the plugin copies; an async context would make every promise slower.
const passThroughKey = Symbol('pass-through')

// The plugin requires a URL; the upstream pool chooses the real one.
const placeholderUpstream = 'http://upstream'

/** Forwards requests that `choose` does not serve. The plugin must not retry, open connections or set headers. */
export function registerPassThrough (
  app: FastifyInstance,
  context: ListenerContext,
  requestMemoryBudget: RequestMemoryBudget,
  choose: ChooseTarget
): void {
  const targets = new WeakMap<FastifyRequest, string>()
  const fetch = async (
    pluginRequest: Omit<ForwardedRequest, 'target' | 'minVersion'>,
    { target, contentType, minVersion, client, signal }: PassThroughRequest
  ): Promise<UpstreamResponse> => {
    const headers = { ...pluginRequest.headers, ...(contentType !== undefined && { 'content-type': contentType }) }
    return await forwardUnknownRoute(context.proxy, { ...pluginRequest, headers, target, minVersion }, client, signal)
  }
  app.register(fastifyHttpProxy, {
    upstream: placeholderUpstream,
    routes: ['*'],
    proxyPayloads: false,
    disableRequestLogging: true,
    preRewrite: () => indexTarget,
    undici: { request: pluginPoolFor(fetch) },
    preHandler: async (request: FastifyRequest, reply: FastifyReply) => {
      const target = await choose(request, reply)
      if (target !== undefined) targets.set(request, target)
    },
    handler: (request, reply, dest, options) => {
      const clientGone = new AbortController()
      const requestBytes = requestMemoryBudget.of(reply.raw, context.access.clientIdOf(request))
      requestBytes.add({
        release: () => {
          clientGone.abort()
        }
      })
      const { tracer, proxy } = context
      const trace = tracer && beginTrace(tracer, request.raw, proxy.now() - reply.elapsedTime)
      const { 'content-type': contentType, [minVersionHeader]: minVersion } = request.headers
      const passThroughRequest: PassThroughRequest = {
        target: targets.get(request) ?? '',
        contentType,
        minVersion,
        clientAddress: clientAddressOf(request),
        requestId: request.id,
        traceparent: trace?.traceparent,
        client: {
          id: requestBytes.clientId,
          bytes: requestBytes,
          admit: context.access.chargeOf(request)?.admit,
          span: trace?.root
        },
        signal: clientGone.signal
      }
      return reply.from(dest, {
        ...options,
        ...bodyOf(request),
        rewriteRequestHeaders: (_request, headers) => ({ ...headers, [passThroughKey]: passThroughRequest })
      })
    },
    replyOptions: {
      // Never retries: the plugin would send a failed read to a busy upstream ten more times.
      retryDelay: () => null,
      rewriteHeaders: () => ({}),
      onResponse: (request, reply, response) => {
        const { response: upstreamResponse } = response.stream as unknown as PluginBody
        const exchange = hijackExchange(request as FastifyRequest, reply as FastifyReply, context)
        try {
          const clientResponse = context.responseBuilder.respondForwarded(upstreamResponse)
          sendResponse(context, exchange, 'other', 'forwarded', clientResponse, upstreamResponse.source)
        } catch (error) {
          // Catches here: the plugin would lose the error, and the client would wait forever.
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

/** Makes the connection pool that the plugin expects; it fetches through our upstream pool. */
function pluginPoolFor (
  fetch: (
    pluginRequest: Omit<ForwardedRequest, 'target' | 'minVersion'>,
    passThroughRequest: PassThroughRequest
  ) => Promise<UpstreamResponse>
): never {
  const request = (
    options: {
      method: string,
      headers: IncomingHttpHeaders & { readonly [passThroughKey]: PassThroughRequest },
      body?: Buffer
    },
    done: (error: unknown, response?: object) => void
  ): void => {
    const headers = pickHeaders(options.headers, name => keyedHeaderNames.includes(name))
    const { clientAddress, requestId, traceparent } = options.headers[passThroughKey]
    const isTraced = traceIdOf(options.headers) !== undefined
    const callerHeaders = {
      ...pickHeaders(
        options.headers,
        name => namesCaller(name) || (isTraced && traceHeaderNames.includes(name))
      ),
      ...(clientAddress !== undefined && { 'x-forwarded-for': clientAddress }),
      ...(traceparent !== undefined && { traceparent }),
      [requestIdHeader]: requestId
    }
    fetch({ method: options.method, headers, callerHeaders, body: options.body }, options.headers[passThroughKey]).then(
      // Caps the status for Fastify, which rejects higher ones; the client gets the upstream's own.
      upstreamResponse => {
        done(null, {
          statusCode: Math.min(upstreamResponse.status, 599),
          headers: {},
          body: {
            response: upstreamResponse,
            destroy: () => {
              upstreamResponse.rest?.destroy()
            }
          } satisfies PluginBody
        })
      },
      error => {
        done(error)
      }
    )
  }
  // The plugin uses no other method of a pool.
  return request as never
}

// A client's own `x-forwarded-client` would pass for a claim of a proxy.
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

// Sets a content type: without one the plugin would print the body as the JSON of a Buffer (law 2: bytes are sacred).
function bodyOf ({ method, body }: FastifyRequest): { body?: Buffer | null, contentType?: string } {
  if (method !== 'POST') return {}
  return Buffer.isBuffer(body) ? { body, contentType: 'application/octet-stream' } : { body: null }
}
