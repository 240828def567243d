import { shortAddress } from '../address.js'
import { type KeySignature, type PublicKey, type AccountSignature, type TransactionSignature } from '../records.js'
import { generateHex } from './generate-hex.js'
import { type TransactionLocation } from './transaction-location.js'

const keySizes: Readonly<Record<PublicKey['type'], number>> = {
  ed25519: 32,
  secp256k1_ecdsa: 65,
  secp256r1_ecdsa: 65,
  keyless: 60,
  federated_keyless: 92,
  slh_dsa__sha2_128s: 32
}

const signatureSizes: Readonly<Record<KeySignature['type'], number>> = {
  ed25519: 64,
  secp256k1_ecdsa: 64,
  secp256r1_ecdsa: 64,
  web_authn: 180,
  keyless: 330,
  federated_keyless: 330,
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

// Sets the first two bits of the bitmap: two of three keys have signed.
const multiEd25519 = (location: TransactionLocation, who: string) => ({
  public_keys: [1, 2, 3].map(nth => generateHex(location, `${who} key ${nth}`, 32)),
  signatures: [1, 2].map(nth => generateHex(location, `${who} signature ${nth}`, 64)),
  threshold: 2,
  bitmap: '0xc0000000',
  type: 'multi_ed25519_signature'
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
const olderAbstract: AccountSignatureMaker = location => ({
  ...abstractionMembers(location),
  type: 'abstraction_signature'
})
const noSignature: AccountSignatureMaker = () => ({ type: 'no_account_signature' })

/** Makers of every form of signature, except the most common one by a single Ed25519 key. */
export const otherSignatureMakers: readonly SignatureMaker[] = [
  location => multiEd25519(location, 'sender'),
  multiAgentMaker(ed25519, [ed25519, multiEd25519]),
  multiAgentMaker(singleKey('ed25519', 'ed25519'), [multiKey]),
  multiAgentMaker(abstract, [olderAbstract, singleKey('secp256k1_ecdsa', 'secp256k1_ecdsa')]),
  feePayerMaker(ed25519, [], ed25519),
  feePayerMaker(singleKey('secp256r1_ecdsa', 'web_authn'), [], multiKey),
  feePayerMaker(multiEd25519, [olderAbstract], abstract),
  feePayerMaker(ed25519, [noSignature], noSignature),
  singleSenderMaker('ed25519', 'ed25519'),
  singleSenderMaker('secp256k1_ecdsa', 'secp256k1_ecdsa'),
  singleSenderMaker('secp256r1_ecdsa', 'web_authn'),
  singleSenderMaker('secp256r1_ecdsa', 'secp256r1_ecdsa'),
  singleSenderMaker('keyless', 'keyless'),
  singleSenderMaker('federated_keyless', 'keyless'),
  singleSenderMaker('federated_keyless', 'federated_keyless'),
  singleSenderMaker('slh_dsa__sha2_128s', 'slh_dsa__sha2_128s'),
  location => ({ ...multiKeyMembers(location), type: 'single_sender' }),
  location => ({ ...abstractionMembers(location), type: 'single_sender' }),
  () => ({ type: 'single_sender' }),
  () => ({ type: 'no_account_signature' })
]

function singleSenderMaker (key: PublicKey['type'], signature: KeySignature['type']): SignatureMaker {
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
function publicKeyOf (location: TransactionLocation, type: PublicKey['type'], nth = 0): PublicKey {
  return { value: generateHex(location, `key ${type} ${nth}`, keySizes[type]), type }
}

/** Generates a signature with the size of its type; no signature is ever checked. */
function keySignatureOf (location: TransactionLocation, type: KeySignature['type'], nth = 0): KeySignature {
  return { value: generateHex(location, `signature ${type} ${nth}`, signatureSizes[type]), type }
}
