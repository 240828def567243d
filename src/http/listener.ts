import { type FastifyServerOptions } from 'fastify'

/** Timeouts of a listener, which cut clients that send a request a byte at a time within seconds. */
export const serverTimeouts = {
  requestTimeout: 7000,
  // Exceeds nginx's 60 s, so that load balancers close a connection first: a request that crosses our close is lost.
  keepAliveTimeout: 72_000
} as const

/** Timeouts that Fastify passes to Node's server as they are. */
export const headerTimeouts = { headersTimeout: 5000, connectionsCheckingInterval: 500 } as const

function reject (): never {
  throw new Error('routes have no schemas here: loading the compilers would delay each start')
}

/** Fastify options that leave out the schema compilers, which no route uses and which take long to load. */
export const withoutSchemas: Pick<FastifyServerOptions, 'schemaController'> = {
  schemaController: { compilersFactory: { buildValidator: reject, buildSerializer: reject } }
}

/** Flag of a process that shuts down: every response then closes its connection, so that no request is lost. */
export interface DrainFlag {
  isDraining: boolean
}
