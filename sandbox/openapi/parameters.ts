import { z } from 'zod'
import { identifier, u16, u64String } from '../schema/scalars.js'
import { type SchemaComponents } from './components.js'
import { type OpenApiObject } from './openapi-object.js'

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
    description: 'The account, with or without 0x and leading zeros.',
    schema: anyAddress,
    example: '0x1'
  },
  table_handle: { name: 'table_handle', in: 'path', description: 'The table.', schema: anyAddress, example: '0x5eed' },
  event_handle: {
    name: 'event_handle',
    in: 'path',
    description: 'The struct that holds the event handle, percent-encoded.',
    schema: anyStruct,
    example: '0x1::block::BlockResource'
  },
  field_name: {
    name: 'field_name',
    in: 'path',
    description: 'The field of the struct that is the handle.',
    schema: identifier,
    example: 'new_block_events'
  },
  creation_number: {
    name: 'creation_number',
    in: 'path',
    description: 'Which of the account\'s streams of events.',
    schema: u64String,
    example: '3'
  },
  resource_type: {
    name: 'resource_type',
    in: 'path',
    description: 'The struct that the resource is of, percent-encoded.',
    schema: anyStruct,
    example: '0x1::block::BlockResource'
  },
  asset_type: {
    name: 'asset_type',
    in: 'path',
    description: 'The coin\'s struct, percent-encoded, or the address of the asset\'s metadata.',
    schema: anyStruct,
    example: '0x1::aptos_coin::AptosCoin'
  },
  module_name: { name: 'module_name', in: 'path', description: 'The module.', schema: identifier, example: 'coin' },
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
    description: 'The ledger version that the transaction made.',
    schema: u64String,
    example: '1000'
  },
  txn_hash: { name: 'txn_hash', in: 'path', description: 'The hash of the transaction.', schema: anyHash },
  ledger_version: {
    name: 'ledger_version',
    in: 'query',
    description: 'The version to read at; left out: the newest.',
    schema: u64String
  },
  with_transactions: {
    name: 'with_transactions',
    in: 'query',
    description: 'Whether the transactions come along; left out: they do not.',
    schema: z.boolean()
  },
  limit: {
    name: 'limit',
    in: 'query',
    description:
      'How many items a page has at most. More than the node gives is cut to that without a word; 0 is refused.',
    schema: u16.min(1)
  },
  start_cursor: {
    name: 'start',
    in: 'query',
    description: 'Where the page begins: the cursor header of the page before.',
    schema: cursor
  },
  start_sequence: {
    name: 'start',
    in: 'query',
    description: 'The sequence number that the page begins with; left out: the page is the newest.',
    schema: u64String
  },
  start_version: {
    name: 'start',
    in: 'query',
    description: 'The version that the page begins with; left out: the page is the newest.',
    schema: u64String
  },
  duration_secs: {
    name: 'duration_secs',
    in: 'query',
    description: 'How many seconds the node may be behind.',
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
