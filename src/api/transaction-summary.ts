import { itemRangesIn, membersIn, type ByteRange, stringIn, u64In } from './json-scan.js'

/** Version and hash that a transaction in JSON states. */
export interface TransactionSummary {
  /** Undefined until the transaction is committed. */
  readonly version: bigint | undefined
  readonly hash: string
}

/** Versions that a list of transactions states. */
export interface TransactionListSummary {
  readonly count: number
  /** Undefined on an empty list. */
  readonly first: bigint | undefined
  readonly last: bigint | undefined
  /** True if versions rise by one. */
  readonly isContiguous: boolean
}

/** Reads a transaction in JSON; undefined if the value is not certainly one. */
export function readTransactionSummary (body: Buffer, span?: ByteRange): TransactionSummary | undefined {
  const members = membersIn(body, span)
  const hash = stringIn(body, members?.get('hash'))
  const type = stringIn(body, members?.get('type'))
  const version = u64In(body, members?.get('version'))
  // Only committed transactions have a version (docs/node-behaviour.md, "Transactions").
  const isCertain = type === 'pending_transaction' ? members?.has('version') === false : version !== undefined
  return hash === undefined || type === undefined || !isCertain ? undefined : { version, hash: hash.toLowerCase() }
}

/** Reads a list of committed transactions; undefined if any item is not certainly one. */
export function readTransactions (body: Buffer): TransactionListSummary | undefined {
  const items = itemRangesIn(body)
  if (items === undefined) return undefined
  let first: bigint | undefined
  let last: bigint | undefined
  let isContiguous = true
  for (const item of items) {
    const version = readTransactionSummary(body, item)?.version
    if (version === undefined) return undefined
    isContiguous &&= last === undefined || version === last + 1n
    first ??= version
    last = version
  }
  return { count: items.length, first, last, isContiguous }
}
