import { createHash, timingSafeEqual } from 'node:crypto'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { bearerIn } from '../clients/client-keys.js'
import { Refusal } from '../api/refusal.js'

/** What came of a purge. */
export interface Purged {
  /** Whether every replica has been told; else they are as soon as Redis answers. */
  readonly everywhere: boolean
  readonly generation?: number
}

/** Who is allowed to purge, and who does it. */
export interface PurgeRoute {
  readonly token: () => string | null
  purge(body: Buffer): Promise<Purged>
}

/** The one call that changes something; without a token in the configuration nobody may. */
export function addPurgeRoute (app: FastifyInstance, { token, purge }: PurgeRoute): void {
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
    // Taken, but not all of it is done yet.
    return await reply.code(purged.everywhere ? 200 : 202).send({ purged: true, ...purged })
  })
}

function requireToken ({ headers }: FastifyRequest, token: string | null): void {
  if (token === null) {
    throw new Refusal(403, 'api_disabled', 'changing calls are refused: admin.token is not configured')
  }
  const given = bearerIn(headers.authorization) ?? ''
  if (!timingSafeEqual(digestOf(given), digestOf(token))) {
    throw new Refusal(401, 'web_framework_error', 'expected the admin token: Authorization: Bearer TOKEN', [
      'www-authenticate',
      'Bearer'
    ])
  }
}

// Of one length whatever was given, so that the comparison takes the same time.
function digestOf (text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
