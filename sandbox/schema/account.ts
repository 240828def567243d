import { z } from 'zod'
import { hash, u64String } from './scalars.js'

/** Schema of a 200 response to `GET /v1/accounts/{address}`. */
export const account = z.strictObject({
  sequence_number: u64String,
  authentication_key: hash
}).meta({
  id: 'Account',
  description: 'The next sequence number of an account, and its authentication key.'
})

/** Schema of a 200 response to `GET /v1/accounts/{address}/balance/{asset_type}`. */
export const balance = z.number().min(0).meta({
  id: 'Balance',
  type: 'integer',
  format: 'uint64',
  description: 'The amount of an asset: a bare number, which can exceed the precision of a double.'
})

/** Account as JSON prints it. */
export type Account = z.infer<typeof account>
