import { createHash, timingSafeEqual } from 'node:crypto'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { readBearerToken } from '../clients/api-keys.js'
import { disabledError, webFrameworkError } from '../api/error-response.js'

/** Result of a purge. */
export interface PurgeResult {
  /** True if every replica was notified; otherwise they are once the shared tier is up. */
  readonly everywhere: boolean
  readonly generation?: number
}

/** Admin token and action of the purge route. */
export interface PurgeRouteOptions {
  readonly token: () => string | null
  purge(body: Buffer): Promise<PurgeResult>
}

/** Adds POST /purge; without a configured token every call is 403. */
export function addPurgeRoute (app: FastifyInstance, { token, purge }: PurgeRouteOptions): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    done(null, body)
  })
  app.post('/purge', {
    onRequest: async request => {
      requireToken(request, token())
    }
  }, async (request, reply): Promise<FastifyReply> => {
    const purged = await purge(Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0))
    // 202: accepted, while some replicas are still to be notified.
    return await reply.code(purged.everywhere ? 200 : 202).send({ purged: true, ...purged })
  })
}

/** Throws an ErrorResponse unless a token is configured and the request has it. */
export function requireToken ({ headers }: FastifyRequest, token: string | null): void {
  if (token === null) {
    throw disabledError('calls that need a token are rejected: admin.token is not configured')
  }
  const sentToken = readBearerToken(headers.authorization) ?? ''
  if (!timingSafeEqual(digestOf(sentToken), digestOf(token))) {
    throw webFrameworkError(401, 'expected the admin token: Authorization: Bearer TOKEN', [
      'www-authenticate',
      'Bearer'
    ])
  }
}

// Hashes first, so that the comparison takes the same time for every token.
function digestOf (text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
