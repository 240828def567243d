import { accountOf } from '../account-resource.js'
import { longAddress } from '../address.js'
import { chainAsset, primaryStore, storeOf } from '../native-coin-resources.js'
import { resourceWrite } from '../resource-definition.js'
import { type EventRecord, type PendingTransaction, type UserTransaction } from '../records.js'
import { type CommittedSubmission, gasOfSubmission, type SubmittedTransaction } from '../submissions.js'
import { committedMembersOf, type Executed } from './executed.js'
import { feeStatement, moduleEvent } from './module-events.js'
import { type Outcome } from './outcome.js'
import { type TransactionLocation } from './transaction-location.js'

/** Returns what a submitted transaction did: the fee and the sequence number of its sender, and its transfer. */
export function submittedOutput (
  { ledger, version }: TransactionLocation,
  { transaction, failure }: CommittedSubmission
): Outcome {
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
}

/** Builds a committed transaction that a client submitted. */
export function makeSubmittedTransaction (executed: Executed, { request }: SubmittedTransaction): UserTransaction {
  return {
    ...committedMembersOf(executed),
    ...request,
    events: executed.events.map(({ record }) => record),
    timestamp: String(executed.location.block.timestampUsec),
    type: 'user_transaction'
  }
}

/** Builds a submitted transaction while it is pending. */
export function makePendingTransaction ({ hash, request }: SubmittedTransaction): PendingTransaction {
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
