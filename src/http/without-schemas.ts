import { type FastifyServerOptions } from 'fastify'

function reject (): never {
  throw new Error('routes have no schemas here: loading the compilers would delay each start')
}

/** Fastify options that leave out the schema compilers, which no route uses and which take long to load. */
export const withoutSchemas: Pick<FastifyServerOptions, 'schemaController'> = {
  schemaController: { compilersFactory: { buildValidator: reject, buildSerializer: reject } }
}
