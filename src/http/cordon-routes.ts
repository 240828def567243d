import { type FastifyInstance } from 'fastify'
import { webFrameworkError } from '../api/error-response.js'
import { requireToken } from './purge-route.js'

/** Admin token and action of the cordon routes. */
export interface CordonRoutesOptions {
  readonly token: () => string | null
  /** Takes an upstream out of service, or back in; returns false if there is none of that name. */
  setCordoned(upstream: string, isCordoned: boolean): Promise<boolean>
}

/** Adds POST /upstreams/NAME/cordon and /uncordon; without a configured token every call is 403. */
export function addCordonRoutes (app: FastifyInstance, { token, setCordoned }: CordonRoutesOptions): void {
  for (const [action, isCordoned] of [['cordon', true], ['uncordon', false]] as const) {
    app.post<{ Params: { name: string } }>(`/upstreams/:name/${action}`, {
      onRequest: async request => {
        requireToken(request, token())
      }
    }, async ({ params: { name } }, reply) => {
      if (!await setCordoned(name, isCordoned)) throw webFrameworkError(404, 'no upstream of this name')
      return await reply.send({ upstream: name, cordoned: isCordoned })
    })
  }
}
