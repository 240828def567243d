import { z } from 'zod'
import { change } from './change.js'
import { hash, u64String } from './scalars.js'

/** Members that all committed transactions share. */
export const committedShape = {
  version: u64String,
  hash,
  state_change_hash: hash,
  event_root_hash: hash,
  state_checkpoint_hash: hash.nullable(),
  gas_used: u64String,
  success: z.boolean(),
  vm_status: z.string(),
  accumulator_root_hash: hash,
  changes: z.array(change)
}

/** Values of the members that all committed transactions share. */
export type Committed = z.infer<z.ZodObject<typeof committedShape>>
