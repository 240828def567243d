import { createHash, timingSafeEqual } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, isIP } from 'node:net'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { fastify, type FastifyError, type FastifyInstance, type FastifyRequest } from 'fastify'
import { readBearerToken } from '../clients/api-keys.js'
import { isLoopback } from '../config/ip-networks.js'
import { readAcceptEncoding } from '../api/accept.js'
import { disabledError, webFrameworkError } from '../api/error-response.js'
import { InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { clientAddressOf } from './client-address.js'
import { ConnectionLimiter } from './connection-limiter.js'
import { respondToClientError, type UnroutedErrorOptions, toErrorResponse } from './client-errors.js'
import { type OverallStatus } from './status.js'
import { headerTimeouts, serverTimeouts, withoutSchemas } from './listener.js'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8'
}
// Allows only files of this listener: the page shows texts of upstreams, which must never run as script.
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

/** Result of a purge. */
export interface PurgeResult {
  /** True if every replica was notified; otherwise the others learn of the purge once the shared tier is up. */
  readonly everywhere: boolean
  /** Present if no tier of this varve had an entry of the read. */
  readonly stored?: false
  readonly space?: string | undefined
}

/** Result of a reload, with full keys; or every mistake, in which case nothing has changed. */
export type ReloadResult =
  | { readonly reloaded: true, readonly changed: readonly string[], readonly needsRestart: readonly string[] }
  | { readonly reloaded: false, readonly mistakes: readonly string[] }

/** Call of the admin listener, with the sender's address; undefined for a unix socket. */
export interface AdminCall {
  readonly clientAddress: string | undefined
  readonly method: string
  readonly url: string
}

/** Log of purges and of rejected tokens. */
export interface AdminLog {
  purged(call: AdminCall, body: Buffer, result: PurgeResult): void
  tokenRejected(call: AdminCall, status: 401 | 403): void
}

/** Admin token and action of the purge route. */
export interface PurgeRouteOptions {
  readonly token: () => string | null
  readonly log?: AdminLog
  purge(body: Buffer): Promise<PurgeResult>
}

/** Sources and actions of the admin listener. */
export interface AdminOptions {
  readonly metrics: { readonly contentType: string, text(): Promise<string> }
  /** Returns the body of /status.json; /readyz shows a part of it. */
  status(): Promise<
    Omit<OverallStatus, 'conditions'> & { readonly position?: { readonly headAgeMs: number } | undefined }
  >
  /** Returns the effective settings, secrets masked. */
  config(): object
  readonly purgeRoute: PurgeRouteOptions
  /** Reads the configuration again, as SIGHUP does. */
  reload(): Promise<ReloadResult>
  /** Takes an upstream out of service, or back in; returns false if no upstream has this name. */
  setCordoned(upstream: string, isCordoned: boolean): Promise<boolean>
  /** Returns `admin.hosts`: names that a Host header may carry on a loopback listener. */
  readonly hosts?: () => readonly string[]
  /** Reports an error that is answered 500. */
  onUnexpectedError(error: unknown): void
  /** Reports new connections that were closed because all others were busy. */
  onFull?(rejected: number, limit: number): void
}

// Bounds memory and connections (law 10: nothing grows without bound): Prometheus, probes and people need few.
const maxInFlightBytes = 64 * 1024 * 1024
const maxConnections = 64
const tickMs = 1000

const unrouted: UnroutedErrorOptions = { rawHeaders: [], onResponded: () => {} }

// Compresses on the thread pool, because the event loop serves clients.
const gzipAsync = promisify<string, Buffer>(gzip)

/** Log message for connections that the admin listener closed at its limit. */
export const adminFullMessage = 'admin listener full: all connections are busy, new ones are closed'

/** Builds the admin listener: separate from the public one, so that a firewall can keep clients away. */
export function adminApp (options: AdminOptions): FastifyInstance {
  const { metrics, status, config, purgeRoute, reload, setCordoned, onUnexpectedError } = options
  // Requires the admin token: without a configured one every call gets 403.
  const withToken = { onRequest: async (request: FastifyRequest) => requireToken(request, purgeRoute) }
  const app = fastify({
    ...serverTimeouts,
    ...withoutSchemas,
    http: headerTimeouts,
    forceCloseConnections: true,
    clientErrorHandler: (error, socket) => respondToClientError(error, socket, unrouted)
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
    const { ready, level, degraded, position } = await status()
    return await reply.code(ready ? 200 : 503).send({ ready, level, degraded, headAgeMs: position?.headAgeMs })
  })
  app.get(
    '/status.json',
    async (_request, reply) =>
      await reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }).send(await status())
  )
  // Needs the token, because the settings name upstreams and limits that other readers of the listener need not know.
  app.get(
    '/config',
    withToken,
    async (_request, reply) => await reply.header('cache-control', 'no-store').send(config())
  )
  addStatusPageRoutes(app)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.post('/purge', withToken, async (request, reply) => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const purged = await purgeRoute.purge(body)
    purgeRoute.log?.purged(callOf(request), body, purged)
    // Responds 202 (accepted) while some replicas are still to be notified.
    return await reply.code(purged.everywhere ? 200 : 202).send({ purged: true, ...purged })
  })
  app.post('/reload', withToken, async (_request, reply) => {
    const result = await reload()
    return await reply.code(result.reloaded ? 200 : 400).send(result)
  })
  for (const [action, isCordoned] of [['cordon', true], ['uncordon', false]] as const) {
    app.post<{ Params: { name: string } }>(`/upstreams/:name/${action}`, withToken, async ({ params: { name } }) => {
      if (!await setCordoned(name, isCordoned)) throw webFrameworkError(404, 'no upstream of this name')
      return { upstream: name, cordoned: isCordoned }
    })
  }
  app.setErrorHandler(async (error: FastifyError, _request, reply) => {
    const { status: code, rawHeaders, body } = toErrorResponse(error)
    if (code === 500) onUnexpectedError(error)
    for (let at = 0; at < rawHeaders.length; at += 2) reply.header(rawHeaders[at] ?? '', rawHeaders[at + 1])
    return await reply.code(code).type('application/json').send(body)
  })
  app.setNotFoundHandler(async ({ method }) => {
    // Rejects every changing call with 403, whatever its path, so that probing finds no route.
    if (method !== 'GET' && method !== 'HEAD') {
      throw disabledError('the changing calls are POST /purge, POST /reload, POST /upstreams/NAME/cordon and /uncordon')
    }
    throw webFrameworkError(
      404,
      'not found; the admin listener serves /metrics, /healthz, /readyz, /status, /status.json, /config, ' +
        'POST /purge, POST /reload, POST /upstreams/NAME/cordon and POST /upstreams/NAME/uncordon'
    )
  })
  return app
}

/** Throws an ErrorResponse unless a token is configured and the request has it. */
function requireToken (request: FastifyRequest, { token: tokenNow, log }: PurgeRouteOptions): void {
  const token = tokenNow()
  if (token === null) {
    log?.tokenRejected(callOf(request), 403)
    throw disabledError('calls that need a token are rejected: admin.token is not configured')
  }
  const sentToken = readBearerToken(request.headers.authorization) ?? ''
  if (!timingSafeEqual(digestOf(sentToken), digestOf(token))) {
    log?.tokenRejected(callOf(request), 401)
    throw webFrameworkError(401, 'expected the admin token: Authorization: Bearer TOKEN', [
      'www-authenticate',
      'Bearer'
    ])
  }
}

function callOf (request: FastifyRequest): AdminCall {
  return { clientAddress: clientAddressOf(request.raw), method: request.method, url: request.url }
}

// Hashes both texts first, so that the comparison takes the same time for every token.
function digestOf (text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function limitConnections (app: FastifyInstance, { onFull = () => {} }: AdminOptions): void {
  // Passes no real clock, because nothing asks how long bytes were short.
  const inFlight = new InFlightBytes(maxInFlightBytes, () => 0)
  const connections = new ConnectionLimiter({ connections: maxConnections, inFlight }, { cut: () => {}, onFull })
  connections.attach(app.server)
  const timer = setInterval(() => connections.tick(), tickMs).unref()
  app.addHook('onClose', async () => clearInterval(timer))
}

/** Rejects DNS rebinding on a loopback listener; other listeners are reached by any name on purpose. */
function requireKnownHost (app: FastifyInstance, { hosts = () => [] }: AdminOptions): void {
  app.addHook('onRequest', async ({ headers: { host } }) => {
    // Accepts a request without Host: browsers always send one, simple HTTP/1.0 health checks do not.
    if (host === undefined || !isBoundToLoopback(app) || isKnownHost(host, hosts())) return
    throw webFrameworkError(
      403,
      'unknown Host: expected an IP address, localhost or a name in admin.hosts; if the name is yours, add it there'
    )
  })
}

function isBoundToLoopback (app: FastifyInstance): boolean {
  const address = app.server.address() as AddressInfo | null
  return address !== null && isLoopback(address.address)
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
    // Serves files beside the page, which links them by relative URLs, so that a proxy may serve all under a prefix.
    app.get(
      name === 'status.html' ? '/status' : `/status/${name}`,
      async (_request, reply) => await reply.headers({ ...headers, 'content-type': type }).send(body)
    )
  }
}
