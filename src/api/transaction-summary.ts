import { isNullIn, itemRangesIn, membersIn, type ByteRange, stringIn, u64In } from './json-scan.js'

/** Version and hash that a transaction in JSON states. */
export interface TransactionSummary {
  /** Undefined until the transaction is committed. */
  readonly version: bigint | undefined
  readonly hash: string
  /** False while the transaction is not history. */
  readonly isSettled: boolean
}

/**
 * Members that a transaction in JSON has once it is history. Nodes can leave them out of committed shapes for a moment
 * (docs/node-behaviour.md, "Transactions").
 */
export const settledMembers = ['success', 'accumulator_root_hash'] as const

/** Versions that a list of transactions states. */
export interface TransactionListSummary {
  readonly count: number
  /** Undefined on an empty list. */
  readonly first: bigint | undefined
  readonly last: bigint | undefined
  /** True if versions rise by one. */
  readonly isContiguous: boolean
  /** False if one of the transactions is not history yet. */
  readonly isSettled: boolean
}

/** Reads a transaction in JSON; undefined if the value is not certainly one. */
export function readTransactionSummary (body: Buffer, span?: ByteRange): TransactionSummary | undefined {
  const members = membersIn(body, span)
  const hash = stringIn(body, members?.get('hash'))
  const type = stringIn(body, members?.get('type'))
  const version = u64In(body, members?.get('version'))
  // Only committed transactions have a version (docs/node-behaviour.md, "Transactions").
  const isCertain = type === 'pending_transaction' ? members?.has('version') === false : version !== undefined
  if (members === undefined || hash === undefined || type === undefined || !isCertain) return undefined
  return { version, hash: hash.toLowerCase(), isSettled: hasSettledMembers(body, members) }
}

/** Returns the root of the accumulator after a transaction, in lower case; undefined for another transaction. */
export function readAccumulatorRoot (body: Buffer, version: bigint): string | undefined {
  const members = membersIn(body)
  const root = stringIn(body, members?.get('accumulator_root_hash'))
  const isOf = u64In(body, members?.get('version')) === version
  return isOf && root !== undefined && /^0x[0-9a-fA-F]{64}$/.test(root) ? root.toLowerCase() : undefined
}

/** Returns true if a transaction has all that history has. */
export function hasSettledMembers (body: Buffer, members: ReadonlyMap<string, ByteRange>): boolean {
  return settledMembers.every(name => {
    const value = members.get(name)
    return value !== undefined && !isNullIn(body, value)
  })
}

/** Reads a list of committed transactions; undefined if any item is not certainly one. */
export function readTransactions (body: Buffer): TransactionListSummary | undefined {
  const items = itemRangesIn(body)
  if (items === undefined) return undefined
  let first: bigint | undefined
  let last: bigint | undefined
  let isContiguous = true
  let areSettled = true
  for (const item of items) {
    const { version, isSettled } = readTransactionSummary(body, item) ?? {}
    if (version === undefined) return undefined
    areSettled &&= isSettled === true
    isContiguous &&= last === undefined || version === last + 1n
    first ??= version
    last = version
  }
  return { count: items.length, first, last, isContiguous, isSettled: areSettled }
}
