import { shortAddress } from '../address.js'
import {
  type KeySignature,
  type PublicKey,
  type AccountSignature,
  type TransactionSignature,
  type Decryption,
  type EncryptedPayload,
  type EntryFunctionPayload,
  type FunctionAbi,
  type LimitsRequest,
  type MultisigPayload,
  type Payload,
  type Script
} from '../records.js'
import { generateHex, type TransactionLocation } from './outcome.js'

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
  location => makeMultisigPayload(makeMoveToPayload(location)),
  location => makeMultisigPayload({ ...makeScript(location, true), type: 'script_payload' }),
  () => makeMultisigPayload(null)
]

function makeMultisigPayload (inner: MultisigPayload['transaction_payload']): MultisigPayload {
  return { multisig_address: '0x5afe', transaction_payload: inner, type: 'multisig_payload' }
}

/** Builds a payload that is encrypted until its block is agreed on, in a state of its decryption. */
export function makeEncryptedPayload (location: TransactionLocation, state: Decryption): EncryptedPayload {
  return {
    payload_hash: generateHex(location, 'payload', 32),
    ciphertext: generateHex(location, 'ciphertext', 240),
    encryption_epoch: String(location.block.epoch),
    claimed_entry_fun: { module: '0x42::game', name: null },
    ...state,
    type: 'encrypted_transaction_payload'
  }
}

const multipliers = { execution_multiplier_percent: '400', io_multiplier_percent: '200' }

/** Requests for higher limits, of each form. */
export const limitsRequests: readonly LimitsRequest[] = [
  { multipliers, type: 'stake_pool_owner' },
  { pool_address: '0x900', multipliers, type: 'delegated_voter' },
  { pool_address: '0x900', multipliers, type: 'delegation_pool_delegator' }
]

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

const keySizes: Readonly<Record<PublicKey['type'], number>> = {
  ed25519: 32,
  secp256k1_ecdsa: 65,
  secp256r1_ecdsa: 65,
  keyless: 60,
  slh_dsa__sha2_128s: 32
}

const signatureSizes: Readonly<Record<KeySignature['type'], number>> = {
  ed25519: 64,
  secp256k1_ecdsa: 64,
  secp256r1_ecdsa: 64,
  web_authn: 180,
  keyless: 330,
  slh_dsa__sha2_128s: 7_856
}

/** Builds the signature of the transaction at a location. */
export type SignatureMaker = (location: TransactionLocation) => TransactionSignature

type AccountSignatureMaker = (location: TransactionLocation, who: string) => AccountSignature

const ed25519 = (location: TransactionLocation, who: string) => ({
  public_key: generateHex(location, `${who} key`, 32),
  signature: generateHex(location, `${who} signature`, 64),
  type: 'ed25519_signature'
} as const)

const singleKey = (key: PublicKey['type'], signature: KeySignature['type']): AccountSignatureMaker => location => ({
  public_key: publicKeyOf(location, key),
  signature: keySignatureOf(location, signature),
  type: 'single_key_signature'
})

const multiKeyMembers = (location: TransactionLocation) => ({
  public_keys: [
    publicKeyOf(location, 'ed25519'),
    publicKeyOf(location, 'secp256k1_ecdsa'),
    publicKeyOf(location, 'keyless')
  ],
  signatures: [{ index: 0, signature: keySignatureOf(location, 'ed25519') }, {
    index: 2,
    signature: keySignatureOf(location, 'keyless')
  }],
  signatures_required: 2
})

const abstractionMembers = (location: TransactionLocation) => ({
  function_info: '0x42::lock::authenticate',
  auth_data: generateHex(location, 'auth data', 48)
})

const multiKey: AccountSignatureMaker = location => ({ ...multiKeyMembers(location), type: 'multi_key_signature' })
const abstract: AccountSignatureMaker = location => ({ ...abstractionMembers(location), type: 'abstract_signature' })
const noSignature: AccountSignatureMaker = () => ({ type: 'no_account_signature' })

/** Makers of every form of signature, except the most common one by a single Ed25519 key. */
export const otherSignatureMakers: readonly SignatureMaker[] = [
  multiAgentMaker(ed25519, [ed25519]),
  multiAgentMaker(singleKey('ed25519', 'ed25519'), [multiKey]),
  multiAgentMaker(abstract, [singleKey('secp256k1_ecdsa', 'secp256k1_ecdsa')]),
  feePayerMaker(ed25519, [], ed25519),
  feePayerMaker(singleKey('secp256r1_ecdsa', 'web_authn'), [], multiKey),
  feePayerMaker(ed25519, [], abstract),
  feePayerMaker(ed25519, [noSignature], noSignature),
  singleSenderMaker('ed25519', 'ed25519'),
  singleSenderMaker('secp256k1_ecdsa', 'secp256k1_ecdsa'),
  singleSenderMaker('secp256r1_ecdsa', 'web_authn'),
  singleSenderMaker('secp256r1_ecdsa', 'secp256r1_ecdsa'),
  singleSenderMaker('keyless', 'keyless'),
  location => ({ ...multiKeyMembers(location), type: 'single_sender' }),
  location => ({ ...abstractionMembers(location), type: 'single_sender' }),
  () => ({ type: 'single_sender' }),
  () => ({ type: 'no_account_signature' })
]

/** Builds the signature of a single sender with one key. */
export function singleSenderMaker (key: PublicKey['type'], signature: KeySignature['type']): SignatureMaker {
  return location => ({
    public_key: publicKeyOf(location, key),
    signature: keySignatureOf(location, signature),
    type: 'single_sender'
  })
}

function multiAgentMaker (sender: AccountSignatureMaker, others: readonly AccountSignatureMaker[]): SignatureMaker {
  return location => ({ ...signerMembers(location, sender, others), type: 'multi_agent_signature' })
}

function feePayerMaker (
  sender: AccountSignatureMaker,
  others: readonly AccountSignatureMaker[],
  payer: AccountSignatureMaker
): SignatureMaker {
  return location => ({
    ...signerMembers(location, sender, others),
    fee_payer_address: signerAddress(location, 'payer'),
    fee_payer_signer: payer(location, 'payer'),
    type: 'fee_payer_signature'
  })
}

function signerMembers (
  location: TransactionLocation,
  sender: AccountSignatureMaker,
  others: readonly AccountSignatureMaker[]
) {
  return {
    sender: sender(location, 'sender'),
    secondary_signer_addresses: others.map((_, index) => signerAddress(location, `second ${index}`)),
    secondary_signers: others.map((makeSignature, index) => makeSignature(location, `second ${index}`))
  }
}

function signerAddress (location: TransactionLocation, who: string): string {
  return shortAddress(generateHex(location, `${who} address`, 32).slice(2))
}

/** Generates a public key with the size of its type; no signature is ever checked. */
function publicKeyOf (location: TransactionLocation, type: PublicKey['type']): PublicKey {
  return { value: generateHex(location, `key ${type} 0`, keySizes[type]), type }
}

/** Generates a signature with the size of its type; no signature is ever checked. */
function keySignatureOf (location: TransactionLocation, type: KeySignature['type']): KeySignature {
  return { value: generateHex(location, `signature ${type} 0`, signatureSizes[type]), type }
}
