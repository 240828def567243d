import { z } from 'zod'
import { hash, u64String } from './scalars.js'

/** Schema of a 200 response to `GET /v1/accounts/{address}`. */
export const account = z.strictObject({
  sequence_number: u64String,
  authentication_key: hash
}).meta({
  id: 'Account',
  description: 'The number of the next transaction of an account, and what its key must hash to.'
})

/** Schema of a 200 response to `GET /v1/accounts/{address}/balance/{asset_type}`. */
export const balance = z.number().min(0).meta({
  id: 'Balance',
  type: 'integer',
  format: 'uint64',
  description: 'How much of an asset: a bare number, which can be longer than a double holds.'
})

/** Account as JSON prints it. */
export type Account = z.infer<typeof account>
