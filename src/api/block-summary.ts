import { type Accept } from './accept.js'
import { type Head } from './position.js'
import { countItems, membersIn, stringIn, u64In } from './json-scan.js'
import { settledMembers } from './transaction-summary.js'

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
