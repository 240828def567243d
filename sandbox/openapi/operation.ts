import { type z } from 'zod'
import { type ErrorCode } from '../schema/error.js'
import { type ownHeaders } from './headers.js'
import { type ParameterKey } from './parameters.js'

/** What the document says of one route. */
export interface Operation {
  /** The operation's name where the endpoint has several routes; else it is the endpoint's. */
  readonly id?: string
  readonly tag: Tag
  readonly summary: string
  readonly description: string
  /** The parameters of the path in its order, then those of the query. */
  readonly takes: readonly ParameterKey[]
  readonly body?: RequestBody
  /** What a success is in each form; bytes have no further schema. */
  readonly answers: Readonly<Record<string, z.ZodType>>
  /** Where a success does not say where the node stands. */
  readonly isUnstamped?: true
  /** The headers that belong to a success. */
  readonly own?: readonly (keyof typeof ownHeaders)[]
  /** Headers that are of no family, with what they say. */
  readonly others?: Readonly<Record<string, string>>
  readonly errors: readonly ErrorStatus[]
}

/** The body of a request, by its form. */
export interface RequestBody {
  readonly description: string
  readonly forms: Readonly<Record<string, z.ZodType>>
}

/** What routes are grouped by, with what the group is. */
export const tags = {
  node: 'The node itself.',
  accounts: 'The state of accounts.',
  events: 'What was emitted.',
  tables: 'Items of tables.',
  view: 'Functions that only read.',
  blocks: 'Blocks.',
  transactions: 'Transactions.'
} as const

/** The name of a group. */
export type Tag = keyof typeof tags

/** What each error status says, and with which codes. */
export const errorStatuses = {
  400: {
    name: 'BadRequest',
    description: 'The request cannot be valid. Where not even its target can be read, there is no body.',
    codes: ['invalid_input', 'web_framework_error']
  },
  403: {
    name: 'Forbidden',
    description: 'The form that was asked for is switched off, or there is none but the other.',
    codes: ['api_disabled', 'invalid_input']
  },
  404: {
    name: 'NotFound',
    description: 'It is not there, or not yet.',
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
  410: { name: 'Gone', description: 'It is pruned.', codes: ['version_pruned', 'block_pruned'] },
  411: {
    name: 'LengthRequired',
    description: 'The request does not say how long its body is.',
    codes: ['web_framework_error']
  },
  413: { name: 'ContentTooLarge', description: 'The body is larger than 8 MiB.', codes: ['web_framework_error'] },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is of a type that the route does not take.',
    codes: ['web_framework_error']
  },
  500: { name: 'InternalServerError', description: 'The node has failed.', codes: ['internal_error'] },
  503: {
    name: 'ServiceUnavailable',
    description: 'The node cannot answer now.',
    codes: ['internal_error', 'health_check_failed']
  }
} as const satisfies Record<number, { name: string, description: string, codes: readonly ErrorCode[] }>

/** A status of an error. */
export type ErrorStatus = keyof typeof errorStatuses
