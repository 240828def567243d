import { u64Bytes } from './bcs.js'
import { digest } from './digest.js'
import { makeBlockEnd, makeBlockMetadata } from './kinds/block-transactions.js'
import { makeGenesis, makeScriptWriteSet, makeDirectWriteSet } from './kinds/write-set-transactions.js'
import { firstTransactionKindOf, mayBeAnyKind } from './kinds/kind-schedule.js'
import { type TransactionLocation } from './kinds/transaction-location.js'
import { makePendingTransaction, makeUserTransaction } from './kinds/user-transactions.js'
import { makeValidatorTransaction } from './kinds/validator-transactions.js'
import { type Block, type Ledger } from './ledger.js'
import { type CommittedTransaction } from './schema/transaction.js'
import { type PendingTransaction } from './schema/transaction-user.js'

export { transactionHash } from './kinds/committed.js'

/** Builds the JSON form of a committed transaction. */
export function transactionRecord (ledger: Ledger, block: Block, version: bigint): CommittedTransaction {
  const location = { ledger, block, version }
  if (block.height === 0n) return makeGenesis(location)
  if (version === block.firstVersion) return makeBlockMetadata(location)
  if (version === block.lastVersion) return makeBlockEnd(location)
  return version === block.firstVersion + 1n ? firstTransaction(location) : makeUserTransaction(location)
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

/** Encodes a transaction in BCS: its version, then bytes unique to it. */
export function transactionBytes (ledger: Ledger, version: bigint): Buffer {
  return Buffer.concat([
    u64Bytes(version),
    digest(ledger.seed, 'transaction', version),
    digest(ledger.seed, 'outputs', version)
  ])
}

function firstTransaction (location: TransactionLocation): CommittedTransaction {
  const kind = firstTransactionKindOf(location.block)
  switch (kind) {
    case undefined:
      return makeUserTransaction(location)
    case 'script_write_set':
      return makeScriptWriteSet(location)
    case 'direct_write_set':
      return makeDirectWriteSet(location)
    default:
      return makeValidatorTransaction(location, kind)
  }
}
