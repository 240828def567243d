import { digestBytes } from './seeded-digest.js'
import { makeBlockEnd, makeBlockMetadata } from './kinds/block-transactions.js'
import { type Executed, execute, leafOf } from './kinds/executed.js'
import { senderlessKindAfterMetadata, mayBeAnyUserKind } from './kinds/kind-schedule.js'
import { onChainBytes } from './kinds/transaction-bytes.js'
import { type TransactionLocation } from './kinds/transaction-location.js'
import { makePendingTransaction, makeUserTransaction } from './kinds/user-transactions.js'
import { makeSubmittedTransaction } from './kinds/submitted-transactions.js'
import { makeValidatorTransaction } from './kinds/validator-transactions.js'
import { type SettledWrite, writeSetBytes } from './kinds/render-write-set.js'
import { makeDirectWriteSet, makeScriptWriteSet } from './kinds/write-set-transactions.js'
import { type Block, retainedBlocksBelowWindow, type Ledger } from './ledger.js'
import { type CommittedTransaction, type PendingTransaction, type UserTransaction } from './records.js'
import { type SubmittedTransaction } from './submissions.js'
import { transactionOutcomeOf } from './transaction-outcome.js'
import { printHash } from './typed-hash.js'

export { transactionHash } from './kinds/executed.js'

// Several pages, since those who follow the chain read its newest transactions.
const newestCount = 512n

/** Builds the JSON form of a committed transaction. */
export function transactionRecord (ledger: Ledger, block: Block, version: bigint): CommittedTransaction {
  const location = { ledger, block, version }
  return recordOf(execute(location, transactionOutcomeOf(location)))
}

/** Prints a committed transaction in JSON, or finds a new one as it was printed. */
export function printTransaction (ledger: Ledger, block: Block, version: bigint): Buffer {
  const { newestJson: json, release } = ledger
  const known = json.release === release ? json.byVersion.get(version) : undefined
  return known ?? Buffer.from(JSON.stringify(transactionRecord(ledger, block, version)))
}

/**
 * Prints some of the newest transactions in JSON, so that a page of them stalls no other read; returns false when all
 * are printed.
 */
export function prerenderNewest (ledger: Ledger, count: number): boolean {
  const { newestJson: json, head, release, startVersion } = ledger
  const oldest = head.version - newestCount
  // Each release renders modules in its own way.
  if (json.release !== release) Object.assign(json, { release, byVersion: new Map(), next: startVersion })
  if (json.next < oldest) json.next = oldest
  if (json.next < startVersion) json.next = startVersion
  for (let printed = 0; printed < count && json.next <= head.version; printed++, json.next++) {
    json.byVersion.set(json.next, printTransaction(ledger, ledger.blockOf(json.next), json.next))
    const [first] = json.byVersion.keys()
    if (first !== undefined && first < oldest) json.byVersion.delete(first)
  }
  return json.next <= head.version
}

/** Returns the transactions that are pending at a height: those of the next block, which may exist already. */
export function pendingTransactions (ledger: Ledger, height: number | bigint): PendingTransaction[] {
  const block = ledger.blockAfter(height)
  const pending: PendingTransaction[] = []
  // Omits known accounts, whose sequence numbers are certain only after the commit.
  for (let version = block.firstVersion; version < block.lastVersion; version++) {
    if (mayBeAnyUserKind(block, version)) pending.push(makePendingTransaction({ ledger, block, version }))
  }
  return pending
}

/** Builds the record of a transaction as if the next block contained it. */
export function simulatedRecord (ledger: Ledger, transaction: SubmittedTransaction): UserTransaction {
  const block = ledger.blockAfter(ledger.height)
  // The first two transactions of a block emit events of the chain itself.
  const location = { ledger, block, version: block.firstVersion + 2n }
  return ledger.submissions.simulate(transaction, location.version, () => {
    const record = makeSubmittedTransaction(execute(location, transactionOutcomeOf(location)), transaction)
    return { ...record, accumulator_root_hash: printHash(Buffer.alloc(32)) }
  })
}

/** Encodes a committed transaction in BCS, with its write set, which a fault may encode in another way. */
export function transactionBytes (
  ledger: Ledger,
  version: bigint,
  encodeWrites: (writes: readonly SettledWrite[]) => Buffer = writeSetBytes
): Buffer {
  const location = { ledger, block: ledger.blockOf(version), version }
  const executed = execute(location, transactionOutcomeOf(location))
  return onChainBytes(executed, recordOf(executed), encodeWrites(executed.writes))
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
  const oldest = ledger.block(Math.max(0, Number(block.height) - ledger.windowBlocks - retainedBlocksBelowWindow))
  accumulator.pruneTo(Number(oldest.firstVersion - startVersion))
}

// A real leaf needs the whole transaction. A drawn one binds all that differs between chains.
function leafAt (location: TransactionLocation): Buffer {
  const { ledger: { seed, chainId, realLeaves, submissions }, block, version } = location
  if (realLeaves || submissions.at(version) !== undefined) {
    return leafOf(execute(location, transactionOutcomeOf(location)))
  }
  const bound = version > block.firstVersion ? [] : [block.timestampUsec]
  return digestBytes(seed, chainId, 'leaf', version, ...bound)
}

function recordOf (executed: Executed): CommittedTransaction {
  const { ledger, version } = executed.location
  extendAccumulator(ledger, version)
  const root = ledger.accumulator.rootOf(Number(version - ledger.startVersion) + 1)
  return { ...recordWithoutRoot(executed), accumulator_root_hash: printHash(root) }
}

function recordWithoutRoot (executed: Executed): CommittedTransaction {
  const { location: { block, version }, outcome } = executed
  if (outcome.submitted !== undefined) return makeSubmittedTransaction(executed, outcome.submitted)
  if (block.height === 0n) return makeDirectWriteSet(executed)
  if (version === block.firstVersion) return makeBlockMetadata(executed)
  if (version === block.lastVersion) return makeBlockEnd(executed)
  if (outcome.kind !== undefined) return makeUserTransaction(executed, outcome.kind)
  const kind = senderlessKindAfterMetadata(block)
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
