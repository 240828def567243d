import { type Piece } from './piece.js'

/** A header of answers, named without the family's prefix. */
export interface HeaderOfFamily {
  readonly name: string
  readonly description: string
  readonly schema: { readonly type: 'integer', readonly format: 'uint8' | 'uint64', readonly minimum: 0 } | {
    readonly type: 'string',
    readonly pattern: string
  }
}

const u64 = { type: 'integer', format: 'uint64', minimum: 0 } as const

/** The headers that say where the node stands: all of them, or none. */
export const positionHeaders: readonly HeaderOfFamily[] = [
  { name: 'chain-id', description: 'Which chain it is.', schema: { type: 'integer', format: 'uint8', minimum: 0 } },
  { name: 'ledger-version', description: 'The newest ledger version.', schema: u64 },
  { name: 'ledger-oldest-version', description: 'The oldest ledger version that is not pruned.', schema: u64 },
  { name: 'ledger-timestampusec', description: 'The time of the newest block in microseconds.', schema: u64 },
  { name: 'epoch', description: 'The epoch.', schema: u64 },
  { name: 'block-height', description: 'The height of the newest block.', schema: u64 },
  { name: 'oldest-block-height', description: 'The height of the oldest block that is not pruned.', schema: u64 }
]

/** The headers that belong to an answer. */
export const ownHeaders = {
  cursor: {
    name: 'cursor',
    description: 'Where the next page begins; left out where none follows.',
    schema: { type: 'string', pattern: '^(?:[0-9a-f]{2})+$' }
  },
  'gas-used': { name: 'gas-used', description: 'What the call cost.', schema: u64 }
} as const satisfies Record<string, HeaderOfFamily>

/** Headers under a family's names, with which of them are always there. */
export function headersOfFamily (
  family: string,
  headers: readonly HeaderOfFamily[],
  always: readonly HeaderOfFamily[]
): Piece {
  return Object.fromEntries(headers.map(header => {
    const { name, description, schema } = header
    return [family + name, { description, required: always.includes(header), schema }]
  }))
}
