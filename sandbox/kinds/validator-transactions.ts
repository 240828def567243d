import { shortAddress } from '../address.js'
import { digestHex } from '../seeded-digest.js'
import { type ValidatorTransaction } from '../records.js'
import { committedMembersOf, type Executed } from './executed.js'
import { moduleEvent } from './module-events.js'
import { type SenderlessKind } from './kind-schedule.js'
import { freeOutcome, type Outcome } from './outcome.js'
import { generateHex } from './generate-hex.js'
import { type TransactionLocation } from './transaction-location.js'

type ValidatorKind = Extract<SenderlessKind, ValidatorTransaction['validator_transaction_type']>

/** Returns what a transaction that validators agree on did. */
export function validatorOutcome ({ block }: TransactionLocation, kind: ValidatorKind): Outcome {
  const updated = { epoch: String(block.epoch), jwks: { entries: [] } }
  return freeOutcome([], kind === 'observed_jwk_update' ? [moduleEvent('0x1::jwks::ObservedJWKsUpdated', updated)] : [])
}

/**
 * Builds a transaction that validators agree on: keys of an identity provider, randomness or an encryption key of an
 * epoch.
 */
export function makeValidatorTransaction (executed: Executed, kind: ValidatorKind): ValidatorTransaction {
  const { location } = executed
  const epoch = String(location.block.epoch)
  const author = shortAddress(digestHex(location.ledger.seed, 'validator', 2).slice(2))
  const signed = { signer_indices: [0, 1, 3], sig: generateHex(location, 'validators', 96) }
  const common = {
    ...committedMembersOf(executed),
    events: executed.events.map(({ record }) => record),
    timestamp: String(location.block.timestampUsec)
  }
  switch (kind) {
    case 'observed_jwk_update':
      return {
        ...common,
        quorum_certified_update: {
          update: observedKeys(location),
          multi_sig: location.block.height % 4n === 1n ? signed : { ...signed, sig: null }
        },
        validator_transaction_type: kind,
        type: 'validator_transaction'
      }
    case 'dkg_result':
      return {
        ...common,
        dkg_transcript: { epoch, author, payload: generateHex(location, 'transcript', 200) },
        validator_transaction_type: kind,
        type: 'validator_transaction'
      }
    case 'chunky_d_k_g_result':
      return {
        ...common,
        certified_subtrx: { epoch, author, subtrx: generateHex(location, 'subtranscript', 200), signature: signed },
        encryption_key: generateHex(location, 'encryption key', 96),
        validator_transaction_type: kind,
        type: 'validator_transaction'
      }
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
