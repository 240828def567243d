import { addressOf, longAddress } from './address.js'
import { u64Bytes } from './bcs.js'
import { digest, digestHex, digestsHex } from './digest.js'
import { eventRecord, eventsOfVersion } from './events.js'
import { type Block, type Ledger } from './ledger.js'
import { itemAt } from './table.js'
import { type TypeTag } from './type-tag.js'

const u64: TypeTag = { kind: 'primitive', name: 'u64' }

/** The table that user transactions write to; its keys are u64 numbers below 128. */
export const busyTable = addressOf('5eed')

/** A transaction as JSON prints it. */
export function transactionRecord (ledger: Ledger, block: Block, version: bigint): Record<string, unknown> {
  const events = eventsOfVersion(ledger, block, version).map(eventRecord)
  const timestamp = String(block.timestampUsec)
  if (version > block.firstVersion && version < block.lastVersion) {
    const common = committed(ledger, version, tableWrites(ledger, version), '6')
    return { ...common, ...userRequest(ledger, block, version), events, timestamp, type: 'user_transaction' }
  }
  const common = committed(ledger, version, [], '0')
  if (block.height === 0n) return { ...common, payload: genesis, events, type: 'genesis_transaction' }
  if (version === block.firstVersion) {
    return { ...common, ...metadata(ledger, block), events, timestamp, type: 'block_metadata_transaction' }
  }
  if (block.height % 2n === 0n) return { ...common, timestamp, type: 'state_checkpoint_transaction' }
  return { ...common, timestamp, block_end_info: endInfo, type: 'block_epilogue_transaction' }
}

/** A transaction in BCS: where it stands, and bytes that are its own. */
export function transactionBytes (ledger: Ledger, version: bigint): Buffer {
  return Buffer.concat([u64Bytes(version), digest(ledger.seed, 'transaction', version), digest(ledger.seed, 'outputs', version)])
}

const genesis = {
  write_set: { changes: [], events: [], type: 'direct_write_set' },
  type: 'write_set_payload'
}

const endInfo = {
  block_gas_limit_reached: false,
  block_output_limit_reached: false,
  block_effective_block_gas_units: 42,
  block_approx_output_size: 4_096
}

function committed (ledger: Ledger, version: bigint, changes: unknown[], gas: string): Record<string, unknown> {
  const [hash, stateChange, eventRoot, accumulator] = digestsHex(4, ledger.seed, 'hashes', version)
  return {
    version: String(version),
    hash,
    state_change_hash: stateChange,
    event_root_hash: eventRoot,
    state_checkpoint_hash: null,
    gas_used: gas,
    success: true,
    vm_status: 'Executed successfully',
    accumulator_root_hash: accumulator,
    changes
  }
}

function metadata (ledger: Ledger, block: Block): Record<string, unknown> {
  return {
    id: block.hash,
    epoch: String(block.epoch),
    round: String(block.height),
    previous_block_votes_bitvec: [248],
    proposer: digestHex(ledger.seed, 'validator', Number(block.height) % 5),
    failed_proposer_indices: []
  }
}

function userRequest (ledger: Ledger, block: Block, version: bigint): Record<string, unknown> {
  const [sender, publicKey, half, otherHalf] = digestsHex(4, ledger.seed, 'request', version)
  return {
    sender,
    sequence_number: String(version % 1_000n),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: String(block.timestampUsec / 1_000_000n + 30n),
    payload: {
      function: '0x42::game::move_to',
      type_arguments: [],
      arguments: [String(version), '0xcafe'],
      type: 'entry_function_payload'
    },
    signature: { public_key: publicKey, signature: `${half}${otherHalf?.slice(2)}`, type: 'ed25519_signature' },
    replay_protection_nonce: null
  }
}

// The value is the one that a lookup at this version finds; an item that is not there was not written.
function tableWrites (ledger: Ledger, version: bigint): unknown[] {
  const key = u64Bytes(BigInt(digest(ledger.seed, 'written', version).readUInt8() % 128))
  const value = itemAt(ledger, { handle: busyTable, keyType: u64, key }, u64, version)
  if (typeof value === 'string') return []
  return [{
    state_key_hash: digestHex('state key', busyTable, key),
    handle: longAddress(busyTable),
    key: `0x${key.toString('hex')}`,
    value: `0x${value.bytes.toString('hex')}`,
    data: null,
    type: 'write_table_item'
  }]
}
