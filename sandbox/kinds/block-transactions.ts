import { addressOf, shortAddress } from '../address.js'
import { depositAccount } from '../deposit-events.js'
import { digestHex } from '../digest.js'
import { eventRecord, eventsOfVersion } from '../ledger-events.js'
import { epochBlocks } from '../ledger.js'
import { type WriteSetChange } from '../schema/change.js'
import {
  type BlockEndTransaction,
  type BlockMetadataExtension,
  type BlockMetadataTransaction
} from '../schema/transaction-block.js'
import { coinTag, resourceChange, tagOf } from './write-set-changes.js'
import { committedMembersOf } from './committed.js'
import { generateHex, type TransactionLocation } from './transaction-location.js'

const frameworkAddress = addressOf('1')
const blockTag = tagOf('block', 'BlockResource')
const clockTag = tagOf('timestamp', 'CurrentTimeMicroseconds')
const epochTag = tagOf('reconfiguration', 'Configuration')

/** Builds the first transaction of a block. */
export function makeBlockMetadata (location: TransactionLocation): BlockMetadataTransaction {
  const { ledger, block, version } = location
  const emitted = eventsOfVersion(ledger, block, version)
  const extension = extensionOf(location)
  return {
    ...committedMembersOf(
      location,
      metadataChanges(location, emitted.some(({ account }) => account === depositAccount)),
      0n
    ),
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

/** Builds the last transaction of a block: a checkpoint at even heights, an epilogue at odd ones. */
export function makeBlockEnd (location: TransactionLocation): BlockEndTransaction {
  const { height, timestampUsec, firstVersion, lastVersion } = location.block
  const common = { ...committedMembersOf(location, [], 0n), timestamp: String(timestampUsec) }
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

function metadataChanges (location: TransactionLocation, isDeposit: boolean): WriteSetChange[] {
  const { ledger, block } = location
  const height = Number(block.height)
  const { goneAt, backAt } = ledger.remaking ?? { goneAt: -1, backAt: -1 }
  return [
    resourceChange(location, frameworkAddress, blockTag),
    resourceChange(location, frameworkAddress, clockTag),
    ...height % epochBlocks === 0 ? [resourceChange(location, frameworkAddress, epochTag)] : [],
    ...isDeposit || height === goneAt || height === backAt ? [resourceChange(location, depositAccount, coinTag)] : []
  ]
}
