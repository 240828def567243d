import { fastify, type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { type Tracker } from '../ledger/tracker.js'
import { type Metrics } from '../metrics.js'
import { type LedgerNode } from '../nodes/node.js'
import { Refusal } from '../reads/refusal.js'
import { type Drain } from './drain.js'
import { addPurgeRoute, type PurgeRoute } from './purge-route.js'
import { refusalOf } from './refusal-of.js'

/** What the admin listener shows and does. */
export interface AdminParts {
  readonly metrics: Metrics
  readonly tracker: Tracker
  readonly node: LedgerNode
  readonly drain: Drain
  readonly purging: PurgeRoute
  /** What is wrong with the tier that replicas share. */
  readonly degradedShare: () => readonly string[]
}

/** The admin listener, apart from the public one so that the two can be reached by different people. */
export function adminApp ({ metrics, tracker, node, drain, purging, degradedShare }: AdminParts): FastifyInstance {
  const app = fastify({ forceCloseConnections: true })
  app.get('/metrics', async (_request, reply) => {
    return await reply.type(metrics.registry.contentType).send(await metrics.registry.metrics())
  })
  app.get('/healthz', async () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    const degraded = [
      ...(drain.isDraining ? ['stopping'] : []),
      ...(tracker.position === undefined ? ['no node has been reached yet'] : []),
      ...(node.up ? [] : [`${node.name} does not answer`]),
      ...degradedShare()
    ]
    // History is served with every node gone, so a node that is down is a degradation and no reason to send clients away.
    const ready = !drain.isDraining && tracker.position !== undefined
    return await reply.code(ready ? 200 : 503).send({ ready, degraded })
  })
  addPurgeRoute(app, purging)
  app.setErrorHandler(async (error: FastifyError, _request, reply) => await refuse(reply, refusalOf(error)))
  app.setNotFoundHandler(async (request, reply) => {
    // A call that would change something is refused whatever it is called.
    if (request.method !== 'GET' && request.method !== 'HEAD') return await refuse(reply, new Refusal(403, 'api_disabled', 'the only changing call is POST /purge'))
    return await refuse(reply, new Refusal(404, 'web_framework_error', 'not found; the admin listener serves /metrics, /healthz, /readyz and POST /purge'))
  })
  return app
}

async function refuse (reply: FastifyReply, refusal: Refusal): Promise<FastifyReply> {
  for (const [at, name] of refusal.lines.entries()) if (at % 2 === 0) reply.header(name, refusal.lines[at + 1])
  return await reply.code(refusal.status).type('application/json').send(refusal.body)
}
