import { u64Bytes } from './bcs.js'
import { digest } from './digest.js'
import { blockEnd, blockMetadata } from './kinds/block-ends.js'
import { genesis, handRun, handWritten } from './kinds/genesis.js'
import { headKindOf, isFree } from './kinds/plan.js'
import { type Slot } from './kinds/slot.js'
import { pendingTransaction, userTransaction } from './kinds/user.js'
import { validatorTransaction } from './kinds/validators.js'
import { type Block, type Ledger } from './ledger.js'
import { type CommittedTransaction } from './schema/transaction.js'
import { type PendingTransaction } from './schema/transaction-user.js'

export { transactionHash } from './kinds/committed.js'

/** A transaction as JSON prints it. */
export function transactionRecord (ledger: Ledger, block: Block, version: bigint): CommittedTransaction {
  const slot = { ledger, block, version }
  if (block.height === 0n) return genesis(slot)
  if (version === block.firstVersion) return blockMetadata(slot)
  if (version === block.lastVersion) return blockEnd(slot)
  return version === block.firstVersion + 1n ? blockHead(slot) : userTransaction(slot)
}

/** The transactions that wait for the block after one, as JSON prints them; the chain may have taken them by now. */
export function waitingTransactions (ledger: Ledger, height: number | bigint): PendingTransaction[] {
  const block = ledger.blockAfter(height)
  const waiting: PendingTransaction[] = []
  // Those of the known accounts are not told: their numbers are certain only once the chain has taken them.
  for (let version = block.firstVersion; version < block.lastVersion; version++) {
    if (isFree(block, version)) waiting.push(pendingTransaction({ ledger, block, version }))
  }
  return waiting
}

/** A transaction in BCS: where it stands, and bytes that are its own. */
export function transactionBytes (ledger: Ledger, version: bigint): Buffer {
  return Buffer.concat([
    u64Bytes(version),
    digest(ledger.seed, 'transaction', version),
    digest(ledger.seed, 'outputs', version)
  ])
}

function blockHead (slot: Slot): CommittedTransaction {
  const kind = headKindOf(slot.block)
  switch (kind) {
    case undefined:
      return userTransaction(slot)
    case 'script_write_set':
      return handRun(slot)
    case 'direct_write_set':
      return handWritten(slot)
    default:
      return validatorTransaction(slot, kind)
  }
}
