import { fastify, type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { Refusal } from '../reads/refusal.js'
import { addPurgeRoute, type PurgeRoute } from './purge-route.js'
import { refusalOf } from './refusal-of.js'
import { type Readiness } from './status.js'
import { addStatusPage } from './status-page.js'

/** What the admin listener shows and does. */
export interface AdminParts {
  readonly metrics: { readonly contentType: string, text (): Promise<string> }
  readiness (): Promise<Readiness>
  status (): Promise<object>
  readonly purging: PurgeRoute
  /** A question of an operator has failed in a way that nobody foresaw. */
  onUnforeseen (error: unknown): void
}

/** The admin listener, apart from the public one so that the two can be reached by different people. */
export function adminApp ({ metrics, readiness, status, purging, onUnforeseen }: AdminParts): FastifyInstance {
  const app = fastify({ forceCloseConnections: true })
  app.get('/metrics', async (_request, reply) => {
    return await reply.type(metrics.contentType).send(await metrics.text())
  })
  app.get('/healthz', async () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    const now = await readiness()
    return await reply.code(now.ready ? 200 : 503).send(now)
  })
  app.get('/status.json', async (_request, reply) => await reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }).send(await status()))
  addStatusPage(app)
  addPurgeRoute(app, purging)
  app.setErrorHandler(async (error: FastifyError, _request, reply) => {
    const refusal = refusalOf(error)
    if (refusal.status === 500) onUnforeseen(error)
    return await refuse(reply, refusal)
  })
  app.setNotFoundHandler(async (request, reply) => {
    // A call that would change something is refused whatever it is called.
    if (request.method !== 'GET' && request.method !== 'HEAD') return await refuse(reply, new Refusal(403, 'api_disabled', 'the only changing call is POST /purge'))
    return await refuse(reply, new Refusal(404, 'web_framework_error', 'not found; the admin listener serves /metrics, /healthz, /readyz, /status, /status.json and POST /purge'))
  })
  return app
}

async function refuse (reply: FastifyReply, refusal: Refusal): Promise<FastifyReply> {
  for (const [at, name] of refusal.lines.entries()) if (at % 2 === 0) reply.header(name, refusal.lines[at + 1])
  return await reply.code(refusal.status).type('application/json').send(refusal.body)
}
