import { z } from 'zod'
import { event } from './event.js'
import { payload } from './payload.js'
import { address, hash, u64String } from './scalars.js'
import { transactionSignature } from './signature.js'
import { committedShape } from './committed.js'

const requestShape = {
  sender: address,
  sequence_number: u64String,
  max_gas_amount: u64String,
  gas_unit_price: u64String,
  expiration_timestamp_secs: u64String,
  payload,
  signature: transactionSignature,
  replay_protection_nonce: u64String.nullable()
}

/** Schema of a pending transaction. */
export const pendingTransaction = z.strictObject({ hash, ...requestShape, type: z.literal('pending_transaction') })
  .meta({
    id: 'PendingTransaction',
    description: 'A transaction that is not committed yet.'
  })

/** Schema of a committed transaction of an account. */
export const userTransaction = z.strictObject({
  ...committedShape,
  ...requestShape,
  events: z.array(event),
  timestamp: u64String,
  type: z.literal('user_transaction')
}).meta({
  id: 'UserTransaction',
  description: 'A transaction sent by an account; `success` and `vm_status` are its result.'
})

/** Members that pending and committed user transactions share. */
export type UserRequest = z.infer<z.ZodObject<typeof requestShape>>

/** Pending transaction as JSON prints it. */
export type PendingTransaction = z.infer<typeof pendingTransaction>

/** Committed user transaction as JSON prints it. */
export type UserTransaction = z.infer<typeof userTransaction>
