import { type Address, addressBytes, readAddress } from '../address.js'
import {
  type KeySignature,
  type PublicKey,
  type EntryFunctionPayload,
  type MultisigPayload,
  type Script,
  type Signers,
  type AccountSignature,
  type LimitsRequest,
  type TransactionSignature,
  type UserRequest,
  type CommittedTransaction,
  type BlockMetadataTransaction,
  type ValidatorTransaction
} from '../records.js'
import { trustedTypeTag, typeTagBytes } from '../type-tag.js'
import { integerBytes, optionBytes, sequenceBytes, sizedBytes, textBytes, u64Bytes, variant } from '../bcs.js'
import { type Executed, infoBytes, type TransactionLocation } from './outcome.js'

/** Encodes a committed transaction with its outcome and its write set, as `TransactionOnChainData`. */
export function onChainBytes (executed: Executed, record: CommittedTransaction, writeSet: Buffer): Buffer {
  const events = sequenceBytes(executed.events.map(({ bytes }) => bytes))
  return Buffer.concat([
    u64Bytes(executed.location.version),
    executed.outcome.submitted === undefined
      ? transactionBytesOf(executed.location, record, writeSet, events)
      : variant(0, executed.outcome.submitted.bytes),
    infoBytes(executed.info, executed.location.ledger.transactionInfo),
    events,
    bytesOfHex(record.accumulator_root_hash),
    writeSet
  ])
}

function transactionBytesOf (
  { ledger, block }: TransactionLocation,
  record: CommittedTransaction,
  writeSet: Buffer,
  events: Buffer
): Buffer {
  switch (record.type) {
    case 'user_transaction':
      return variant(0, signedTransactionBytes(record, ledger.chainId))
    case 'genesis_transaction':
      return variant(1, variant(0, writeSet, events))
    case 'block_metadata_transaction':
      return metadataBytes(record)
    case 'state_checkpoint_transaction':
      return variant(3, bytesOfHex(block.hash))
    case 'validator_transaction':
      return variant(4, validatorBytes(record))
    case 'block_epilogue_transaction': {
      const info = record.block_end_info
      return variant(
        6,
        Buffer.from([0]),
        bytesOfHex(block.hash),
        Buffer.from([
          0,
          info?.block_gas_limit_reached === true ? 1 : 0,
          info?.block_output_limit_reached === true ? 1 : 0
        ]),
        u64Bytes(BigInt(info?.block_effective_block_gas_units ?? 0)),
        u64Bytes(BigInt(info?.block_approx_output_size ?? 0))
      )
    }
  }
}

function metadataBytes (record: BlockMetadataTransaction): Buffer {
  const members = Buffer.concat([
    bytesOfHex(record.id),
    u64Bytes(BigInt(record.epoch)),
    u64Bytes(BigInt(record.round)),
    bytesOfAddress(record.proposer),
    sizedBytes(Buffer.from(record.previous_block_votes_bitvec)),
    sequenceBytes(record.failed_proposer_indices.map(index => integerBytes(BigInt(index), 4))),
    u64Bytes(BigInt(record.timestamp))
  ])
  const { block_metadata_extension: extension } = record
  if (extension === undefined) return variant(2, members)
  const randomness = extension.randomness === null ? undefined : sizedBytes(bytesOfHex(extension.randomness))
  if (extension.type === 'v1') {
    const ofRound = randomness && Buffer.concat([members.subarray(32, 48), randomness])
    return variant(5, variant(1, members, optionBytes(ofRound)))
  }
  const key = extension.decryption_key === null ? undefined : sizedBytes(bytesOfHex(extension.decryption_key))
  const features = sequenceBytes([variant(0, optionBytes(randomness)), variant(1, optionBytes(key))])
  return variant(5, variant(3, members, sizedBytes(features), sequenceBytes([])))
}

function validatorBytes (record: ValidatorTransaction): Buffer {
  switch (record.validator_transaction_type) {
    case 'dkg_result': {
      const { epoch, author, payload } = record.dkg_transcript
      return variant(0, u64Bytes(BigInt(epoch)), bytesOfAddress(author), sizedBytes(bytesOfHex(payload)))
    }
    case 'observed_jwk_update': {
      const { update, multi_sig: signed } = record.quorum_certified_update
      return variant(
        1,
        textBytes(update.issuer),
        u64Bytes(BigInt(update.version)),
        sequenceBytes(
          update.jwks.map(key => Buffer.concat([textBytes('0x1::jwks::JWK'), textBytes(JSON.stringify(key))]))
        ),
        sizedBytes(Buffer.from(signed.signer_indices)),
        optionBytes(signed.sig === null ? undefined : sizedBytes(bytesOfHex(signed.sig)))
      )
    }
  }
}

// In the order of their variants.
const keyTypes = ['ed25519', 'secp256k1_ecdsa', 'secp256r1_ecdsa', 'keyless', 'federated_keyless', 'slh_dsa__sha2_128s']
const signatureTypes = ['ed25519', 'secp256k1_ecdsa', 'web_authn', 'keyless', 'slh_dsa__sha2_128s']

/** Encodes a signed transaction: what its sender submitted. */
export function signedTransactionBytes (request: UserRequest, chainId: number): Buffer {
  return Buffer.concat([rawTransactionBytes(request, chainId), authenticatorBytes(request.signature)])
}

/** Encodes what the sender of a transaction signs. */
export function rawTransactionBytes (request: Omit<UserRequest, 'signature'>, chainId: number): Buffer {
  return Buffer.concat([
    bytesOfAddress(request.sender),
    u64Bytes(BigInt(request.sequence_number)),
    payloadBytes(request),
    u64Bytes(BigInt(request.max_gas_amount)),
    u64Bytes(BigInt(request.gas_unit_price)),
    u64Bytes(BigInt(request.expiration_timestamp_secs)),
    Buffer.from([chainId])
  ])
}

/** Encodes an address that JSON prints. */
function bytesOfAddress (text: string): Buffer {
  return addressBytes(readAddress(text) as Address)
}

/** Decodes the hex that JSON prints for bytes. */
function bytesOfHex (text: string): Buffer {
  return Buffer.from(text.slice(2), 'hex')
}

/** Encodes a script with its arguments. */
function scriptBytes ({ code, type_arguments: types, arguments: args }: Script): Buffer {
  // An argument of a script says its type: a boolean or a u64 here.
  const argumentBytes = args.map(argument =>
    typeof argument === 'boolean' ? variant(5, valueBytes(argument)) : variant(1, valueBytes(argument))
  )
  return Buffer.concat([sizedBytes(bytesOfHex(code.bytecode)), typesBytes(types), sequenceBytes(argumentBytes)])
}

function payloadBytes (request: Omit<UserRequest, 'signature'>): Buffer {
  const { payload, replay_protection_nonce: nonce, txn_limits_request: limits } = request
  switch (payload.type) {
    case 'script_payload':
      return variant(0, scriptBytes(payload))
    case 'entry_function_payload': {
      const call = entryFunctionBytes(payload)
      if (nonce === null && limits === undefined) return variant(2, call)
      // Payload with options: an entry function, no multisig account, the nonce, and the limits in the newer form.
      return variant(
        4,
        variant(0, variant(1, call)),
        variant(limits === undefined ? 0 : 1, optionBytes(undefined)),
        optionBytes(nonce === null ? undefined : u64Bytes(BigInt(nonce))),
        ...limits === undefined ? [] : [optionBytes(limitsBytes(limits))]
      )
    }
    case 'encrypted_transaction_payload':
      return variant(5, variant(encryptedStates.indexOf(payload.encrypted_state), bytesOfHex(payload.ciphertext)))
    case 'multisig_payload':
      return variant(
        3,
        bytesOfAddress(payload.multisig_address),
        optionBytes(multisigBytes(payload.transaction_payload))
      )
  }
}

const encryptedStates = ['encrypted', 'failed_decryption', 'decrypted']
const limitsTypes = ['stake_pool_owner', 'delegated_voter', 'delegation_pool_delegator']

function limitsBytes (limits: LimitsRequest): Buffer {
  const { execution_multiplier_percent: execution, io_multiplier_percent: io } = limits.multipliers
  const pool = 'pool_address' in limits ? bytesOfAddress(limits.pool_address) : Buffer.alloc(0)
  const multipliers = variant(0, ...[execution, io].map(percent => u64Bytes(BigInt(percent))))
  return variant(limitsTypes.indexOf(limits.type), pool, multipliers)
}

function multisigBytes (payload: MultisigPayload['transaction_payload']): Buffer | undefined {
  if (payload === null) return undefined
  return payload.type === 'script_payload' ? variant(1, scriptBytes(payload)) : variant(0, entryFunctionBytes(payload))
}

function entryFunctionBytes (payload: EntryFunctionPayload): Buffer {
  const [address, module, name] = payload.function.split('::')
  return Buffer.concat([
    bytesOfAddress(String(address)),
    textBytes(String(module)),
    textBytes(String(name)),
    typesBytes(payload.type_arguments),
    sequenceBytes(payload.arguments.map(argument => sizedBytes(valueBytes(argument))))
  ])
}

function typesBytes (types: readonly string[]): Buffer {
  return sequenceBytes(types.map(type => typeTagBytes(trustedTypeTag(type))))
}

// An argument's type is known to its function alone, so this is one of the types that have its JSON form.
function valueBytes (value: unknown): Buffer {
  if (typeof value === 'boolean') return Buffer.from([value ? 1 : 0])
  if (typeof value === 'number') return Buffer.from([value])
  if (Array.isArray(value)) return sequenceBytes(value.map(valueBytes))
  if (typeof value === 'object' && value !== null) return Buffer.concat(Object.values(value).map(valueBytes))
  const text = String(value)
  if (/^\d+$/.test(text)) return integerBytes(BigInt(text), text.length > 20 ? 16 : 8)
  const address = text.startsWith('0x') ? readAddress(text) : undefined
  return address === undefined ? textBytes(text) : addressBytes(address)
}

function authenticatorBytes (signature: TransactionSignature): Buffer {
  switch (signature.type) {
    case 'ed25519_signature':
      return accountBytes(signature)
    case 'multi_agent_signature':
      return variant(2, signersBytes(signature))
    case 'fee_payer_signature':
      return variant(
        3,
        signersBytes(signature),
        bytesOfAddress(signature.fee_payer_address),
        accountBytes(signature.fee_payer_signer)
      )
    case 'no_account_signature':
      return variant(4, accountBytes(signature))
    case 'single_sender':
      return variant(4, accountBytes(innerSignature(signature)))
  }
}

function signersBytes (signers: Signers): Buffer {
  return Buffer.concat([
    accountBytes(signers.sender),
    sequenceBytes(signers.secondary_signer_addresses.map(bytesOfAddress)),
    sequenceBytes(signers.secondary_signers.map(accountBytes))
  ])
}

// Only its members show the type of a single sender's signature.
function innerSignature (signature: Extract<TransactionSignature, { type: 'single_sender' }>): AccountSignature {
  if ('public_keys' in signature) return { ...signature, type: 'multi_key_signature' }
  if ('public_key' in signature) return { ...signature, type: 'single_key_signature' }
  return 'auth_data' in signature
    ? { ...signature, type: 'abstract_signature' }
    : { type: 'no_account_signature' }
}

function accountBytes (signature: AccountSignature): Buffer {
  switch (signature.type) {
    case 'ed25519_signature':
      return variant(0, sizedBytes(bytesOfHex(signature.public_key)), sizedBytes(bytesOfHex(signature.signature)))
    case 'single_key_signature':
      return variant(2, publicKeyBytes(signature.public_key), keySignatureBytes(signature.signature))
    case 'multi_key_signature': {
      // The first bit is the first key's.
      const bits = signature.signatures.reduce((sum, { index }) => sum | (0x80 >> index), 0)
      return variant(
        3,
        sequenceBytes(signature.public_keys.map(publicKeyBytes)),
        Buffer.from([signature.signatures_required]),
        sequenceBytes(signature.signatures.map(({ signature: one }) => keySignatureBytes(one))),
        sizedBytes(Buffer.from([bits]))
      )
    }
    case 'no_account_signature':
      return variant(4)
    case 'abstract_signature': {
      const [address, module, name] = signature.function_info.split('::')
      const data = sizedBytes(bytesOfHex(signature.auth_data))
      return variant(
        5,
        bytesOfAddress(String(address)),
        textBytes(String(module)),
        textBytes(String(name)),
        variant(0, sizedBytes(Buffer.alloc(32)), data)
      )
    }
  }
}

function publicKeyBytes ({ type, value }: PublicKey): Buffer {
  return variant(keyTypes.indexOf(type), sizedBytes(bytesOfHex(value)))
}

function keySignatureBytes ({ type, value }: KeySignature): Buffer {
  const wrapped = type === 'secp256r1_ecdsa' ? 'web_authn' : type
  return variant(signatureTypes.indexOf(wrapped), sizedBytes(bytesOfHex(value)))
}
