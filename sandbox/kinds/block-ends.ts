import { addressOf, shortAddress } from '../address.js'
import { depositor } from '../deposits.js'
import { digestHex } from '../digest.js'
import { eventRecord, eventsOfVersion } from '../events.js'
import { epochBlocks } from '../ledger.js'
import { type Change } from '../schema/change.js'
import {
  type BlockEndTransaction,
  type BlockMetadataExtension,
  type BlockMetadataTransaction
} from '../schema/transaction-block.js'
import { coinTag, resourceChange, tagOf } from './changes.js'
import { committedPart } from './committed.js'
import { ownBytes, type Slot } from './slot.js'

const one = addressOf('1')
const blockTag = tagOf('block', 'BlockResource')
const clockTag = tagOf('timestamp', 'CurrentTimeMicroseconds')
const epochTag = tagOf('reconfiguration', 'Configuration')

/** How a block begins. */
export function blockMetadata (slot: Slot): BlockMetadataTransaction {
  const { ledger, block, version } = slot
  const emitted = eventsOfVersion(ledger, block, version)
  const extension = extensionOf(slot)
  return {
    ...committedPart(slot, metadataChanges(slot, emitted.some(({ account }) => account === depositor)), 0n),
    id: block.hash,
    epoch: String(block.epoch),
    round: String(block.height),
    events: emitted.map(eventRecord),
    previous_block_votes_bitvec: [248],
    proposer: shortAddress(digestHex(ledger.seed, 'validator', Number(block.height) % 5).slice(2)),
    failed_proposer_indices: [],
    timestamp: String(block.timestampUsec),
    ...extension && { block_metadata_extension: extension },
    type: 'block_metadata_transaction'
  }
}

/** How a block ends, in one of two ways. */
export function blockEnd (slot: Slot): BlockEndTransaction {
  const { height, timestampUsec, firstVersion, lastVersion } = slot.block
  const common = { ...committedPart(slot, [], 0n), timestamp: String(timestampUsec) }
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

// Blocks have begun in each of these ways, the oldest without any extension.
function extensionOf (slot: Slot): BlockMetadataExtension | undefined {
  switch (slot.block.height % 6n) {
    case 1n:
      return { type: 'v0' }
    case 2n:
      return { randomness: null, type: 'v1' }
    case 3n:
      return { randomness: ownBytes(slot, 'randomness', 32), type: 'v1' }
    case 4n:
      return { randomness: null, decryption_key: null, type: 'v2' }
    case 5n:
      return {
        randomness: ownBytes(slot, 'randomness', 32),
        decryption_key: ownBytes(slot, 'decryption key', 48),
        type: 'v2'
      }
    default:
      return undefined
  }
}

function metadataChanges (slot: Slot, isDeposit: boolean): Change[] {
  const { ledger, block } = slot
  const height = Number(block.height)
  const { goneAt, backAt } = ledger.remaking ?? { goneAt: -1, backAt: -1 }
  return [
    resourceChange(slot, one, blockTag),
    resourceChange(slot, one, clockTag),
    ...height % epochBlocks === 0 ? [resourceChange(slot, one, epochTag)] : [],
    ...isDeposit || height === goneAt || height === backAt ? [resourceChange(slot, depositor, coinTag)] : []
  ]
}
