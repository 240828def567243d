import { itemsIn, membersIn, type Span, textIn, u64In } from './json-scan.js'

/** What a transaction in JSON says of itself. */
export interface Transaction {
  /** Undefined as long as it is not committed. */
  readonly version: bigint | undefined
  readonly hash: string
}

/** What a run of transactions says of itself. */
export interface TransactionRun {
  readonly count: number
  /** Undefined on an empty run. */
  readonly first: bigint | undefined
  readonly last: bigint | undefined
  /** Each version follows the one before. */
  readonly isContiguous: boolean
}

/** Reads what a transaction says of itself; undefined for what is not certainly one. */
export function readTransaction (body: Buffer, span?: Span): Transaction | undefined {
  const members = membersIn(body, span)
  const hash = textIn(body, members?.get('hash'))
  const type = textIn(body, members?.get('type'))
  const version = u64In(body, members?.get('version'))
  // What is committed has a version, and what is not has none.
  const isCertain = type === 'pending_transaction' ? members?.has('version') === false : version !== undefined
  return hash === undefined || type === undefined || !isCertain ? undefined : { version, hash: hash.toLowerCase() }
}

/** Reads a list of committed transactions; undefined when any of its items is not certainly one. */
export function readTransactions (body: Buffer): TransactionRun | undefined {
  const items = itemsIn(body)
  if (items === undefined) return undefined
  let first: bigint | undefined
  let last: bigint | undefined
  let isContiguous = true
  for (const item of items) {
    const version = readTransaction(body, item)?.version
    if (version === undefined) return undefined
    isContiguous &&= last === undefined || version === last + 1n
    first ??= version
    last = version
  }
  return { count: items.length, first, last, isContiguous }
}
