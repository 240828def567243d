import { shortAddress } from '../address.js'
import { digestHex } from '../digests.js'
import { isDepositAt } from '../events.js'
import { genesisItemKeys, itemWrite } from '../generated-table-items.js'
import { epochBlocks } from '../ledger.js'
import { type BlockMetadataExtension, type EventRecord, type TransactionMembers } from '../records.js'
import {
  accountResources,
  assetMetadata,
  blockResources,
  coinStore,
  constantResources,
  epochResources,
  primaryStores,
  resourceWrite
} from '../resources.js'
import { type SenderlessKind } from '../schedule.js'
import { scheduledWrite } from '../scheduled.js'
import {
  committedMembersOf,
  type Executed,
  freeOutcome,
  generateHex,
  moduleEvent,
  recordsOf,
  type TransactionKind,
  type TransactionLocation
} from './outcome.js'
import { drawnItemWrite, scheduledValues } from './user-transactions.js'

/** First transaction of the chain: writes every key of the initial state. */
export const genesis: TransactionKind = {
  outcomeOf ({ ledger, version }) {
    const definitions = [
      ...accountResources.values(),
      ...blockResources,
      ...epochResources,
      ...constantResources,
      coinStore,
      assetMetadata,
      ...primaryStores.values()
    ]
    const scheduled = scheduledValues.filter(({ stateAt }) => stateAt(0) !== undefined)
    return freeOutcome([
      ...scheduled.map(value => scheduledWrite(value, ledger, 0)),
      ...definitions.map(definition => resourceWrite(definition, ledger, version)),
      ...genesisItemKeys.map(key => itemWrite(ledger.seed, key, version))
    ])
  },
  membersOf: directWriteSet
}

/** First transaction of a block. */
export const blockMetadata: TransactionKind = {
  outcomeOf ({ ledger, block, version }) {
    const definitions = [
      ...blockResources,
      ...Number(block.height) % epochBlocks === 0 ? epochResources : [],
      ...isDepositAt(ledger, block, version) ? [coinStore] : []
    ]
    return freeOutcome(definitions.map(definition => resourceWrite(definition, ledger, version)))
  },
  membersOf (executed) {
    const { location, location: { ledger, block } } = executed
    const extension = extensionOf(location)
    return {
      id: block.hash,
      epoch: String(block.epoch),
      round: String(block.height),
      events: recordsOf(executed),
      previous_block_votes_bitvec: [248],
      proposer: shortAddress(digestHex(ledger.seed, 'validator', Number(block.height) % 5).slice(2)),
      failed_proposer_indices: [],
      timestamp: String(block.timestampUsec),
      ...extension && { block_metadata_extension: extension },
      type: 'block_metadata_transaction'
    }
  }
}

/** Last transaction of a block: a checkpoint at even heights, an epilogue at odd ones. */
export const blockEnd: TransactionKind = {
  outcomeOf: () => freeOutcome([]),
  membersOf ({ location: { block: { height, timestampUsec, firstVersion, lastVersion } } }) {
    const timestamp = String(timestampUsec)
    if (height % 2n === 0n) return { timestamp, type: 'state_checkpoint_transaction' }
    const info = {
      block_gas_limit_reached: lastVersion - firstVersion > 1_000n,
      block_output_limit_reached: false,
      block_effective_block_gas_units: 42,
      block_approx_output_size: 4_096
    }
    return { timestamp, block_end_info: height % 10n === 5n ? null : info, type: 'block_epilogue_transaction' }
  }
}

// Older blocks have no extension, and some epochs neither randomness nor a key.
function extensionOf (location: TransactionLocation): BlockMetadataExtension | undefined {
  const { height } = location.block
  if (height % 3n === 0n) return undefined
  const randomness = height % 3n === 1n ? null : generateHex(location, 'randomness', 32)
  if (height % 2n === 1n) return { randomness, type: 'v1' }
  const key = randomness && generateHex(location, 'decryption key', 48)
  return { randomness, decryption_key: key, decryption_round: key && String(height), type: 'v3' }
}

/** Kinds of transactions that can follow the metadata of a block: by validators, or administrative. */
export const senderlessKinds: Readonly<Record<SenderlessKind, TransactionKind>> = {
  observed_jwk_update: validatorKind(
    location => ({
      quorum_certified_update: {
        update: observedKeys(location),
        multi_sig: {
          signer_indices: [0, 1, 3],
          sig: location.block.height % 4n === 1n ? generateHex(location, 'validators', 96) : null
        }
      },
      validator_transaction_type: 'observed_jwk_update'
    }),
    (
      { block }
    ) => [moduleEvent('0x1::jwks::ObservedJWKsUpdated', { epoch: String(block.epoch), jwks: { entries: [] } })]
  ),
  dkg_result: validatorKind(location => ({
    dkg_transcript: {
      epoch: String(location.block.epoch),
      author: shortAddress(digestHex(location.ledger.seed, 'validator', 2).slice(2)),
      payload: generateHex(location, 'transcript', 200)
    },
    validator_transaction_type: 'dkg_result'
  })),
  direct_write_set: { outcomeOf: location => freeOutcome([drawnItemWrite(location)]), membersOf: directWriteSet }
}

type OwnMembers<Members> = Members extends { type: 'validator_transaction' } ?
  Omit<Members, 'events' | 'timestamp' | 'type'> :
  never

function validatorKind (
  ownMembers: (location: TransactionLocation) => OwnMembers<TransactionMembers>,
  eventsOf: (location: TransactionLocation) => EventRecord[] = () => []
): TransactionKind {
  return {
    outcomeOf: location => freeOutcome([], eventsOf(location)),
    membersOf: executed => ({
      events: recordsOf(executed),
      timestamp: String(executed.location.block.timestampUsec),
      ...ownMembers(executed.location),
      type: 'validator_transaction'
    })
  }
}

function observedKeys (location: TransactionLocation) {
  return {
    issuer: 'https://identity.example',
    version: Number(location.block.height),
    jwks: [
      {
        kid: `key-${location.block.height}`,
        kty: 'RSA',
        alg: 'RS256',
        e: 'AQAB',
        n: Buffer.from(generateHex(location, 'modulus', 128)).toString('base64url')
      },
      { id: [...Buffer.from('unread')], payload: [...Buffer.from('{"kty":"unread"}')] }
    ]
  }
}

// An administrative write set lists its changes one by one.
function directWriteSet (executed: Executed): TransactionMembers {
  const { changes } = committedMembersOf(executed)
  const events = recordsOf(executed)
  return {
    payload: { write_set: { changes, events, type: 'direct_write_set' }, type: 'write_set_payload' },
    events,
    type: 'genesis_transaction'
  }
}
