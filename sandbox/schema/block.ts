import { z } from 'zod'
import { hash, u64String } from './scalars.js'
import { committedTransaction } from './transaction.js'

/** Schema of a block; `transactions` is null unless they are requested. */
export const block = z.strictObject({
  block_height: u64String,
  block_hash: hash,
  block_timestamp: u64String,
  first_version: u64String,
  last_version: u64String,
  transactions: z.array(committedTransaction).nullable()
}).meta({
  id: 'Block',
  description: 'A block with its time in microseconds, its version range and its transactions in order; ' +
    '`transactions` is null unless they are requested.'
})

/** Block as JSON prints it. */
export type BlockRecord = z.infer<typeof block>
