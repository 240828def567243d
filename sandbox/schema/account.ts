import { z } from 'zod'
import { hash, u64String } from './scalars.js'

/** The answer of `GET /v1/accounts/{address}`. */
export const account = z.strictObject({
  sequence_number: u64String,
  authentication_key: hash
}).meta({
  id: 'Account',
  description: 'The number of the next transaction of an account, and what its key must hash to.'
})

/** The answer of `GET /v1/accounts/{address}/balance/{asset_type}`. */
export const balance = z.number().min(0).meta({
  id: 'Balance',
  type: 'integer',
  format: 'uint64',
  description: 'How much of an asset: a bare number, which can be longer than a double holds.'
})

/** An account as JSON prints it. */
export type Account = z.infer<typeof account>
