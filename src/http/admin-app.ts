import { type AddressInfo, isIP } from 'node:net'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { fastify, type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { isLoopback } from '../config/ip-networks.js'
import { readAcceptEncoding } from '../api/accept-encoding.js'
import { disabledError, type ErrorResponse, webFrameworkError } from '../api/error-response.js'
import { InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { ConnectionLimiter } from './connection-limiter.js'
import { respondToClientError, type UnroutedErrorOptions, toErrorResponse } from './client-errors.js'
import { addPurgeRoute, type PurgeRouteOptions, requireToken } from './purge-route.js'
import { type Readiness } from './status.js'
import { headerTimeouts, serverTimeouts, withoutSchemas } from './listener.js'
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8'
}
// Allows only this listener's own files: the page shows upstreams' texts, which must never run.
const headers = {
  'content-security-policy':
    'default-src \'none\'; script-src \'self\'; style-src \'self\'; connect-src \'self\'; img-src \'self\' ' +
    'data:; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\'',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin'
}

/** Sources and actions of the admin listener. */
export interface AdminOptions {
  readonly metrics: { readonly contentType: string, text(): Promise<string> }
  readiness(): Promise<Readiness>
  status(): Promise<object>
  /** Returns the effective settings, secrets masked. */
  config(): object
  readonly purgeRoute: PurgeRouteOptions
  /** Takes an upstream out of service, or back in; returns false if there is none of that name. */
  setCordoned(upstream: string, isCordoned: boolean): Promise<boolean>
  /** Returns `admin.hosts`: names that a Host header may carry on a loopback listener. */
  readonly hosts?: () => readonly string[]
  /** Reports an error that is answered 500. */
  onUnexpectedError(error: unknown): void
  /** Reports new connections that were closed because all open ones were busy. */
  onFull?(rejected: number, limit: number): void
}

// Law 10: nothing grows without bound. Prometheus, probes and people need a few connections.
const maxInFlightBytes = 64 * 1024 * 1024
const maxConnections = 64
const tickMs = 1000

const unrouted: UnroutedErrorOptions = { rawHeaders: [], onResponded: () => {} }

// Compresses on the thread pool: the event loop serves clients.
const gzipAsync = promisify<string, Buffer>(gzip)

/** Log message for connections that the admin listener closed at its limit. */
export const adminFullMessage = 'admin listener full: all connections are busy, new ones are closed'

/** Builds the admin listener: separate from the public one, so that a firewall can keep clients away. */
export function adminApp (options: AdminOptions): FastifyInstance {
  const { metrics, readiness, status, config, purgeRoute, onUnexpectedError } = options
  const app = fastify({
    ...serverTimeouts,
    ...withoutSchemas,
    http: headerTimeouts,
    forceCloseConnections: true,
    clientErrorHandler: (error, socket) => {
      respondToClientError(error, socket, unrouted)
    }
  })
  limitConnections(app, options)
  requireKnownHost(app, options)
  app.get('/metrics', async (request, reply) => {
    const text = await metrics.text()
    reply.type(metrics.contentType).header('vary', 'Accept-Encoding')
    if (!readAcceptEncoding(request.headers['accept-encoding']).includes('gzip')) return await reply.send(text)
    return await reply.header('content-encoding', 'gzip').send(await gzipAsync(text))
  })
  app.get('/healthz', async () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    const current = await readiness()
    return await reply.code(current.ready ? 200 : 503).send(current)
  })
  app.get(
    '/status.json',
    async (_request, reply) =>
      await reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }).send(await status())
  )
  // Needs the token, because the settings name upstreams and limits that other readers of the listener need not know.
  app.get('/config', {
    onRequest: async request => {
      requireToken(request, purgeRoute)
    }
  }, async (_request, reply) => await reply.header('cache-control', 'no-store').send(config()))
  addStatusPageRoutes(app)
  addPurgeRoute(app, purgeRoute)
  addCordonRoutes(app, options)
  app.setErrorHandler(async (error: FastifyError, _request, reply) => {
    const errorResponse = toErrorResponse(error)
    if (errorResponse.status === 500) onUnexpectedError(error)
    return await sendErrorReply(reply, errorResponse)
  })
  app.setNotFoundHandler(async (request, reply) => {
    // Rejects every changing call with 403, whatever its path, so that probing finds no route.
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return await sendErrorReply(
        reply,
        disabledError('the changing calls are POST /purge, POST /upstreams/NAME/cordon and /uncordon')
      )
    }
    return await sendErrorReply(
      reply,
      webFrameworkError(
        404,
        'not found; the admin listener serves /metrics, /healthz, /readyz, /status, /status.json, /config, ' +
          'POST /purge, POST /upstreams/NAME/cordon and POST /upstreams/NAME/uncordon'
      )
    )
  })
  return app
}

/** Adds POST /upstreams/NAME/cordon and /uncordon; without a configured token every call is 403. */
function addCordonRoutes (app: FastifyInstance, { purgeRoute, setCordoned }: AdminOptions): void {
  for (const [action, isCordoned] of [['cordon', true], ['uncordon', false]] as const) {
    app.post<{ Params: { name: string } }>(`/upstreams/:name/${action}`, {
      onRequest: async request => {
        requireToken(request, purgeRoute)
      }
    }, async ({ params: { name } }, reply) => {
      if (!await setCordoned(name, isCordoned)) throw webFrameworkError(404, 'no upstream of this name')
      return await reply.send({ upstream: name, cordoned: isCordoned })
    })
  }
}

function limitConnections (app: FastifyInstance, { onFull = () => {} }: AdminOptions): void {
  // Needs no clock: nothing asks it for how long it was short.
  const inFlight = new InFlightBytes(maxInFlightBytes, () => 0)
  const connections = new ConnectionLimiter({ connections: maxConnections, inFlight }, {
    cut: () => {},
    onFull
  })
  connections.attach(app.server)
  const timer = setInterval(() => {
    connections.tick()
  }, tickMs).unref()
  app.addHook('onClose', async () => {
    clearInterval(timer)
  })
}

/** Rejects DNS rebinding on a loopback listener; other listeners are reached by any name on purpose. */
function requireKnownHost (app: FastifyInstance, { hosts = () => [] }: AdminOptions): void {
  app.addHook('onRequest', async ({ headers: { host } }, reply) => {
    // Browsers always send Host; simple HTTP/1.0 health checks send none.
    if (host === undefined || !isBoundToLoopback(app) || isKnownHost(host, hosts())) return
    return await sendErrorReply(
      reply,
      webFrameworkError(
        403,
        'unknown Host: expected an IP address, localhost or a name in admin.hosts; if the name is yours, add it there'
      )
    )
  })
}

function isBoundToLoopback (app: FastifyInstance): boolean {
  const address = app.server.address() as AddressInfo | null
  return address !== null && isLoopback(address.address)
}

async function sendErrorReply (reply: FastifyReply, errorResponse: ErrorResponse): Promise<FastifyReply> {
  for (const [at, name] of errorResponse.rawHeaders.entries()) {
    if (at % 2 === 0) reply.header(name, errorResponse.rawHeaders[at + 1])
  }
  return await reply.code(errorResponse.status).type('application/json').send(errorResponse.body)
}

/**
 * Returns true if a loopback listener trusts a Host header. DNS rebinding sends the attacker's name, never an
 * address, localhost or a configured name.
 */
function isKnownHost (host: string, names: readonly string[]): boolean {
  const [, bracketed, plain = ''] = /^(?:\[([^\]]*)\]|([^:[\]]+))(?::[0-9]*)?$/.exec(host) ?? []
  if (bracketed !== undefined) return isIP(bracketed) === 6
  const name = plain.toLowerCase()
  return isIP(name) === 4 || name === 'localhost' || names.some(known => known.toLowerCase() === name)
}

/** Adds the status page with its files, read once at start. */
function addStatusPageRoutes (app: FastifyInstance): void {
  const folder = join(import.meta.dirname, 'page')
  for (const name of readdirSync(folder)) {
    const body = readFileSync(join(folder, name))
    const type = types[extname(name)]
    // The page links its files by relative URLs, so that a proxy may serve it under a prefix.
    app.get(
      name === 'status.html' ? '/status' : `/status/${name}`,
      async (_request, reply) => await reply.headers({ ...headers, 'content-type': type }).send(body)
    )
  }
}
