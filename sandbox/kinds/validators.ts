import { shortAddress } from '../address.js'
import { digestHex } from '../digest.js'
import { type ValidatorTransaction } from '../schema/transaction-validator.js'
import { committedPart } from './committed.js'
import { moduleEvent } from './module-events.js'
import { type HeadKind } from './plan.js'
import { ownBytes, type Slot } from './slot.js'

/**
 * What the validators have agreed on among themselves: new keys of an identity provider, or what an epoch is to share.
 */
export function validatorTransaction (
  slot: Slot,
  kind: Extract<HeadKind, ValidatorTransaction['validator_transaction_type']>
): ValidatorTransaction {
  const epoch = String(slot.block.epoch)
  const author = shortAddress(digestHex(slot.ledger.seed, 'validator', 2).slice(2))
  const signed = { signer_indices: [0, 1, 3], sig: ownBytes(slot, 'validators', 96) }
  const common = committedPart(slot, [], 0n)
  const timestamp = String(slot.block.timestampUsec)
  switch (kind) {
    case 'observed_jwk_update':
      return {
        ...common,
        events: [moduleEvent('0x1::jwks::ObservedJWKsUpdated', { epoch, jwks: { entries: [] } })],
        timestamp,
        quorum_certified_update: {
          update: observed(slot),
          multi_sig: slot.block.height % 4n === 1n ? signed : { ...signed, sig: null }
        },
        validator_transaction_type: kind,
        type: 'validator_transaction'
      }
    case 'dkg_result':
      return {
        ...common,
        events: [],
        timestamp,
        dkg_transcript: { epoch, author, payload: ownBytes(slot, 'transcript', 200) },
        validator_transaction_type: kind,
        type: 'validator_transaction'
      }
    case 'chunky_d_k_g_result':
      return {
        ...common,
        events: [],
        timestamp,
        certified_subtrx: { epoch, author, subtrx: ownBytes(slot, 'subtranscript', 200), signature: signed },
        encryption_key: ownBytes(slot, 'encryption key', 96),
        validator_transaction_type: kind,
        type: 'validator_transaction'
      }
  }
}

function observed (slot: Slot) {
  return {
    issuer: 'https://identity.example',
    version: Number(slot.block.height),
    jwks: [
      {
        kid: `key-${slot.block.height}`,
        kty: 'RSA',
        alg: 'RS256',
        e: 'AQAB',
        n: Buffer.from(ownBytes(slot, 'modulus', 128)).toString('base64url')
      },
      { id: [...Buffer.from('unread')], payload: [...Buffer.from('{"kty":"unread"}')] }
    ]
  }
}
