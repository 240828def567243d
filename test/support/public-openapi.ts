import { stringify } from 'yaml'
import { type Keying } from '../../src/api/endpoint-definition.js'
import { type Endpoint, endpoints } from '../../src/api/endpoints.js'
import { minVersionHeader } from '../../src/api/min-version.js'
import { type ErrorResponseStatus } from '../../src/api/error-response.js'
import { convertSchemas, type SchemaComponents } from '../../sandbox/openapi/components.js'
import {
  contentOf,
  perResponseHeadersOf,
  parameterObjectsOf,
  pathOf,
  schemasOfOperation
} from '../../sandbox/openapi/document.js'
import { type FamilyHeader, headerObjectsOf, positionHeaderDefinitions } from '../../sandbox/openapi/headers.js'
import { type Operation, tags } from '../../sandbox/openapi/operation.js'
import { operations } from '../../sandbox/openapi/operations.js'
import { parameters } from '../../sandbox/openapi/parameters.js'
import { type OpenApiObject } from '../../sandbox/openapi/openapi-object.js'
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
    'The reads of a ledger node, answered from the cache where they are of history that is kept, and by a ' +
    'node where not. Other routes under /v1 are passed on as `passThrough` of the configuration says, and ' +
    'are not described here.',
    '- Where the chain stands is told with every success, under the names of the specification (`X-NODE-*`; ' +
    'the epoch where the node tells it) and, unless `headers.emit` says otherwise, under the node\'s own ' +
    'names too, for which `x-aptos-*` stand here. With history it is the present; with all else it is what ' +
    'the answer was read at.',
    '- Objects and lists of words are those of today\'s nodes. Newer nodes add to both: let programs pass ' +
    'over what they do not know.',
    '- Every GET can be asked for by its head alone. A parameter given twice is refused, an unknown one is ignored.',
    '- Where a form can be chosen, the first item of `Accept` that is exactly `application/json` or ' +
    '`application/x-bcs` decides, and JSON is the default.',
    '- A page of another origin that `cors.origins` allows is told by the lines of CORS that it may read the ' +
    'answer and its headers. Every response varies by `Origin` then, also one to a request without it.',
    '- What cannot be taken for a request at all is answered 400, 405, 408, 414, 417 or 431, in the shape of ' +
    'any other error.',
    '- What is kept for how long, and what `Cache-Status` can say: what-is-kept.md, beside this file.'
  ].join('\n').replace('\n', '\n\n'),
  license: { name: 'MIT', identifier: 'MIT' }
}

// What of an answer is kept, by what it is keyed by.
const keeping: Readonly<Record<Keying, (why: string) => string>> = {
  version: why => `Kept where \`ledger_version\` is given: ${why}.`,
  block: why => `Kept once another block follows: ${why}.`,
  height: why => `Kept once another block follows: ${why}.`,
  transaction: why => `Kept: ${why}.`,
  hash: why => `Kept in JSON, once it is committed: ${why}.`,
  list: why => `Kept in JSON, where \`start\` is given and nothing can be added: ${why}.`,
  page: why => `Kept in JSON, where \`start\` is given and the page is full: ${why}.`,
  moment: why => `Of the moment, and kept no longer than one: ${why}.`
}

const errors = {
  400: ['BadRequest', 'The request cannot be valid: `invalid_input`, or `web_framework_error` from a node.'],
  401: ['Unauthorized', 'A client key is required, and none that is known was sent: `web_framework_error`.'],
  403: [
    'Forbidden',
    'The node has switched it off: `api_disabled`. Or a page of that origin may not ask: `web_framework_error`.'
  ],
  404: [
    'NotFound',
    'It is not there, or not yet: the code tells what; `version_not_found` where a node has not got as far.'
  ],
  410: [
    'Gone',
    'It is pruned, and was not kept: `version_pruned`, `block_pruned`. Gateways add where an archive is, and ' +
    'so does varve then.'
  ],
  413: ['ContentTooLarge', 'The body is larger than `limits.bodyKb`: `web_framework_error`.'],
  415: [
    'UnsupportedMediaType',
    'The body is compressed, or of a type that the read does not take: `web_framework_error`.'
  ],
  429: [
    'TooManyRequests',
    'This client has asked too much (`web_framework_error`), or a gateway has been asked too much, which may ' +
    'say so in plain text.'
  ],
  500: ['InternalServerError', 'Something has failed: `internal_error`.'],
  503: ['ServiceUnavailable', 'No node can answer now, and it was not kept: `internal_error`.']
} as const satisfies Partial<Record<ErrorResponseStatus, readonly [name: string, description: string]>>

const text = { type: 'string' }
const ofVarve: Readonly<Record<string, OpenApiObject>> = {
  'Cache-Status': {
    description: 'Where the answer comes from (RFC 9211).',
    required: true,
    schema: text,
    example: 'varve; hit; detail=memory'
  },
  'Cache-Control': { description: 'What caches between varve and a client may do.', schema: text, example: 'no-cache' },
  ETag: {
    description: 'The tag of the body in its coding; none with what streams.',
    schema: { type: 'string', pattern: '^(?:W/)?".*"$' }
  },
  Vary: { description: 'What the form depends on.', schema: text, example: 'Accept, Accept-Encoding, Origin' },
  'Content-Encoding': { description: 'The coding, where the client takes one.', schema: text },
  'Retry-After': { description: 'After how many seconds to come again.', schema: text, example: '1' },
  'WWW-Authenticate': { description: 'That a bearer key is taken.', schema: text },
  [`${upstream}archival-endpoint`]: {
    description: 'Where a gateway says that an archive is, under its own name.',
    schema: text
  }
}

const ofSuccess = ['Cache-Status', 'Cache-Control', 'ETag', 'Vary', 'Content-Encoding']
const moreOf: Readonly<Record<string, readonly string[]>> = {
  401: ['WWW-Authenticate'],
  410: [`${upstream}archival-endpoint`],
  429: ['Retry-After'],
  503: ['Retry-After']
}

/** What the document says of a read is what the embedded node's says, but for what varve does with it. */
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

/** The OpenAPI document of varve's public listener, made of the table of reads. */
export function publicDocument (): OpenApiObject {
  const reads = endpoints.map(endpoint => ({ endpoint, operation: operationOf(endpoint) }))
  const all = reads.map(({ operation }) => operation)
  const schemas = convertSchemas([...all.flatMap(schemasOfOperation), errorBody])
  const used = new Set(all.map(({ tag }) => tag))
  return opened({
    openapi: '3.1.0',
    info: about,
    servers: [{ url: 'http://127.0.0.1:8080', description: 'Where varve listens unless it is told otherwise.' }],
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
      parameters: { ...parameterObjectsOf(all, schemas), ...headerParameters },
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
  const refused = Object.entries(errors).filter(([status]) => {
    if (status === '413' || status === '415') return endpoint.method === 'POST'
    return status !== '410' || endpoint.keyedBy !== 'moment'
  })
  return {
    operationId: endpoint.name,
    tags: [tag],
    summary,
    description: `${description} ${keeping[endpoint.keyedBy](endpoint.why)}`,
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
      ...Object.fromEntries(refused.map(([status, [name]]) => [status, { $ref: `#/components/responses/${name}` }]))
    }
  }
}

function responsesOf (schemas: SchemaComponents, having: readonly Operation[]): OpenApiObject {
  const content = { 'application/json': { schema: schemas.referenceTo(errorBody) } }
  return {
    NotModified: {
      description: 'The client has this body; the position is the present.',
      headers: pointers(['Cache-Status', 'Cache-Control', 'ETag', 'Vary', ...familyNames(perResponseHeadersOf(having))])
    },
    ...Object.fromEntries(
      Object.entries(errors).map(([status, [name, description]]) => [name, {
        description,
        headers: pointers([
          'Cache-Status',
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
  return {
    ...headerObjectsOf(own, headers.map(header => ({ ...header, name: header.name.toUpperCase() })), []),
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
