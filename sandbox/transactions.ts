import { digest } from './digest.js'
import { makeBlockEnd, makeBlockMetadata } from './kinds/block-transactions.js'
import { type Executed, execute, leafOf } from './kinds/executed.js'
import { firstTransactionKindOf, mayBeAnyKind } from './kinds/kind-schedule.js'
import { onChainBytes } from './kinds/transaction-bytes.js'
import { type TransactionLocation } from './kinds/transaction-location.js'
import { makePendingTransaction, makeUserTransaction } from './kinds/user-transactions.js'
import { makeValidatorTransaction } from './kinds/validator-transactions.js'
import { type SettledWrite, writeSetBytes } from './kinds/write-set-changes.js'
import { makeDirectWriteSet, makeScriptWriteSet } from './kinds/write-set-transactions.js'
import { type Block, lagBlocks, type Ledger } from './ledger.js'
import { type CommittedTransaction } from './schema/transaction.js'
import { type PendingTransaction } from './schema/transaction-user.js'
import { transactionOutcomeOf } from './transaction-outcome.js'
import { printHash } from './typed-hash.js'

export { transactionHash } from './kinds/executed.js'

// Several pages, since those who follow the chain read its newest transactions.
const newestRecords = 512n

/** Builds the JSON form of a committed transaction, or finds that of a new one. */
export function transactionRecord (ledger: Ledger, block: Block, version: bigint): CommittedTransaction {
  const known = ledger.newestRecords.byVersion.get(version)
  if (known !== undefined) return known
  const location = { ledger, block, version }
  return recordOf(execute(location, transactionOutcomeOf(location)))
}

/**
 * Builds the JSON form of some of the newest transactions, so that a page of them stalls no other read; returns false
 * when all are built.
 */
export function prebuildNewestTransactions (ledger: Ledger, count: number): boolean {
  const { newestRecords: records, head } = ledger
  const oldest = head.version - newestRecords
  if (records.next < oldest || records.next < ledger.startVersion) {
    records.next = oldest < ledger.startVersion ? ledger.startVersion : oldest
  }
  for (let built = 0; built < count && records.next <= head.version; built++, records.next++) {
    records.byVersion.set(records.next, transactionRecord(ledger, ledger.blockOf(records.next), records.next))
    const [first] = records.byVersion.keys()
    if (first !== undefined && first < oldest) records.byVersion.delete(first)
  }
  return records.next <= head.version
}

/** Returns the transactions that are pending at a height: those of the next block, which may exist already. */
export function pendingTransactions (ledger: Ledger, height: number | bigint): PendingTransaction[] {
  const block = ledger.blockAfter(height)
  const pending: PendingTransaction[] = []
  // Omits known accounts, whose sequence numbers are certain only after the commit.
  for (let version = block.firstVersion; version < block.lastVersion; version++) {
    if (mayBeAnyKind(block, version)) pending.push(makePendingTransaction({ ledger, block, version }))
  }
  return pending
}

/** Encodes a committed transaction in BCS, with its write set, which a fault may have changed. */
export function transactionBytes (
  ledger: Ledger,
  version: bigint,
  changeWrites: (writes: readonly SettledWrite[]) => readonly SettledWrite[] = writes => writes
): Buffer {
  const location = { ledger, block: ledger.blockOf(version), version }
  const executed = execute(location, transactionOutcomeOf(location))
  return onChainBytes(executed, recordOf(executed), writeSetBytes(changeWrites(executed.writes)))
}

/** Adds the transactions up to a version to the accumulator; drops what no node can read any more. */
export function extendAccumulator (ledger: Ledger, upTo: bigint): void {
  const { accumulator, startVersion } = ledger
  const first = startVersion + BigInt(accumulator.leafCount)
  if (first > upTo) return
  let block = ledger.blockOf(first)
  for (let version = first; version <= upTo; version++) {
    if (version > block.lastVersion) block = ledger.block(block.height + 1n)
    accumulator.append(leafAt({ ledger, block, version }))
  }
  const oldest = ledger.block(Math.max(0, Number(block.height) - ledger.windowBlocks - lagBlocks))
  accumulator.pruneTo(Number(oldest.firstVersion - startVersion))
}

// A real leaf needs the whole transaction. A drawn one binds all that differs between chains.
function leafAt (location: TransactionLocation): Buffer {
  const { ledger: { seed, chainId, recreation, realLeaves }, block: { height, firstVersion, timestampUsec }, version } =
    location
  if (realLeaves) return leafOf(execute(location, transactionOutcomeOf(location)))
  if (version > firstVersion) return digest(seed, chainId, 'leaf', version)
  const passed = [recreation?.destroyedAt, recreation?.recreatedAt].filter(at => at !== undefined && at <= height)
  return digest(seed, chainId, 'leaf', version, timestampUsec, passed.join())
}

function recordOf (executed: Executed): CommittedTransaction {
  const { ledger, version } = executed.location
  extendAccumulator(ledger, version)
  const root = ledger.accumulator.rootOf(Number(version - ledger.startVersion) + 1)
  return { ...recordWithoutRoot(executed), accumulator_root_hash: printHash(root) }
}

function recordWithoutRoot (executed: Executed): CommittedTransaction {
  const { location: { block, version }, outcome } = executed
  if (block.height === 0n) return makeDirectWriteSet(executed)
  if (version === block.firstVersion) return makeBlockMetadata(executed)
  if (version === block.lastVersion) return makeBlockEnd(executed)
  if (outcome.kind !== undefined) return makeUserTransaction(executed, outcome.kind)
  const kind = firstTransactionKindOf(block)
  switch (kind) {
    case undefined:
      throw new RangeError(`no kind of transaction at ${version}`)
    case 'script_write_set':
      return makeScriptWriteSet(executed)
    case 'direct_write_set':
      return makeDirectWriteSet(executed)
    default:
      return makeValidatorTransaction(executed, kind)
  }
}
