import { integerBytes, sequenceBytes, sizedBytes, textBytes, u64Bytes } from '../bcs.js'
import { type CommittedTransaction, type BlockMetadataTransaction, type ValidatorTransaction } from '../records.js'
import { type Executed, infoBytes } from './executed.js'
import {
  bytesOfAddress,
  bytesOfHex,
  optionBytes,
  scriptBytes,
  signedTransactionBytes,
  variant
} from './request-bytes.js'
import { type TransactionLocation } from './transaction-location.js'

/** Encodes a committed transaction with its outcome and its write set, as `TransactionOnChainData`. */
export function onChainBytes (executed: Executed, record: CommittedTransaction, writeSet: Buffer): Buffer {
  const events = sequenceBytes(executed.events.map(({ bytes }) => bytes))
  return Buffer.concat([
    u64Bytes(executed.location.version),
    executed.outcome.submitted === undefined
      ? transactionBytesOf(executed.location, record, writeSet, events)
      : variant(0, executed.outcome.submitted.bytes),
    infoBytes(executed.info),
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
    case 'genesis_transaction': {
      const { write_set: payload } = record.payload
      return variant(
        1,
        payload.type === 'direct_write_set'
          ? variant(0, writeSet, events)
          : variant(1, bytesOfAddress(payload.execute_as), scriptBytes(payload.script))
      )
    }
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
  if (extension.type === 'v0') return variant(5, variant(0, members))
  const randomness = extension.randomness === null
    ? undefined
    : Buffer.concat([
      u64Bytes(BigInt(record.epoch)),
      u64Bytes(BigInt(record.round)),
      sizedBytes(bytesOfHex(extension.randomness))
    ])
  if (extension.type === 'v1') return variant(5, variant(1, members, optionBytes(randomness)))
  const key = extension.decryption_key === null ? undefined : sizedBytes(bytesOfHex(extension.decryption_key))
  return variant(5, variant(2, members, optionBytes(randomness), optionBytes(key)))
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
    case 'chunky_d_k_g_result': {
      const { epoch, author, subtrx } = record.certified_subtrx
      return variant(2, u64Bytes(BigInt(epoch)), bytesOfAddress(author), sizedBytes(bytesOfHex(subtrx)))
    }
  }
}
