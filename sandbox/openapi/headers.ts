import { type OpenApiObject } from './openapi-types.js'

/** Response header, named without the family's prefix. */
export interface FamilyHeader {
  readonly name: string
  readonly description: string
  readonly schema: { readonly type: 'integer', readonly format: 'uint8' | 'uint64', readonly minimum: 0 } | {
    readonly type: 'string',
    readonly pattern: string
  }
}

const u64 = { type: 'integer', format: 'uint64', minimum: 0 } as const

/** Position headers and the key of the epoch; a response has all of them or none. */
export const positionHeaderDefinitions: readonly FamilyHeader[] = [
  { name: 'chain-id', description: 'The id of the chain.', schema: { type: 'integer', format: 'uint8', minimum: 0 } },
  { name: 'ledger-version', description: 'The newest ledger version.', schema: u64 },
  { name: 'ledger-oldest-version', description: 'The oldest ledger version that is not pruned.', schema: u64 },
  { name: 'ledger-timestampusec', description: 'The time of the newest block in microseconds.', schema: u64 },
  { name: 'epoch', description: 'The epoch of the newest block.', schema: u64 },
  { name: 'block-height', description: 'The height of the newest block.', schema: u64 },
  { name: 'oldest-block-height', description: 'The height of the oldest block that is not pruned.', schema: u64 },
  {
    name: 'txn-encryption-key',
    description: 'The key of the epoch with which clients encrypt transactions.',
    schema: { type: 'string', pattern: '^0x(?:[0-9a-f]{2})+$' }
  }
]

/** Headers that describe one response, not the node's position. */
export const perResponseHeaderDefinitions = {
  cursor: {
    name: 'cursor',
    description: 'The cursor of the next page; absent on the last page.',
    schema: { type: 'string', pattern: '^(?:[0-9a-f]{2})+$' }
  },
  'gas-used': { name: 'gas-used', description: 'The gas used by the call.', schema: u64 }
} as const satisfies Record<string, FamilyHeader>

/** Returns header objects with the family's prefix; headers in `always` are marked required. */
export function headerObjectsOf (
  family: string,
  headers: readonly FamilyHeader[],
  always: readonly FamilyHeader[]
): OpenApiObject {
  return Object.fromEntries(headers.map(header => {
    const { name, description, schema } = header
    return [family + name, { description, required: always.includes(header), schema }]
  }))
}
