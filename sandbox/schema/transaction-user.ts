import { z } from 'zod'
import { event } from './event.js'
import { payload } from './payload.js'
import { address, hash, u64String } from './scalars.js'
import { transactionSignature } from './signature.js'
import { committed } from './committed.js'

const request = {
  sender: address,
  sequence_number: u64String,
  max_gas_amount: u64String,
  gas_unit_price: u64String,
  expiration_timestamp_secs: u64String,
  payload,
  signature: transactionSignature,
  replay_protection_nonce: u64String.nullable()
}

/** A transaction that waits for its block. */
export const pendingTransaction = z.strictObject({ hash, ...request, type: z.literal('pending_transaction') }).meta({
  id: 'PendingTransaction',
  description: 'A transaction that waits for its block.'
})

/** What somebody has sent. */
export const userTransaction = z.strictObject({
  ...committed,
  ...request,
  events: z.array(event),
  timestamp: u64String,
  type: z.literal('user_transaction')
}).meta({
  id: 'UserTransaction',
  description: 'What somebody has sent; `success` and `vm_status` tell what became of it.'
})

/** What somebody sends. */
export type UserRequest = z.infer<z.ZodObject<typeof request>>

/** A transaction that waits for its block. */
export type PendingTransaction = z.infer<typeof pendingTransaction>

/** What somebody has sent. */
export type UserTransaction = z.infer<typeof userTransaction>
