import { z } from 'zod'
import { event } from './event.js'
import { address, hash, hexBytes, u32, u64Number, u64String, u8 } from './scalars.js'
import { committedShape } from './committed.js'

const extension = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('v0') }),
  z.strictObject({ randomness: hexBytes.nullable(), type: z.literal('v1') }),
  z.strictObject({ randomness: hexBytes.nullable(), decryption_key: hexBytes.nullable(), type: z.literal('v2') })
]).meta({ id: 'BlockMetadataExtension', description: 'Members that newer forms of block metadata add.' })

/** Schema of the first transaction of a block. */
export const blockMetadataTransaction = z.strictObject({
  ...committedShape,
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
}).meta({
  id: 'BlockMetadataTransaction',
  description: 'The first transaction of a block, with its proposer and time.'
})

/** Schema of a block's last transaction in the form without usage details. */
export const stateCheckpointTransaction = z.strictObject({
  ...committedShape,
  timestamp: u64String,
  type: z.literal('state_checkpoint_transaction')
}).meta({
  id: 'StateCheckpointTransaction',
  description: 'The last transaction of a block; `state_checkpoint_hash` is the hash of the state at the end ' +
    'of the block.'
})

const endInfo = z.strictObject({
  block_gas_limit_reached: z.boolean(),
  block_output_limit_reached: z.boolean(),
  block_effective_block_gas_units: u64Number,
  block_approx_output_size: u64Number
}).meta({ id: 'BlockEndInfo', description: 'The resource usage of a block.' })

/** Schema of a block's last transaction in the form that reports the block's usage. */
export const blockEpilogueTransaction = z.strictObject({
  ...committedShape,
  timestamp: u64String,
  block_end_info: endInfo.nullable(),
  type: z.literal('block_epilogue_transaction')
}).meta({
  id: 'BlockEpilogueTransaction',
  description: 'The last transaction of a block, with the resource usage of the block if known.'
})

/** First transaction of a block as JSON prints it. */
export type BlockMetadataTransaction = z.infer<typeof blockMetadataTransaction>

/** Extension that newer forms of block metadata have. */
export type BlockMetadataExtension = z.infer<typeof extension>

/** Last transaction of a block in either form. */
export type BlockEndTransaction = z.infer<typeof stateCheckpointTransaction> | z.infer<typeof blockEpilogueTransaction>
