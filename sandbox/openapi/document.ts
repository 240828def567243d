import { type z } from 'zod'
import { type RouteKey, routeKey, routes } from '../routes.js'
import { errorBody } from '../schema/error.js'
import { type SchemaComponents, convertSchemas } from './schema-components.js'
import {
  type FamilyHeader,
  headerObjectsOf,
  perResponseHeaderDefinitions,
  positionHeaderDefinitions
} from './headers.js'
import { historyOperations } from './history-operations.js'
import { nodeOperations } from './node-operations.js'
import { errorStatuses, type Operation, tags } from './operation-definition.js'
import { stateOperations } from './state-operations.js'
import { type ParameterKey, parameterObject, parameters } from './parameters.js'
import { type OpenApiDocument, type OpenApiObject } from './openapi-types.js'

/** Settings of a sandbox node that change its OpenAPI document. */
export interface DocumentSettings {
  readonly family: string
  readonly pathPrefix: string
}

/** Operations by route; the type check fails when a route has none. */
export const operations: Readonly<Record<Exclude<RouteKey, 'GET /v1/'>, Operation>> = {
  ...nodeOperations,
  ...stateOperations,
  ...historyOperations
}

const info = {
  title: 'Ledger node read API',
  version: '1',
  summary: 'The read API of the embedded sandbox node of varve.',
  description: 'Every GET endpoint accepts HEAD. The first value of a repeated parameter counts, and ' +
    'unknown parameters are ignored. An invalid request target gets a 400 without a body, a ' +
    'target longer than 65,534 characters a 414. Responses to a request with an `Origin` header ' +
    'have CORS headers. The first item of `Accept` that is exactly `application/json` or ' +
    '`application/x-bcs` selects the format; the default is JSON.',
  license: { name: 'MIT', identifier: 'MIT' }
}

/** Builds the OpenAPI document of a sandbox node from its routes. */
export function openApiDocument ({ family, pathPrefix }: DocumentSettings): OpenApiDocument {
  const all = routes.flatMap(route => operationOf(route) ?? [])
  const schemas = convertSchemas([...all.flatMap(schemasOfOperation), errorBody])
  return {
    openapi: '3.1.0',
    info,
    servers: [{ url: pathPrefix === '' ? '/' : pathPrefix, description: 'This node.' }],
    // The sandbox requires no authentication.
    security: [],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: pathsOf(schemas, family),
    components: {
      schemas: schemas.byName,
      parameters: componentParametersOf(all, schemas),
      headers: headerObjectsOf(
        family,
        [...positionHeaderDefinitions, ...perResponseHeadersOf(all)],
        positionHeaderDefinitions
      ),
      responses: responsesOf(schemas, family)
    }
  }
}

/** Lists every schema that an operation refers to. */
export function schemasOfOperation ({ responseSchemas, body, parameterKeys }: Operation): z.ZodType[] {
  return [
    ...Object.values(responseSchemas),
    ...Object.values(body?.schemas ?? {}),
    ...parameterKeys.map(key => parameters[key].schema)
  ]
}

/** Returns the parameters that the operations use, by their key in the table. */
export function componentParametersOf (
  routeOperations: readonly Operation[],
  schemas: SchemaComponents
): OpenApiObject {
  const keys = Object.keys(parameters) as ParameterKey[]
  const taken = keys.filter(key => routeOperations.some(({ parameterKeys }) => parameterKeys.includes(key)))
  return Object.fromEntries(taken.map(key => [key, parameterObject(parameters[key], schemas)]))
}

/** Returns the per-response headers that the operations use. */
export function perResponseHeadersOf (routeOperations: readonly Operation[]): FamilyHeader[] {
  return Object.values(perResponseHeaderDefinitions).filter(({ name }) =>
    routeOperations.some(({ perResponseHeaders = [] }) => perResponseHeaders.includes(name))
  )
}

/** Writes a route in OpenAPI form, with named path parameters. */
export function pathOf (segments: readonly string[], { parameterKeys }: Operation): string {
  const names = parameterKeys.map(key => parameters[key]).filter(parameter => parameter.in === 'path').map(({ name }) =>
    `{${name}}`
  )
  return `/${segments.map(segment => segment === ':' ? names.shift() : segment).join('/')}`
}

/** Returns the `content` object of a body, by media type. */
export function contentOf (
  schemasByType: Readonly<Record<string, z.ZodType>>,
  schemas: SchemaComponents
): OpenApiObject {
  return Object.fromEntries(
    Object.entries(schemasByType).map(([type, schema]) => [type, { schema: schemas.referenceTo(schema) }])
  )
}

function pathsOf (schemas: SchemaComponents, family: string): OpenApiDocument['paths'] {
  return Object.fromEntries(routes.flatMap(route => {
    const operation = operationOf(route)
    return operation === undefined
      ? []
      : [[pathOf(route.path, operation), {
        [route.method.toLowerCase()]: operationObject(operation, route.endpoint, schemas, family)
      }]]
  }))
}

function operationOf (route: typeof routes[number]): Operation | undefined {
  const key = routeKey(route)
  // `/v1/` is an alias of `/v1`; OpenAPI would need a second operation id.
  return key === 'GET /v1/' ? undefined : operations[key]
}

function operationObject (
  operation: Operation,
  endpoint: string,
  schemas: SchemaComponents,
  family: string
): OpenApiObject {
  const {
    id,
    tag,
    summary,
    description,
    parameterKeys,
    body,
    responseSchemas,
    isUnstamped = false,
    perResponseHeaders = [],
    otherHeaders = {},
    errors
  } = operation
  const headers = [
    ...isUnstamped ? [] : positionHeaderDefinitions,
    ...perResponseHeaders.map(name => perResponseHeaderDefinitions[name])
  ]
  return {
    operationId: id ?? endpoint,
    tags: [tag],
    summary,
    description,
    parameters: parameterKeys.map(key => ({ $ref: `#/components/parameters/${key}` })),
    ...body !== undefined &&
      { requestBody: { description: body.description, required: true, content: contentOf(body.schemas, schemas) } },
    responses: {
      200: {
        description: summary,
        headers: {
          ...Object.fromEntries(
            headers.map(({ name }) => [family + name, { $ref: `#/components/headers/${family}${name}` }])
          ),
          ...Object.fromEntries(
            Object.entries(otherHeaders).map((
              [name, description]
            ) => [name, { description, required: true, schema: { type: 'string' } }])
          )
        },
        content: contentOf(responseSchemas, schemas)
      },
      ...Object.fromEntries(
        errors.map(status => [status, { $ref: `#/components/responses/${errorStatuses[status].name}` }])
      )
    }
  }
}

function responsesOf (schemas: SchemaComponents, family: string): OpenApiObject {
  return Object.fromEntries(
    Object.values(errorStatuses).map(({ name, description, codes }) => [name, {
      description: `${description} ${codes.map(code => `\`${code}\``).join(', ')}.`,
      headers: headerObjectsOf(family, positionHeaderDefinitions, []),
      content: { 'application/json': { schema: schemas.referenceTo(errorBody) } }
    }])
  )
}
