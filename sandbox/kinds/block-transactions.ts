import { shortAddress } from '../address.js'
import { digestHex } from '../seeded-digest.js'
import { isDepositAt } from '../ledger-events.js'
import { blockResources, epochResources } from '../framework-resources.js'
import { epochBlocks } from '../ledger.js'
import { coinStore } from '../native-coin-resources.js'
import { resourceWrite } from '../resource-definition.js'
import { type BlockEndTransaction, type BlockMetadataExtension, type BlockMetadataTransaction } from '../records.js'
import { type Write } from '../write.js'
import { committedMembersOf, type Executed } from './executed.js'
import { generateHex } from './generate-hex.js'
import { type TransactionLocation } from './transaction-location.js'

/** Builds the first transaction of a block. */
export function makeBlockMetadata (executed: Executed): BlockMetadataTransaction {
  const { location, location: { ledger, block }, events } = executed
  const extension = extensionOf(location)
  return {
    ...committedMembersOf(executed),
    id: block.hash,
    epoch: String(block.epoch),
    round: String(block.height),
    events: events.map(({ record }) => record),
    previous_block_votes_bitvec: [248],
    proposer: shortAddress(digestHex(ledger.seed, 'validator', Number(block.height) % 5).slice(2)),
    failed_proposer_indices: [],
    timestamp: String(block.timestampUsec),
    ...extension && { block_metadata_extension: extension },
    type: 'block_metadata_transaction'
  }
}

/** Builds the last transaction of a block: a checkpoint at even heights, an epilogue at odd ones. */
export function makeBlockEnd (executed: Executed): BlockEndTransaction {
  const { height, timestampUsec, firstVersion, lastVersion } = executed.location.block
  const common = { ...committedMembersOf(executed), timestamp: String(timestampUsec) }
  if (height % 2n === 0n) return { ...common, type: 'state_checkpoint_transaction' }
  const isFull = lastVersion - firstVersion > 1_000n
  const info = {
    block_gas_limit_reached: isFull,
    block_output_limit_reached: false,
    block_effective_block_gas_units: 42,
    block_approx_output_size: 4_096
  }
  return { ...common, block_end_info: height % 10n === 5n ? null : info, type: 'block_epilogue_transaction' }
}

// Covers every metadata extension that real chains have, the oldest form without one included.
function extensionOf (location: TransactionLocation): BlockMetadataExtension | undefined {
  switch (location.block.height % 6n) {
    case 1n:
      return { type: 'v0' }
    case 2n:
      return { randomness: null, type: 'v1' }
    case 3n:
      return { randomness: generateHex(location, 'randomness', 32), type: 'v1' }
    case 4n:
      return { randomness: null, decryption_key: null, type: 'v2' }
    case 5n:
      return {
        randomness: generateHex(location, 'randomness', 32),
        decryption_key: generateHex(location, 'decryption key', 48),
        type: 'v2'
      }
    default:
      return undefined
  }
}

/** Returns what the first transaction of a block writes. */
export function metadataWrites ({ ledger, block, version }: TransactionLocation): Write[] {
  const height = Number(block.height)
  const definitions = [
    ...blockResources,
    ...height % epochBlocks === 0 ? epochResources : [],
    ...isDepositAt(ledger, block, version) ? [coinStore] : []
  ]
  return definitions.map(definition => resourceWrite(definition, ledger, version))
}
