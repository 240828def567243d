import { type AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { fastify, type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { isLoopback } from '../config/networks.js'
import { codingsFor } from '../api/coding.js'
import { Refusal } from '../api/refusal.js'
import { ClientConnections } from './client-connections.js'
import { answerClientErrors, type UnroutedErrors } from './client-errors.js'
import { isKnownHost } from './known-host.js'
import { addPurgeRoute, type PurgeRoute } from './purge-route.js'
import { refusalOf } from './refusal-of.js'
import { type Readiness } from './status.js'
import { addStatusPage } from './status-page.js'
import { httpTimeouts, serverTimeouts } from './timeouts.js'

/** What the admin listener shows and does. */
export interface AdminParts {
  readonly metrics: { readonly contentType: string, text(): Promise<string> }
  readiness(): Promise<Readiness>
  status(): Promise<object>
  readonly purging: PurgeRoute
  /** The configured names that a Host header may have on a loopback listener. */
  readonly hosts?: () => readonly string[]
  /** A question of an operator has failed in a way that nobody foresaw. */
  onUnforeseen(error: unknown): void
  /** Reports new connections that were closed because all were busy. */
  onFull?(turnedAway: number, limit: number): void
}

// Law 10: nothing grows without bound. Prometheus, probes and people need a few.
const mostInFlightBytes = 64 * 1024 * 1024
const mostConnections = 64
const tickMs = 1000

const unrouted: UnroutedErrors = { lines: [], answered: () => {} }

// Off the event loop, which has clients to serve.
const gzipped = promisify<string, Buffer>(gzip)

/** The log message for connections that found no room. */
export const adminIsFull = 'admin listener full: all connections are busy, new ones are closed'

/** The admin listener, apart from the public one so that the two can be reached by different people. */
export function adminApp (parts: AdminParts): FastifyInstance {
  const { metrics, readiness, status, purging, onUnforeseen } = parts
  const app = fastify({
    ...serverTimeouts,
    http: httpTimeouts,
    forceCloseConnections: true,
    clientErrorHandler: (error, socket) => {
      answerClientErrors(error, socket, unrouted)
    }
  })
  boundConnections(app, parts)
  requireKnownHost(app, parts)
  app.get('/metrics', async (request, reply) => {
    const text = await metrics.text()
    reply.type(metrics.contentType).header('vary', 'Accept-Encoding')
    if (!codingsFor(request.headers['accept-encoding']).includes('gzip')) return await reply.send(text)
    return await reply.header('content-encoding', 'gzip').send(await gzipped(text))
  })
  app.get('/healthz', async () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    const now = await readiness()
    return await reply.code(now.ready ? 200 : 503).send(now)
  })
  app.get(
    '/status.json',
    async (_request, reply) =>
      await reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }).send(await status())
  )
  addStatusPage(app)
  addPurgeRoute(app, purging)
  app.setErrorHandler(async (error: FastifyError, _request, reply) => {
    const refusal = refusalOf(error)
    if (refusal.status === 500) onUnforeseen(error)
    return await refuse(reply, refusal)
  })
  app.setNotFoundHandler(async (request, reply) => {
    // A call that would change something is refused whatever it is called.
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return await refuse(reply, new Refusal(403, 'api_disabled', 'the only changing call is POST /purge'))
    }
    return await refuse(
      reply,
      new Refusal(
        404,
        'web_framework_error',
        'not found; the admin listener serves /metrics, /healthz, /readyz, /status, /status.json and POST /purge'
      )
    )
  })
  return app
}

function boundConnections (app: FastifyInstance, { onFull = () => {} }: AdminParts): void {
  const connections = new ClientConnections({ connections: mostConnections, inFlightBytes: mostInFlightBytes }, {
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

/** Refuses pages that reach a loopback listener by a name of their own; others are reached by names on purpose. */
function requireKnownHost (app: FastifyInstance, { hosts = () => [] }: AdminParts): void {
  app.addHook('onRequest', async ({ headers: { host } }, reply) => {
    // A browser always sends Host; simple health checks of HTTP/1.0 do not.
    if (host === undefined || !isBoundToLoopback(app) || isKnownHost(host, hosts())) return
    return await refuse(
      reply,
      new Refusal(
        403,
        'web_framework_error',
        'unknown Host: expected an IP address, localhost or a name in admin.hosts; if the name is yours, add it there'
      )
    )
  })
}

function isBoundToLoopback (app: FastifyInstance): boolean {
  const address = app.server.address() as AddressInfo | null
  return address !== null && isLoopback(address.address)
}

async function refuse (reply: FastifyReply, refusal: Refusal): Promise<FastifyReply> {
  for (const [at, name] of refusal.lines.entries()) if (at % 2 === 0) reply.header(name, refusal.lines[at + 1])
  return await reply.code(refusal.status).type('application/json').send(refusal.body)
}
