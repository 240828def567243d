import { createHash, timingSafeEqual } from 'node:crypto'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { readBearerToken } from '../clients/api-keys.js'
import { clientAddressOf } from './client-address.js'
import { disabledError, webFrameworkError } from '../api/error-response.js'

/** Result of a purge. */
export interface PurgeResult {
  /** True if every replica was notified; otherwise they are once the shared tier is up. */
  readonly everywhere: boolean
  /** Present if no tier of this varve had any of the read. */
  readonly stored?: false
  readonly space?: string | undefined
}

/** A call of the admin listener, and the address of its sender; a unix socket has none. */
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

/** Adds POST /purge; without a configured token every call is 403. */
export function addPurgeRoute (app: FastifyInstance, options: PurgeRouteOptions): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    done(null, body)
  })
  app.post('/purge', {
    onRequest: async request => {
      requireToken(request, options)
    }
  }, async (request, reply): Promise<FastifyReply> => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const purged = await options.purge(body)
    options.log?.purged(callOf(request), body, purged)
    // 202: accepted, while some replicas are still to be notified.
    return await reply.code(purged.everywhere ? 200 : 202).send({ purged: true, ...purged })
  })
}

/** Throws an ErrorResponse unless a token is configured and the request has it. */
export function requireToken (
  request: FastifyRequest,
  { token: tokenNow, log }: Pick<PurgeRouteOptions, 'token' | 'log'>
): void {
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
  return { clientAddress: clientAddressOf(request), method: request.method, url: request.url }
}

// Hashes first, so that the comparison takes the same time for every token.
function digestOf (text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
