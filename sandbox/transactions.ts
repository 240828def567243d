import { accountOf, resourceWrite, chainAsset, primaryStore, storeOf } from './resources.js'
import { longAddress } from './address.js'
import { type EventRecord, type PendingTransaction, type CommittedTransaction } from './records.js'
import { type CommittedSubmission, gasOfSubmission, type SubmittedTransaction } from './submissions.js'
import {
  committedMembersOf,
  execute,
  type Executed,
  feeStatement,
  leafOf,
  moduleEvent,
  type Outcome,
  recordsOf,
  type TransactionKind,
  type TransactionLocation
} from './kinds/outcome.js'
import { blockEnd, blockMetadata, genesis, senderlessKinds } from './kinds/senderless.js'
import { makePendingTransaction, userTransaction } from './kinds/user-transactions.js'
import { digestBytes, printHash } from './digests.js'
import { senderlessKindAfterMetadata, mayBeAnyUserKind } from './schedule.js'
import { onChainBytes } from './kinds/bytes.js'
import { type SettledWrite, writeSetBytes } from './kinds/render-write-set.js'
import { type Block, retainedBlocksBelowWindow, type Ledger } from './ledger.js'

const maxPrinted = 512

/** Builds the JSON form of a committed transaction. */
export function transactionRecord (ledger: Ledger, block: Block, version: bigint): CommittedTransaction {
  const location = { ledger, block, version }
  return recordOf(execute(location, transactionOutcomeOf(location)))
}

/** Prints a committed transaction in JSON; remembers the last ones, since all that follow the chain read the same. */
export function printTransaction (ledger: Ledger, block: Block, version: bigint): Buffer {
  const { printed, release } = ledger
  const key = `${release} ${version}`
  const known = printed.get(key)
  if (known !== undefined) return known
  const json = Buffer.from(JSON.stringify(transactionRecord(ledger, block, version)))
  printed.set(key, json)
  const [oldest] = printed.keys()
  if (printed.size > maxPrinted && oldest !== undefined) printed.delete(oldest)
  return json
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
export function simulatedRecord (ledger: Ledger, transaction: SubmittedTransaction): CommittedTransaction {
  const block = ledger.blockAfter(ledger.height)
  // The first two transactions of a block emit events of the chain itself.
  const location = { ledger, block, version: block.firstVersion + 2n }
  return ledger.submissions.simulate(
    transaction,
    location.version,
    () => recordWith(execute(location, transactionOutcomeOf(location)), Buffer.alloc(32))
  )
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
function extendAccumulator (ledger: Ledger, upTo: bigint): void {
  const { accumulator, startVersion } = ledger
  const first = startVersion + BigInt(accumulator.leafCount)
  if (first > upTo) return
  let block = ledger.blockOf(first)
  for (let version = first; version <= upTo; version++) {
    if (version > block.lastVersion) block = ledger.block(block.height + 1n)
    const location = { ledger, block, version }
    accumulator.append(leafOf(execute(location, transactionOutcomeOf(location))))
  }
  const oldest = ledger.block(Math.max(0, Number(block.height) - ledger.windowBlocks - retainedBlocksBelowWindow))
  accumulator.pruneTo(Number(oldest.firstVersion - startVersion))
}

// A real root needs every transaction before it. A drawn one binds all that differs between chains.
function rootAt ({ ledger, block, version }: TransactionLocation): Buffer {
  const { seed, chainId, realLeaves, submissions, accumulator, startVersion } = ledger
  if (!realLeaves) {
    const { height, timestampUsec } = block
    return digestBytes(seed, chainId, 'root', version, height, timestampUsec, submissions.historyAt(version))
  }
  extendAccumulator(ledger, version)
  return accumulator.rootOf(Number(version - startVersion) + 1)
}

function recordOf (executed: Executed): CommittedTransaction {
  return recordWith(executed, rootAt(executed.location))
}

function recordWith (executed: Executed, root: Buffer): CommittedTransaction {
  return {
    ...committedMembersOf(executed),
    accumulator_root_hash: printHash(root),
    ...kindOf(executed.location).membersOf(executed)
  } as CommittedTransaction
}

/** Returns what a committed transaction did. */
export function transactionOutcomeOf (location: TransactionLocation): Outcome {
  return kindOf(location).outcomeOf(location)
}

function kindOf ({ ledger, block, version }: TransactionLocation): TransactionKind {
  if (ledger.submissions.at(version) !== undefined) return submitted
  if (block.height === 0n) return genesis
  if (version === block.firstVersion) return blockMetadata
  if (version === block.lastVersion) return blockEnd
  const kind = version === block.firstVersion + 1n ? senderlessKindAfterMetadata(block) : undefined
  return kind === undefined ? userTransaction : senderlessKinds[kind]
}

/** Transaction that a client submitted: the fee and the sequence number of its sender, and its transfer. */
const submitted: TransactionKind = {
  outcomeOf ({ ledger, version }) {
    const { transaction, failure } = ledger.submissions.at(version) as CommittedSubmission
    const { sender, transfer } = transaction
    const owners = new Set([sender, ...failure === undefined && transfer !== undefined ? [transfer.to] : []])
    return {
      writes: [accountOf(sender), ...[...owners].map(storeOf)].map(definition =>
        resourceWrite(definition, ledger, version)
      ),
      moduleEvents: () => [
        ...failure === undefined ? transferEvents(transaction) : [],
        feeStatement(gasOfSubmission)
      ],
      gas: gasOfSubmission,
      ...failure !== undefined && { failure },
      submitted: transaction
    }
  },
  membersOf: executed => ({
    ...(executed.outcome.submitted as SubmittedTransaction).request,
    events: recordsOf(executed),
    timestamp: String(executed.location.block.timestampUsec),
    type: 'user_transaction'
  })
}

/** Builds the record of a submitted transaction while it is pending. */
export function pendingSubmission ({ hash, request }: SubmittedTransaction): PendingTransaction {
  return { hash, ...request, type: 'pending_transaction' }
}

function transferEvents ({ sender, transfer }: SubmittedTransaction): EventRecord[] {
  if (transfer === undefined) return []
  const event = (name: string, owner: string): EventRecord =>
    moduleEvent(`0x1::fungible_asset::${name}`, {
      amount: String(transfer.amount),
      store: longAddress(primaryStore(owner, chainAsset))
    })
  return [event('Withdraw', sender), event('Deposit', transfer.to)]
}
