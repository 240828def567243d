import { stringify } from 'yaml'
import { type PinKind } from '../../src/api/endpoint-definition.js'
import { type Endpoint, endpoints } from '../../src/api/endpoints.js'
import { minVersionHeader } from '../../src/api/min-version.js'
import { type ErrorResponseStatus } from '../../src/api/error-response.js'
import { convertSchemas, type SchemaComponents } from '../../sandbox/openapi/schema-components.js'
import {
  contentOf,
  operations,
  perResponseHeadersOf,
  componentParametersOf,
  pathOf,
  schemasOfOperation
} from '../../sandbox/openapi/document.js'
import { type FamilyHeader, headerObjectsOf, positionHeaderDefinitions } from '../../sandbox/openapi/headers.js'
import { type Operation, tags } from '../../sandbox/openapi/operation-definition.js'
import { parameters } from '../../sandbox/openapi/parameters.js'
import { type OpenApiObject } from '../../sandbox/openapi/openapi-types.js'
import { routeKey, routes } from '../../sandbox/routes.js'
import { errorBody } from '../../sandbox/schema/error.js'

const head =
  `# What clients see of varve, as OpenAPI. Not written by hand: made of the table of reads (src/api/endpoints.ts) and of the schemas of
# answers (sandbox/schema), and renewed with RENEW=1 npm test -- test/openapi.test.ts
`

// Prefixes of the header names: varve's own, and those of nodes.
const own = 'X-NODE-'
const upstream = 'x-aptos-'

const about = {
  title: 'varve',
  version: '1',
  summary: 'The caching read proxy for ledger nodes: history is immutable, so read it once.',
  description: [
    'The read API of a ledger full node. varve answers cached reads itself and fetches the others from an ' +
    'upstream. It forwards other routes under /v1 as `passThrough` of the configuration says, transactions ' +
    'too: transactions.md, beside this file, says what is promised for them.',
    '- Every success carries the position of the chain, under the names of the specification (`X-NODE-*`; the ' +
    'epoch if the upstream reports it) and, unless `headers.emit` says otherwise, under the upstream\'s own ' +
    'names too, here `x-aptos-*`. History carries the present position; all else the position it was read at.',
    '- Objects and enumerations are those of today\'s nodes. Newer nodes extend both, so clients must ignore ' +
    'unknown members.',
    '- HEAD works wherever GET does. A repeated parameter is rejected, an unknown one is ignored.',
    '- The first item of `Accept` that is exactly `application/json` or `application/x-bcs` chooses the format; ' +
    'JSON is the default.',
    '- CORS headers let pages of the origins in `cors.origins` read the response and its headers. Every ' +
    'response varies by `Origin` then, also one to a request without it.',
    '- Invalid requests get 400, 405, 408, 414, 417 or 431, in the format of any other error.',
    '- what-is-cached.md, beside this file, lists what is cached for how long, and the values of `Cache-Status`.'
  ].join('\n').replace('\n', '\n\n'),
  license: { name: 'MIT', identifier: 'MIT' }
}

// Says when a response is cached, by its key.
const cachingRules: Readonly<Record<PinKind, (why: string) => string>> = {
  version: why => `Cached if \`ledger_version\` is given: ${why}.`,
  block: why => `Cached once another block follows: ${why}.`,
  height: why => `Cached once another block follows: ${why}.`,
  transaction: why => `Cached: ${why}.`,
  hash: why => `Cached in JSON, once it is committed: ${why}.`,
  list: why => `Cached in JSON, if \`start\` is given and nothing can be added: ${why}.`,
  page: why => `Cached in JSON, if \`start\` is given and the page is full: ${why}.`,
  moving: why => `Always changing, so only micro-cached: ${why}.`
}

const errors = {
  400: ['BadRequest', 'The request is invalid: `invalid_input`, or `web_framework_error` from an upstream.'],
  401: ['Unauthorized', 'A client key is required, and no known key was sent: `web_framework_error`.'],
  403: [
    'Forbidden',
    'The upstream has disabled the endpoint: `api_disabled`. Or the origin is not allowed: `web_framework_error`.'
  ],
  404: [
    'NotFound',
    'Not found; the code says what is missing. `version_not_found`: the version is above the head.'
  ],
  410: [
    'Gone',
    'Pruned and not cached: `version_pruned`, `block_pruned`. If gateways name an archive, varve names it too.'
  ],
  413: ['ContentTooLarge', 'The body is larger than `limits.bodyKb`: `web_framework_error`.'],
  415: [
    'UnsupportedMediaType',
    'The body is compressed, or of a type that the endpoint does not accept: `web_framework_error`.'
  ],
  429: [
    'TooManyRequests',
    'This client exceeds its limit (`web_framework_error`), or varve exceeds a gateway\'s, which may answer in ' +
    'plain text.'
  ],
  500: ['InternalServerError', 'An unexpected failure: `internal_error`.'],
  503: ['ServiceUnavailable', 'No upstream can answer now, and the response is not cached: `internal_error`.']
} as const satisfies Partial<Record<ErrorResponseStatus, readonly [name: string, description: string]>>

const text = { type: 'string' }
const ofVarve: Readonly<Record<string, OpenApiObject>> = {
  'Cache-Status': {
    description: 'Source of the response (RFC 9211).',
    required: true,
    schema: text,
    example: 'varve; hit; detail=memory'
  },
  'X-Request-Id': {
    description: 'Id of the request, as in access lines: of a trusted proxy, else made by varve.',
    required: true,
    schema: text,
    example: 'req-9f1c0a7be2-1x'
  },
  'Cache-Control': { description: 'What caches between varve and a client may do.', schema: text, example: 'no-cache' },
  ETag: {
    description: 'Tag of the body in its coding; streamed responses have none.',
    schema: { type: 'string', pattern: '^(?:W/)?".*"$' }
  },
  Vary: {
    description: 'Request headers that the response depends on.',
    schema: text,
    example: 'Accept, Accept-Encoding, Origin'
  },
  'Content-Encoding': { description: 'Coding of the body, if the client accepts one.', schema: text },
  'Retry-After': { description: 'Seconds to wait before a retry.', schema: text, example: '1' },
  'WWW-Authenticate': { description: 'Scheme of authentication: a bearer key.', schema: text },
  [`${upstream}archival-endpoint`]: {
    description: 'Address of an archive, as a gateway reports it.',
    schema: text
  }
}

const ofSuccess = ['Cache-Status', 'X-Request-Id', 'Cache-Control', 'ETag', 'Vary', 'Content-Encoding']
const moreOf: Readonly<Record<string, readonly string[]>> = {
  401: ['WWW-Authenticate'],
  410: [`${upstream}archival-endpoint`],
  429: ['Retry-After'],
  503: ['Retry-After']
}

/** Takes the description of a read from the sandbox's document, which varve's differs from in caching alone. */
function operationOf ({ name, path, query }: Endpoint): Operation {
  const route = routes.find(({ endpoint }) => endpoint === name)
  const key = route && routeKey(route)
  const operation = key === undefined || key === 'GET /v1/' ? undefined : operations[key]
  const taken = [...path.flatMap(part => typeof part === 'string' ? [] : [part.name]), ...Object.keys(query)]
  const described = operation?.parameterKeys.map(parameter => parameters[parameter].name)
  if (operation === undefined || String(described) !== String(taken)) {
    throw new Error(`${name} takes ${taken.join()}, and is said to take ${described?.join()}`)
  }
  return operation
}

/** Builds the OpenAPI document of varve's public listener from the endpoint table. */
export function publicDocument (): OpenApiObject {
  const reads = endpoints.map(endpoint => ({ endpoint, operation: operationOf(endpoint) }))
  const all = reads.map(({ operation }) => operation)
  const schemas = convertSchemas([...all.flatMap(schemasOfOperation), errorBody])
  const used = new Set(all.map(({ tag }) => tag))
  return opened({
    openapi: '3.1.0',
    info: about,
    servers: [{ url: 'http://127.0.0.1:8080', description: 'Default listener of varve.' }],
    security: [{}, { bearer: [] }, { apiKey: [] }],
    tags: Object.entries(tags).flatMap(([name, description]) =>
      used.has(name as keyof typeof tags) ? [{ name, description }] : []
    ),
    paths: Object.fromEntries(
      reads.map((
        { endpoint, operation }
      ) => [pathOf(segmentsOf(endpoint), operation), {
        [endpoint.method.toLowerCase()]: operationPiece(endpoint, operation, schemas)
      }])
    ),
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'A key of `clients.keys`; required where `clients.required` says so.'
        },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'The same key in a header of its own.' }
      },
      schemas: schemas.byName,
      parameters: { ...componentParametersOf(all, schemas), ...headerParameters },
      headers: { ...headersOfFamilies(perResponseHeadersOf(all)), ...ofVarve },
      responses: responsesOf(schemas, all)
    }
  })
}

/** The same as docs/openapi.yaml has it. */
export function publicDocumentYaml (): string {
  return head + stringify(publicDocument(), { aliasDuplicateObjects: false, lineWidth: 140 })
}

const headerParameters = {
  min_version: {
    name: minVersionHeader,
    in: 'header',
    required: false,
    description: 'The least ledger version that the answer must have been read at; varve waits for it as long as ' +
      '`waitForVersion` says, else answers 404 `version_not_found`.',
    schema: { type: 'string', format: 'uint64', pattern: '^[0-9]{1,20}$' }
  },
  if_none_match: {
    name: 'If-None-Match',
    in: 'header',
    required: false,
    description: 'Tags of bodies that the client has.',
    schema: text
  }
}

function segmentsOf ({ path }: Endpoint): string[] {
  return path.map(part => typeof part === 'string' ? part : ':')
}

function operationPiece (endpoint: Endpoint, operation: Operation, schemas: SchemaComponents): OpenApiObject {
  const { tag, summary, description, parameterKeys, body, responseSchemas } = operation
  const rejections = Object.entries(errors).filter(([status]) => {
    if (status === '413' || status === '415') return endpoint.method === 'POST'
    return status !== '410' || endpoint.keyedBy !== 'moving'
  })
  return {
    operationId: endpoint.name,
    tags: [tag],
    summary,
    description: `${description} ${cachingRules[endpoint.keyedBy](endpoint.why)}`,
    parameters: [...parameterKeys, ...Object.keys(headerParameters)].map(key => ({
      $ref: `#/components/parameters/${key}`
    })),
    ...body !== undefined &&
      { requestBody: { description: body.description, required: true, content: contentOf(body.schemas, schemas) } },
    responses: {
      200: {
        description: summary,
        headers: pointers([...ofSuccess, ...familyNames(perResponseHeadersOf([operation]))]),
        content: contentOf(responseSchemas, schemas)
      },
      304: { $ref: '#/components/responses/NotModified' },
      ...Object.fromEntries(rejections.map(([status, [name]]) => [status, { $ref: `#/components/responses/${name}` }]))
    }
  }
}

function responsesOf (schemas: SchemaComponents, having: readonly Operation[]): OpenApiObject {
  const content = { 'application/json': { schema: schemas.referenceTo(errorBody) } }
  return {
    NotModified: {
      description: 'The client has this body; the position is the present.',
      headers: pointers([
        'Cache-Status',
        'X-Request-Id',
        'Cache-Control',
        'ETag',
        'Vary',
        ...familyNames(perResponseHeadersOf(having))
      ])
    },
    ...Object.fromEntries(
      Object.entries(errors).map(([status, [name, description]]) => [name, {
        description,
        headers: pointers([
          'Cache-Status',
          'X-Request-Id',
          'Cache-Control',
          'Vary',
          'Content-Encoding',
          ...moreOf[status] ?? [],
          ...familyNames([])
        ]),
        // Gateways have no shape of their own.
        content: status === '429' ? { ...content, 'text/plain': { schema: text } } : content
      }])
    )
  }
}

// The names of the position's headers, and of these, in both families.
function familyNames (more: readonly FamilyHeader[]): string[] {
  return Object.keys(headersOfFamilies(more))
}

function headersOfFamilies (more: readonly FamilyHeader[]): OpenApiObject {
  const headers = [...positionHeaderDefinitions, ...more]
  const ownHeaders = headers.filter(({ name }) => name !== 'txn-encryption-key')
  return {
    ...headerObjectsOf(own, ownHeaders.map(header => ({ ...header, name: header.name.toUpperCase() })), []),
    ...headerObjectsOf(upstream, headers, [])
  }
}

function pointers (names: readonly string[]): OpenApiObject {
  return Object.fromEntries(names.map(name => [name, { $ref: `#/components/headers/${name}` }]))
}

// Strict for the embedded node, which is ours; open for nodes that are newer than this.
function opened (document: OpenApiObject): OpenApiObject {
  return JSON.parse(
    JSON.stringify(document),
    (name, value: unknown) => name === 'additionalProperties' && value === false ? undefined : value
  ) as OpenApiObject
}
