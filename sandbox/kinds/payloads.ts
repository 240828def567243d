import { digestHex } from '../seeded-digest.js'
import {
  type EncryptedPayload,
  type EntryFunctionPayload,
  type FunctionAbi,
  type MultisigPayload,
  type Payload,
  type Script
} from '../records.js'
import { generateHex } from './generate-hex.js'
import { type TransactionLocation } from './transaction-location.js'

/** Builds the payload of the transaction at a location. */
export type PayloadMaker = (location: TransactionLocation) => Payload

/** Builds the most common payload. */
export function makeMoveToPayload ({ version }: TransactionLocation): EntryFunctionPayload {
  return makeCallPayload('0x42::game::move_to', [], [String(version), '0xcafe'])
}

/** Builds a payload that calls an entry function. */
export function makeCallPayload (name: string, types: string[], args: unknown[]): EntryFunctionPayload {
  return { function: name, type_arguments: types, arguments: args, type: 'entry_function_payload' }
}

/** Builds a script with bytecode unique to its transaction. */
export function makeScript (location: TransactionLocation, isReadable: boolean): Script {
  const bytecode = `0xa11ceb0b07000000${generateHex(location, 'script', 40).slice(2)}`
  return {
    code: { bytecode, abi: isReadable ? scriptAbi() : null },
    type_arguments: ['0x1::aptos_coin::AptosCoin'],
    arguments: isReadable ? ['1000', true] : []
  }
}

/** Builds an encrypted payload that validators failed to decrypt. */
export const makeUndecryptedPayload: PayloadMaker = location => ({
  ...encryptedMembers(location),
  claimed_entry_fun: { module: '0x42::game', name: null },
  encrypted_state: 'failed_decryption',
  type: 'encrypted_transaction_payload'
})

/** Makers of every payload that can succeed, except the most common one. */
export const otherPayloadMakers: readonly PayloadMaker[] = [
  // Covers every JSON form of an argument.
  ({ version }) =>
    makeCallPayload('0x42::shop::trade', ['0x42::game::Line<0x1::aptos_coin::AptosCoin, vector<u8>>', 'vector<u8>'], [
      '0xcafe',
      7,
      true,
      String(version),
      '340282366920938463463374607431768211455',
      '0xc0ffee',
      ['0x1', '0x2'],
      { vec: ['Ñandú'] },
      { vec: [] }
    ]),
  location => ({ ...makeScript(location, true), type: 'script_payload' }),
  location => ({ ...makeScript(location, false), type: 'script_payload' }),
  () => ({ type: 'module_bundle_payload' }),
  location => makeMultisigPayload(makeMoveToPayload(location)),
  location => makeMultisigPayload({ ...makeScript(location, true), type: 'script_payload' }),
  () => makeMultisigPayload(null),
  location => ({ ...encryptedMembers(location), encrypted_state: 'encrypted', type: 'encrypted_transaction_payload' }),
  location => makeDecryptedPayload(location, makeMoveToPayload(location)),
  location => makeDecryptedPayload(location, { ...makeScript(location, true), type: 'script_payload' }),
  location => makeDecryptedPayload(location, makeMultisigPayload(makeMoveToPayload(location)))
]

type Decrypted = Extract<EncryptedPayload, { encrypted_state: 'decrypted' }>

function makeMultisigPayload (inner: MultisigPayload['transaction_payload']): MultisigPayload {
  return { multisig_address: '0x5afe', transaction_payload: inner, type: 'multisig_payload' }
}

function encryptedMembers (location: TransactionLocation) {
  return {
    payload_hash: digestHex(location.ledger.seed, 'payload', location.version),
    ciphertext: generateHex(location, 'ciphertext', 96),
    encryption_epoch: String(location.block.epoch),
    claimed_entry_fun: null
  }
}

function makeDecryptedPayload (location: TransactionLocation, inner: Decrypted['decrypted_payload']): Decrypted {
  return {
    ...encryptedMembers(location),
    claimed_entry_fun: { module: '0x42::game', name: 'move_to' },
    decrypted_payload: inner,
    decryption_nonce: generateHex(location, 'nonce', 16),
    encrypted_state: 'decrypted',
    type: 'encrypted_transaction_payload'
  }
}

function scriptAbi (): FunctionAbi {
  return {
    name: 'main',
    visibility: 'public',
    is_entry: true,
    is_view: false,
    generic_type_params: [{ constraints: ['key'] }],
    params: ['&signer', 'u64', 'bool'],
    return: []
  }
}
