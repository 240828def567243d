import { z } from 'zod'
import { u64Number, u64String, u8 } from './scalars.js'

/** Schema of a 200 response to `GET /v1`. */
export const index = z.strictObject({
  chain_id: u8,
  epoch: u64String,
  ledger_version: u64String,
  oldest_ledger_version: u64String,
  ledger_timestamp: u64String,
  node_role: z.enum(['full_node', 'validator']),
  oldest_block_height: u64String,
  block_height: u64String,
  git_hash: z.string().regex(/^[0-9a-f]{40}$/),
  encryption_key: z.string().nullable()
}).meta({
  id: 'Index',
  description: 'The position of the node in versions, heights and microseconds; `git_hash` identifies its ' +
    'release.'
})

/** Schema of a 200 response to `GET /v1/info`. */
export const nodeInfo = z.strictObject({
  chain_id: z.string(),
  node_type: z.enum(['PublicFullnode', 'ValidatorFullnode', 'Validator']),
  bootstrapping_mode: z.string(),
  continuous_syncing_mode: z.string(),
  new_storage_format: z.boolean(),
  internal_indexer_config: z.strictObject({
    enable_transaction: z.boolean(),
    enable_event: z.boolean(),
    enable_event_v2_translation: z.boolean(),
    event_v2_translation_ignores_below_version: u64Number,
    enable_statekeys: z.boolean(),
    batch_size: u64Number,
    runtime_threads: u64Number
  }),
  fullnode_network_peer_id_Public: z.string().regex(/^[0-9a-f]{64}$/)
}).meta({
  id: 'NodeInfo',
  description: 'The configuration of the node; `chain_id` is a name if the chain has one. The order of the ' +
    'members differs between responses.'
})

/** Schema of a 200 response to `GET /v1/estimate_gas_price`. */
export const gasEstimate = z.strictObject({
  deprioritized_gas_estimate: u64Number,
  gas_estimate: u64Number,
  prioritized_gas_estimate: u64Number
}).meta({
  id: 'GasEstimate',
  description: 'The price of a unit of gas at low, standard and high priority.'
})

/** Schema of a 200 response to `GET /v1/-/healthy`. */
export const health = z.strictObject({ message: z.string() }).meta({
  id: 'Health',
  description: 'A message that the node is healthy.'
})

export type IndexRecord = z.infer<typeof index>
export type NodeInfo = z.infer<typeof nodeInfo>
export type GasEstimate = z.infer<typeof gasEstimate>
export type HealthRecord = z.infer<typeof health>
