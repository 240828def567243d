import { z } from 'zod'
import { identifier, u16, u64String } from '../schema/scalars.js'
import { type SchemaComponents } from './schema-components.js'
import { type OpenApiObject } from './openapi-types.js'

/** Path or query parameter. */
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly description: string
  readonly schema: z.ZodType
  readonly example?: string | number | boolean
}

// Requests allow more than responses print: nodes accept any padding and case, and addresses without 0x in paths.
const anyAddress = z.string().regex(/^(?:0x)?[0-9a-fA-F]{1,64}$/)
const anyStruct = z.string().min(1)
const cursor = z.string().regex(/^(?:[0-9a-fA-F]{2})+$/)
const anyHash = z.string().regex(/^(?:0x)?[0-9a-fA-F]{64}$/)

/** Parameters by unique key, since `start` means something else in each listing. */
export const parameters = {
  address: {
    name: 'address',
    in: 'path',
    description: 'The address of the account, with or without 0x and leading zeros.',
    schema: anyAddress,
    example: '0x1'
  },
  table_handle: {
    name: 'table_handle',
    in: 'path',
    description: 'The handle of the table.',
    schema: anyAddress,
    example: '0x5eed'
  },
  event_handle: {
    name: 'event_handle',
    in: 'path',
    description: 'The struct that contains the event handle, percent-encoded.',
    schema: anyStruct,
    example: '0x1::block::BlockResource'
  },
  field_name: {
    name: 'field_name',
    in: 'path',
    description: 'The field of the struct that contains the event handle.',
    schema: identifier,
    example: 'new_block_events'
  },
  creation_number: {
    name: 'creation_number',
    in: 'path',
    description: 'The creation number of the event stream.',
    schema: u64String,
    example: '3'
  },
  resource_type: {
    name: 'resource_type',
    in: 'path',
    description: 'The struct type of the resource, percent-encoded.',
    schema: anyStruct,
    example: '0x1::block::BlockResource'
  },
  asset_type: {
    name: 'asset_type',
    in: 'path',
    description: 'The struct type of a coin, percent-encoded, or the metadata address of a fungible asset.',
    schema: anyStruct,
    example: '0x1::aptos_coin::AptosCoin'
  },
  module_name: {
    name: 'module_name',
    in: 'path',
    description: 'The name of the module.',
    schema: identifier,
    example: 'coin'
  },
  version: {
    name: 'version',
    in: 'path',
    description: 'A ledger version inside the block.',
    schema: u64String,
    example: '1000'
  },
  block_height: {
    name: 'block_height',
    in: 'path',
    description: 'The height of the block.',
    schema: u64String,
    example: '200'
  },
  txn_version: {
    name: 'txn_version',
    in: 'path',
    description: 'The ledger version of the transaction.',
    schema: u64String,
    example: '1000'
  },
  txn_hash: { name: 'txn_hash', in: 'path', description: 'The hash of the transaction.', schema: anyHash },
  ledger_version: {
    name: 'ledger_version',
    in: 'query',
    description: 'The ledger version to read at; default: the newest.',
    schema: u64String
  },
  with_transactions: {
    name: 'with_transactions',
    in: 'query',
    description: 'Includes the transactions of the block; default: false.',
    schema: z.boolean()
  },
  limit: {
    name: 'limit',
    in: 'query',
    description: 'The maximum number of items on a page. A value above the maximum of the endpoint is ' +
      'reduced without an error; 0 is rejected.',
    schema: u16.min(1)
  },
  start_cursor: {
    name: 'start',
    in: 'query',
    description: 'The start of the page: the cursor header of the previous page.',
    schema: cursor
  },
  start_sequence: {
    name: 'start',
    in: 'query',
    description: 'The sequence number of the first item on the page; default: the newest page.',
    schema: u64String
  },
  start_version: {
    name: 'start',
    in: 'query',
    description: 'The version of the first transaction on the page; default: the newest page.',
    schema: u64String
  },
  duration_secs: {
    name: 'duration_secs',
    in: 'query',
    description: 'The maximum lag of the node in seconds.',
    schema: z.int().min(0)
  }
} as const satisfies Record<string, Parameter>

/** Key of a parameter in the table. */
export type ParameterKey = keyof typeof parameters

/** Builds the OpenAPI object of a parameter; path parameters are always required. */
export function parameterObject (
  { name, in: place, description, schema, example }: Parameter,
  schemas: SchemaComponents
): OpenApiObject {
  return {
    name,
    in: place,
    required: place === 'path',
    description,
    schema: schemas.referenceTo(schema),
    ...example !== undefined && { example }
  }
}
