import { type ResponsePosition } from '../api/position.js'
import { type StateDigest } from '../api/state-key.js'
import { type FollowedHead } from '../follow/ledger-knowledge.js'
import { touchAllReasons, type TransactionDigest } from '../follow/transaction-digest.js'
import { decodeWithChecksum, encodeWithChecksum } from './checksummed-json.js'
import { isListOf, isObject, isStamped } from './parse-records.js'

/** Part of the tail that one host has read for the others. */
export interface SentDigest {
  /** Names the reader. */
  readonly source: string
  /** Redis's time at a moment not after the request to the upstream. */
  readonly askedAtMs: number
  readonly after: FollowedHead
  readonly transactions: readonly TransactionDigest[]
  /** Position of the last transaction; undefined if the end of the tail was not reached. */
  readonly stamped: ResponsePosition | undefined
  /** True if write sets were verified, or the transaction counts as a change of everything. */
  readonly isVerified: boolean
}

/** Serialises a digest; keys are numbers of 64 bits in base64. */
export function encodeDigest ({ transactions, after: { version, root }, ...rest }: SentDigest): string {
  return encodeWithChecksum({
    ...rest,
    after: { version, root },
    transactions: transactions.map(({ root, touched, touchesAll }) => {
      return { root, touched: keysText(touched), touchesAll }
    })
  })
}

/** Parses a digest; undefined for anything else (law 13: what was stored elsewhere is checked before it is trusted). */
export function parseDigest (text: string): SentDigest | undefined {
  const value = decodeWithChecksum(text)
  if (!isObject(value)) return undefined
  const { source, askedAtMs, after, transactions: list, stamped, isVerified } = value
  if (
    typeof source !== 'string' || typeof askedAtMs !== 'number' || typeof isVerified !== 'boolean' ||
    !isObject(after) || typeof after['version'] !== 'bigint' || !isRoot(after['root']) ||
    !isListOf(list, isTransaction) || (stamped !== undefined && !isStamped(stamped))
  ) return undefined
  const { version, root } = after
  const transactions = list.map(({ root, touched, touchesAll }, index): TransactionDigest => ({
    version: version + BigInt(index) + 1n,
    root,
    hashes: undefined,
    touched: keysOf(touched),
    touchesAll
  }))
  const end = version + BigInt(transactions.length)
  if (stamped !== undefined && stamped.position.head.version !== end) return undefined
  return { source, askedAtMs, after: { version, root }, transactions, stamped, isVerified }
}

type SentTransaction = Pick<TransactionDigest, 'root' | 'touchesAll'> & { readonly touched: string }

function isTransaction (value: unknown): value is SentTransaction {
  if (!isObject(value) || !isRoot(value['root']) || typeof value['touched'] !== 'string') return false
  const { touched, touchesAll } = value
  return /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(touched) &&
    Buffer.byteLength(touched, 'base64') % 8 === 0 &&
    (touchesAll === undefined || touchAllReasons.some(reason => reason === touchesAll))
}

function isRoot (value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value))
}

function keysText (keys: readonly StateDigest[]): string {
  const bytes = Buffer.alloc(8 * keys.length)
  keys.forEach((key, index) => bytes.writeBigUInt64LE(key, 8 * index))
  return bytes.toString('base64')
}

function keysOf (text: string): StateDigest[] {
  const bytes = Buffer.from(text, 'base64')
  return Array.from({ length: bytes.length / 8 }, (_, index) => bytes.readBigUInt64LE(8 * index))
}
