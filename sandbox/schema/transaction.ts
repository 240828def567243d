import { z } from 'zod'
import { blockEpilogueTransaction, blockMetadataTransaction, stateCheckpointTransaction } from './transaction-block.js'
import { genesisTransaction } from './transaction-genesis.js'
import { pendingTransaction, userTransaction } from './transaction-user.js'
import { validatorTransaction } from './transaction-validator.js'

const kinds = [
  userTransaction,
  genesisTransaction,
  blockMetadataTransaction,
  stateCheckpointTransaction,
  blockEpilogueTransaction,
  validatorTransaction
] as const

/** A transaction that the chain has taken. */
export const committedTransaction = z.discriminatedUnion('type', kinds).meta({
  id: 'CommittedTransaction',
  description: 'A transaction that the chain has taken.'
})

/** A transaction, taken or waiting. */
export const transaction = z.discriminatedUnion('type', [pendingTransaction, ...kinds]).meta({
  id: 'Transaction',
  description: 'A transaction, of one of the kinds.'
})

/** A transaction that the chain has taken. */
export type CommittedTransaction = z.infer<typeof committedTransaction>

/** A transaction, taken or waiting. */
export type Transaction = z.infer<typeof transaction>
