import { z } from 'zod'
import { event } from './event.js'
import { address, hash, hexBytes, u32, u64Number, u64String, u8 } from './scalars.js'
import { committed } from './committed.js'

const extension = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('v0') }),
  z.strictObject({ randomness: hexBytes.nullable(), type: z.literal('v1') }),
  z.strictObject({ randomness: hexBytes.nullable(), decryption_key: hexBytes.nullable(), type: z.literal('v2') })
]).meta({ id: 'BlockMetadataExtension', description: 'What later kinds of block metadata hold.' })

/** How a block begins. */
export const blockMetadataTransaction = z.strictObject({
  ...committed,
  id: hash,
  epoch: u64String,
  round: u64String,
  events: z.array(event),
  previous_block_votes_bitvec: z.array(u8),
  proposer: address,
  failed_proposer_indices: z.array(u32),
  timestamp: u64String,
  block_metadata_extension: extension.exactOptional(),
  type: z.literal('block_metadata_transaction')
}).meta({ id: 'BlockMetadataTransaction', description: 'How a block begins: who proposed it, and when.' })

/** How a block ends that tells nothing more. */
export const stateCheckpointTransaction = z.strictObject({
  ...committed,
  timestamp: u64String,
  type: z.literal('state_checkpoint_transaction')
}).meta({
  id: 'StateCheckpointTransaction',
  description: 'How a block ends: `state_checkpoint_hash` is the state at its end.'
})

const endInfo = z.strictObject({
  block_gas_limit_reached: z.boolean(),
  block_output_limit_reached: z.boolean(),
  block_effective_block_gas_units: u64Number,
  block_approx_output_size: u64Number
}).meta({ id: 'BlockEndInfo', description: 'How full a block was.' })

/** How a block ends that tells how full it was. */
export const blockEpilogueTransaction = z.strictObject({
  ...committed,
  timestamp: u64String,
  block_end_info: endInfo.nullable(),
  type: z.literal('block_epilogue_transaction')
}).meta({ id: 'BlockEpilogueTransaction', description: 'How a block ends, and how full it was where that is known.' })

/** How a block begins. */
export type BlockMetadataTransaction = z.infer<typeof blockMetadataTransaction>

/** What later kinds of block metadata hold. */
export type BlockMetadataExtension = z.infer<typeof extension>

/** How a block ends, either way. */
export type BlockEndTransaction = z.infer<typeof stateCheckpointTransaction> | z.infer<typeof blockEpilogueTransaction>
