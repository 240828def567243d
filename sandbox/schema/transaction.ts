import { z } from 'zod'
import { blockEpilogueTransaction, blockMetadataTransaction, stateCheckpointTransaction } from './block-transactions.js'
import { genesisTransaction } from './genesis-transaction.js'
import { pendingTransaction, userTransaction } from './user-transaction.js'
import { validatorTransaction } from './validator-transaction.js'

const kinds = [
  userTransaction,
  genesisTransaction,
  blockMetadataTransaction,
  stateCheckpointTransaction,
  blockEpilogueTransaction,
  validatorTransaction
] as const

/** Schema of a committed transaction, discriminated by type. */
export const committedTransaction = z.discriminatedUnion('type', kinds).meta({
  id: 'CommittedTransaction',
  description: 'A committed transaction.'
})

/** Schema of a transaction, committed or pending. */
export const transaction = z.discriminatedUnion('type', [pendingTransaction, ...kinds]).meta({
  id: 'Transaction',
  description: 'A transaction, committed or pending.'
})

/** Committed transaction as JSON prints it. */
export type CommittedTransaction = z.infer<typeof committedTransaction>

/** Transaction, committed or pending, as JSON prints it. */
export type AnyTransaction = z.infer<typeof transaction>
