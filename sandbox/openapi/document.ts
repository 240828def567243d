import { type z } from 'zod'
import { routeKey, routes } from '../routes.js'
import { errorBody } from '../schema/error.js'
import { type Schemas, schemasOf } from './components.js'
import { type HeaderOfFamily, headersOfFamily, ownHeaders, positionHeaders } from './headers.js'
import { errorStatuses, type Operation, tags } from './operation.js'
import { operations } from './operations.js'
import { type ParameterKey, parameterPiece, parameters } from './parameters.js'
import { type Document, type Piece } from './piece.js'

/** What of a node's settings shows in its document. */
export interface DocumentSettings {
  readonly family: string
  readonly pathPrefix: string
}

const about = {
  title: 'Ledger node read API',
  version: '1',
  summary: 'What the embedded node of varve answers, to the letter.',
  description:
    'Every GET can be asked for by its head alone. Of a parameter given twice the first counts; unknown ones ' +
    'are ignored. ' +
    'A target that cannot be read, or is longer than 65,534 characters, is answered 400 or 414 without a body. ' +
    'To a request with an `Origin` the lines of CORS are added. ' +
    'Where a form can be chosen, the first item of `Accept` that is exactly `application/json` or ' +
    '`application/x-bcs` decides, and JSON is the default.',
  license: { name: 'MIT', identifier: 'MIT' }
}

/** The OpenAPI document of a node, made of its routes. */
export function openApiDocument ({ family, pathPrefix }: DocumentSettings): Document {
  const all = routes.flatMap(route => operationOf(route) ?? [])
  const schemas = schemasOf([...all.flatMap(schemasIn), errorBody])
  return {
    openapi: '3.1.0',
    info: about,
    servers: [{ url: pathPrefix === '' ? '/' : pathPrefix, description: 'This node.' }],
    // Whoever reaches it may ask.
    security: [],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: pathsOf(schemas, family),
    components: {
      schemas: schemas.named,
      parameters: parametersOf(all, schemas),
      headers: headersOfFamily(family, [...positionHeaders, ...ownHeadersOf(all)], positionHeaders),
      responses: responsesOf(schemas, family)
    }
  }
}

/** Every schema that a route's description needs. */
export function schemasIn ({ answers, body, takes }: Operation): z.ZodType[] {
  return [...Object.values(answers), ...Object.values(body?.forms ?? {}), ...takes.map(key => parameters[key].schema)]
}

/** The parameters that these take, by their names in the table. */
export function parametersOf (taking: readonly Operation[], schemas: Schemas): Piece {
  const keys = Object.keys(parameters) as ParameterKey[]
  const taken = keys.filter(key => taking.some(({ takes }) => takes.includes(key)))
  return Object.fromEntries(taken.map(key => [key, parameterPiece(parameters[key], schemas)]))
}

/** The headers of their own that some of these have. */
export function ownHeadersOf (having: readonly Operation[]): HeaderOfFamily[] {
  return Object.values(ownHeaders).filter(({ name }) => having.some(({ own = [] }) => own.includes(name)))
}

/** A path with its parameters by name, as OpenAPI writes it. */
export function pathOf (segments: readonly string[], { takes }: Operation): string {
  const names = takes.map(key => parameters[key]).filter(parameter => parameter.in === 'path').map(({ name }) =>
    `{${name}}`
  )
  return `/${segments.map(segment => segment === ':' ? names.shift() : segment).join('/')}`
}

/** Bodies by their form. */
export function contentOf (forms: Readonly<Record<string, z.ZodType>>, schemas: Schemas): Piece {
  return Object.fromEntries(Object.entries(forms).map(([type, schema]) => [type, { schema: schemas.of(schema) }]))
}

function pathsOf (schemas: Schemas, family: string): Document['paths'] {
  return Object.fromEntries(routes.flatMap(route => {
    const operation = operationOf(route)
    return operation === undefined
      ? []
      : [[pathOf(route.path, operation), {
        [route.method.toLowerCase()]: operationPiece(operation, route.endpoint, schemas, family)
      }]]
  }))
}

function operationOf (route: typeof routes[number]): Operation | undefined {
  const key = routeKey(route)
  // The same as without the slash, and no operation of its own.
  return key === 'GET /v1/' ? undefined : operations[key]
}

function operationPiece (operation: Operation, endpoint: string, schemas: Schemas, family: string): Piece {
  const { id, tag, summary, description, takes, body, answers, isUnstamped = false, own = [], others = {}, errors } =
    operation
  const headers = [...isUnstamped ? [] : positionHeaders, ...own.map(name => ownHeaders[name])]
  return {
    operationId: id ?? endpoint,
    tags: [tag],
    summary,
    description,
    parameters: takes.map(key => ({ $ref: `#/components/parameters/${key}` })),
    ...body !== undefined &&
      { requestBody: { description: body.description, required: true, content: contentOf(body.forms, schemas) } },
    responses: {
      200: {
        description: summary,
        headers: {
          ...Object.fromEntries(
            headers.map(({ name }) => [family + name, { $ref: `#/components/headers/${family}${name}` }])
          ),
          ...Object.fromEntries(
            Object.entries(others).map((
              [name, description]
            ) => [name, { description, required: true, schema: { type: 'string' } }])
          )
        },
        content: contentOf(answers, schemas)
      },
      ...Object.fromEntries(
        errors.map(status => [status, { $ref: `#/components/responses/${errorStatuses[status].name}` }])
      )
    }
  }
}

function responsesOf (schemas: Schemas, family: string): Piece {
  return Object.fromEntries(
    Object.values(errorStatuses).map(({ name, description, codes }) => [name, {
      description: `${description} ${codes.map(code => `\`${code}\``).join(', ')}.`,
      headers: headersOfFamily(family, positionHeaders, []),
      content: { 'application/json': { schema: schemas.of(errorBody) } }
    }])
  )
}
