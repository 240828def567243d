import { type Accept } from './accept.js'
import { readAddress } from './address.js'
import { readU64 } from './integer.js'
import { type ByteRange, countItems, isNullIn, itemRangesIn, membersIn, stringIn, u64In } from './json-scan.js'
import { type Head } from './position.js'
import { sendsPathOf, streamPathOf } from './request-targets.js'

/** Version and hash that a transaction in JSON states. */
export interface TransactionSummary {
  /** Undefined until the transaction is committed. */
  readonly version: bigint | undefined
  readonly hash: string
  /** False while the transaction is not history. */
  readonly isSettled: boolean
}

/**
 * Members that a transaction in JSON has once it is history. Nodes can leave them out of a committed transaction for a
 * moment (docs/node-behaviour.md, "Transactions").
 */
export const settledMembers = ['success', 'accumulator_root_hash'] as const

/** Reads a transaction in JSON; undefined if the value is not certainly a transaction. */
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

/** Returns true if a transaction has all members that history has. */
export function hasSettledMembers (body: Buffer, members: ReadonlyMap<string, ByteRange>): boolean {
  return settledMembers.every(name => {
    const value = members.get(name)
    return value !== undefined && !isNullIn(body, value)
  })
}

/** Height, versions and transaction counts that the body of a block states. */
export interface BlockSummary {
  readonly height: bigint
  readonly first: bigint
  readonly last: bigint
  /**
   * Possible numbers of transactions, more than one if BCS is ambiguous; empty if the body has no list of transactions.
   */
  readonly counts: readonly number[]
  /** False if a transaction of the body is not history yet. */
  readonly isSettled: boolean
}

// Offsets of a block in BCS (docs/node-behaviour.md, "BCS").
const firstAt = 8 + 32 + 8
const lastAt = firstAt + 8
const headBytes = lastAt + 8

const nullText = Buffer.from('null')

// Covers the longest length that BCS allows.
const maxLengthBytes = 5

/** Reads the head of a block and counts its transactions; undefined if either is uncertain. */
export function readBlockSummary (body: Buffer, accept: Accept): BlockSummary | undefined {
  const head = accept === 'json' ? headInJson(body) : headInBcs(body)
  return head !== undefined && head.first <= head.last ? head : undefined
}

/**
 * Returns the hash of the block at a height, in lower case. Undefined for another block, and for one that is not final,
 * since the block at the head may be replaced.
 */
export function readFinalBlockHash (body: Buffer, height: bigint, headVersion: bigint): string | undefined {
  const { hash, last } = factsOf(body, height)
  const isFinal = last !== undefined && last < headVersion
  return isFinal && hash !== undefined && /^0x[0-9a-fA-F]{64}$/.test(hash) ? hash.toLowerCase() : undefined
}

/** Returns the last version and the time of the block at a height; undefined for another block. */
export function readBlockEnd (body: Buffer, height: bigint): Pick<Head, 'version' | 'timestampUsec'> | undefined {
  const { last: version, timestampUsec } = factsOf(body, height)
  return version !== undefined && timestampUsec !== undefined ? { version, timestampUsec } : undefined
}

function factsOf (
  body: Buffer,
  height: bigint
): {
  readonly hash?: string | undefined,
  readonly last?: bigint | undefined,
  readonly timestampUsec?: bigint | undefined
} {
  const members = membersIn(body)
  if (members === undefined || u64In(body, members.get('block_height')) !== height) return {}
  return {
    hash: stringIn(body, members.get('block_hash')),
    last: u64In(body, members.get('last_version')),
    timestampUsec: u64In(body, members.get('block_timestamp'))
  }
}

function headInJson (body: Buffer): BlockSummary | undefined {
  const members = membersIn(body)
  const height = u64In(body, members?.get('block_height'))
  const first = u64In(body, members?.get('first_version'))
  const last = u64In(body, members?.get('last_version'))
  if (height === undefined || first === undefined || last === undefined) return undefined
  const list = members?.get('transactions')
  if (list === undefined || body.subarray(list.from, list.to).equals(nullText)) {
    return { height, first, last, counts: [], isSettled: true }
  }
  const count = countItems(body, list, settledMembers)
  return count && { height, first, last, counts: [count.all], isSettled: count.complete === count.all }
}

function headInBcs (body: Buffer): BlockSummary | undefined {
  if (body.length < headBytes) return undefined
  const counts = countsInBcs(body.subarray(headBytes))
  return counts && {
    height: body.readBigUInt64LE(0),
    first: body.readBigUInt64LE(firstAt),
    last: body.readBigUInt64LE(lastAt),
    counts,
    // A transaction in BCS always has its result.
    isSettled: true
  }
}

function countsInBcs (list: Buffer): number[] | undefined {
  if (list.length === 0 || (list.length === 1 && list[0] === 0)) return []
  // A first byte 01 is a count of one or a mark before the list; only the version range decides
  // (docs/node-behaviour.md, "BCS").
  const readings = list[0] === 1 ? [list, list.subarray(1)] : [list]
  const counts = readings.map(countInBcs).filter(count => count !== undefined)
  return counts.length > 0 ? counts : undefined
}

function countInBcs (list: Buffer): number | undefined {
  let count = 0
  for (const [index, byte] of list.subarray(0, maxLengthBytes).entries()) {
    count += (byte & 0x7f) * 2 ** (7 * index)
    if (byte >= 0x80) continue
    const rest = list.length - index - 1
    // Rejects a zero last byte, because it would encode the same count twice. Every item takes at least one byte.
    const isPossible = (byte > 0 || index === 0) && (count > 0 ? count <= rest : rest === 0)
    return isPossible ? count : undefined
  }
  return undefined
}

/** Facts about a page of events, of transactions that an account sent, or of all transactions by version. */
export interface PageSummary {
  readonly count: number
  /** Sequence number of the first item, or its version in a list of all transactions; undefined on an empty page. */
  readonly first: bigint | undefined
  /** The sequence number of the last item; undefined on an empty page. */
  readonly last: bigint | undefined
  /** True if sequence numbers rise by one, versions never fall, and all items share one guid or sender. */
  readonly isContiguous: boolean
  /** The ledger version of the first item, the lowest of a contiguous page; undefined on an empty page. */
  readonly lowestVersion: bigint | undefined
  /** The ledger version of the last item, the highest of a contiguous page; undefined on an empty page. */
  readonly highestVersion: bigint | undefined
  /**
   * Path of the stream or sender that all items belong to; undefined on an empty page or if that is uncertain.
   */
  readonly stream: string | undefined
  /** False if one of the transactions is not history yet. */
  readonly isSettled: boolean
}

interface PageItem {
  readonly sequence: bigint
  readonly version: bigint
  /** Undefined in transactions. */
  readonly creation?: string
  /** Empty in a list of all transactions. */
  readonly account: string
  readonly isSettled: boolean
}

/** Reads a page of events in JSON; undefined if any item is not certainly an event. */
export function readEventPageSummary (body: Buffer): PageSummary | undefined {
  return readPageSummary(body, readEvent)
}

/**
 * Reads a page of transactions that an account sent, in JSON; undefined if any item is not certainly such a
 * transaction.
 */
export function readSendPageSummary (body: Buffer): PageSummary | undefined {
  return readPageSummary(body, readSend)
}

/** Reads a list of committed transactions in JSON; undefined if any item is not certainly a committed transaction. */
export function readTransactionList (body: Buffer): PageSummary | undefined {
  return readPageSummary(body, readListed)
}

function readPageSummary (
  body: Buffer,
  readItem: (body: Buffer, item: ByteRange) => PageItem | undefined
): PageSummary | undefined {
  const ranges = itemRangesIn(body)
  if (ranges === undefined) return undefined
  const items: PageItem[] = []
  for (const range of ranges) {
    const item = readItem(body, range)
    if (item === undefined) return undefined
    items.push(item)
  }
  const [first, last] = [items[0], items.at(-1)]
  return {
    count: items.length,
    first: first?.sequence,
    last: last?.sequence,
    isContiguous: items.every((item, index) => follows(item, items[index - 1])),
    lowestVersion: first?.version,
    highestVersion: last?.version,
    stream: sharedStreamOf(items),
    isSettled: items.every(({ isSettled }) => isSettled)
  }
}

// Names a stream by its path by creation number, because that path and a handle's path can lead to the same stream.
function sharedStreamOf ([first, ...others]: readonly PageItem[]): string | undefined {
  if (
    first === undefined ||
    others.some(({ creation, account }) => creation !== first.creation || account !== first.account)
  ) return undefined
  const address = readAddress(first.account)
  if (address === undefined) return undefined
  if (first.creation === undefined) return sendsPathOf(`0x${address}`)
  const creation = readU64(first.creation)
  return creation === undefined ? undefined : streamPathOf(`0x${address}`, creation)
}

function readEvent (body: Buffer, item: ByteRange): PageItem | undefined {
  const members = membersIn(body, item)
  const guid = members?.get('guid')
  const parts = guid && membersIn(body, guid)
  const sequence = u64In(body, members?.get('sequence_number'))
  const version = u64In(body, members?.get('version'))
  const creation = stringIn(body, parts?.get('creation_number'))
  const account = stringIn(body, parts?.get('account_address'))
  if (sequence === undefined || version === undefined || creation === undefined || account === undefined) {
    return undefined
  }
  return { sequence, version, creation, account, isSettled: true }
}

function readSend (body: Buffer, item: ByteRange): PageItem | undefined {
  const { version, isSettled } = readTransactionSummary(body, item) ?? {}
  const members = membersIn(body, item)
  const sequence = u64In(body, members?.get('sequence_number'))
  const account = stringIn(body, members?.get('sender'))
  if (sequence === undefined || version === undefined || isSettled === undefined || account === undefined) {
    return undefined
  }
  return { sequence, version, account, isSettled }
}

function readListed (body: Buffer, item: ByteRange): PageItem | undefined {
  const { version, isSettled = false } = readTransactionSummary(body, item) ?? {}
  return version === undefined ? undefined : { sequence: version, version, account: '', isSettled }
}

function follows (item: PageItem, before: PageItem | undefined): boolean {
  if (before === undefined) return true
  return item.sequence === before.sequence + 1n && item.version >= before.version &&
    item.creation === before.creation && item.account === before.account
}

/** Reads the versions of summaries in JSON; undefined if any item is not certainly of the account that a path names. */
export function readSummaryVersions (body: Buffer, path: string): bigint[] | undefined {
  const versions = itemRangesIn(body)?.map(item => {
    const members = membersIn(body, item)
    const sender = readAddress(stringIn(body, members?.get('sender')) ?? '')
    const isOfPath = sender !== undefined && path.startsWith(`/v1/accounts/0x${sender}/`)
    return isOfPath ? u64In(body, members?.get('version')) : undefined
  })
  return versions?.every(version => version !== undefined) === true ? versions : undefined
}
