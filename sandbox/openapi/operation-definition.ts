import { type z } from 'zod'
import { type ErrorCode } from '../schema/error.js'
import { type perResponseHeaderDefinitions } from './headers.js'
import { type ParameterKey } from './parameters.js'

/** Description of one route in the OpenAPI document. */
export interface Operation {
  /** Operation id for an endpoint with several routes; the default is the endpoint's name. */
  readonly id?: string
  readonly tag: OperationTag
  readonly summary: string
  readonly description: string
  /** Path parameters in order of the path, then query parameters. */
  readonly parameterKeys: readonly ParameterKey[]
  readonly body?: RequestBody
  /** Schemas of a 200 response by media type; BCS bodies have no detailed schema. */
  readonly responseSchemas: Readonly<Record<string, z.ZodType>>
  /** Marks an operation whose 200 response has no position headers. */
  readonly isUnstamped?: true
  readonly perResponseHeaders?: readonly (keyof typeof perResponseHeaderDefinitions)[]
  /** Headers without the family's prefix, with their descriptions. */
  readonly otherHeaders?: Readonly<Record<string, string>>
  readonly errors: readonly ErrorStatus[]
}

/** Request body with a schema for each media type. */
export interface RequestBody {
  readonly description: string
  readonly schemas: Readonly<Record<string, z.ZodType>>
}

/** Groups of operations, with their descriptions. */
export const tags = {
  node: 'The node itself.',
  accounts: 'The state of accounts.',
  events: 'Emitted events.',
  tables: 'Table items.',
  view: 'View functions.',
  blocks: 'Blocks.',
  transactions: 'Transactions.'
} as const

/** Name of a group of operations. */
export type OperationTag = keyof typeof tags

/** Error statuses of nodes, with the error codes that each can have. */
export const errorStatuses = {
  400: {
    name: 'BadRequest',
    description: 'The request is invalid. If its target is invalid, the response has no body.',
    codes: ['invalid_input', 'web_framework_error']
  },
  403: {
    name: 'Forbidden',
    description: 'The requested format is disabled or does not exist.',
    codes: ['api_disabled', 'invalid_input']
  },
  404: {
    name: 'NotFound',
    description: 'The requested item does not exist, or not yet.',
    codes: [
      'account_not_found',
      'resource_not_found',
      'module_not_found',
      'struct_field_not_found',
      'version_not_found',
      'transaction_not_found',
      'table_item_not_found',
      'block_not_found'
    ]
  },
  410: {
    name: 'Gone',
    description: 'The requested version or block is pruned.',
    codes: ['version_pruned', 'block_pruned']
  },
  411: {
    name: 'LengthRequired',
    description: 'The request has no `Content-Length`.',
    codes: ['web_framework_error']
  },
  413: { name: 'ContentTooLarge', description: 'The body is larger than 8 MiB.', codes: ['web_framework_error'] },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The endpoint does not support the content type of the body.',
    codes: ['web_framework_error']
  },
  500: { name: 'InternalServerError', description: 'The node has an internal error.', codes: ['internal_error'] },
  503: {
    name: 'ServiceUnavailable',
    description: 'The node is temporarily unable to respond.',
    codes: ['internal_error', 'health_check_failed', 'node_not_bootstrapped']
  }
} as const satisfies Record<number, { name: string, description: string, codes: readonly ErrorCode[] }>

/** Status of an error response. */
export type ErrorStatus = keyof typeof errorStatuses
