import { shortAddress } from '../address.js'
import { type KeySignature, type PublicKey } from '../schema/key.js'
import { type AccountSignature, type TransactionSignature } from '../schema/signature.js'
import { keySignatureOf, publicKeyOf } from './keys.js'
import { ownBytes, type Slot } from './slot.js'

/** Signs a transaction. */
export type Signing = (slot: Slot) => TransactionSignature

type Signed = (slot: Slot, who: string) => AccountSignature

const ed25519 = (slot: Slot, who: string) => ({
  public_key: ownBytes(slot, `${who} key`, 32),
  signature: ownBytes(slot, `${who} signature`, 64),
  type: 'ed25519_signature'
} as const)

// Two of three have signed: the first two bits of the bitmap.
const multiEd25519 = (slot: Slot, who: string) => ({
  public_keys: [1, 2, 3].map(nth => ownBytes(slot, `${who} key ${nth}`, 32)),
  signatures: [1, 2].map(nth => ownBytes(slot, `${who} signature ${nth}`, 64)),
  threshold: 2,
  bitmap: '0xc0000000',
  type: 'multi_ed25519_signature'
} as const)

const singleKey = (key: PublicKey['type'], signature: KeySignature['type']): Signed => slot => ({
  public_key: publicKeyOf(slot, key),
  signature: keySignatureOf(slot, signature),
  type: 'single_key_signature'
})

const severalKeys = (slot: Slot) => ({
  public_keys: [publicKeyOf(slot, 'ed25519'), publicKeyOf(slot, 'secp256k1_ecdsa'), publicKeyOf(slot, 'keyless')],
  signatures: [{ index: 0, signature: keySignatureOf(slot, 'ed25519') }, {
    index: 2,
    signature: keySignatureOf(slot, 'keyless')
  }],
  signatures_required: 2
})

const byFunction = (slot: Slot) => ({
  function_info: '0x42::lock::authenticate',
  auth_data: ownBytes(slot, 'auth data', 48)
})

const multiKey: Signed = slot => ({ ...severalKeys(slot), type: 'multi_key_signature' })
const abstract: Signed = slot => ({ ...byFunction(slot), type: 'abstract_signature' })
const olderAbstract: Signed = slot => ({ ...byFunction(slot), type: 'abstraction_signature' })
const none: Signed = () => ({ type: 'no_account_signature' })

/** Each way in which a transaction can be signed but the most usual one, which is by one key. */
export const otherSignings: readonly Signing[] = [
  slot => multiEd25519(slot, 'sender'),
  multiAgent(ed25519, [ed25519, multiEd25519]),
  multiAgent(singleKey('ed25519', 'ed25519'), [multiKey]),
  multiAgent(abstract, [olderAbstract, singleKey('secp256k1_ecdsa', 'secp256k1_ecdsa')]),
  feePayer(ed25519, [], ed25519),
  feePayer(singleKey('secp256r1_ecdsa', 'web_authn'), [], multiKey),
  feePayer(multiEd25519, [olderAbstract], abstract),
  feePayer(ed25519, [none], none),
  singleSender('ed25519', 'ed25519'),
  singleSender('secp256k1_ecdsa', 'secp256k1_ecdsa'),
  singleSender('secp256r1_ecdsa', 'web_authn'),
  singleSender('secp256r1_ecdsa', 'secp256r1_ecdsa'),
  singleSender('keyless', 'keyless'),
  singleSender('federated_keyless', 'keyless'),
  singleSender('federated_keyless', 'federated_keyless'),
  singleSender('slh_dsa__sha2_128s', 'slh_dsa__sha2_128s'),
  slot => ({ ...severalKeys(slot), type: 'single_sender' }),
  slot => ({ ...byFunction(slot), type: 'single_sender' }),
  () => ({ type: 'single_sender' }),
  () => ({ type: 'no_account_signature' })
]

function singleSender (key: PublicKey['type'], signature: KeySignature['type']): Signing {
  return slot => ({
    public_key: publicKeyOf(slot, key),
    signature: keySignatureOf(slot, signature),
    type: 'single_sender'
  })
}

function multiAgent (sender: Signed, others: readonly Signed[]): Signing {
  return slot => ({ ...together(slot, sender, others), type: 'multi_agent_signature' })
}

function feePayer (sender: Signed, others: readonly Signed[], payer: Signed): Signing {
  return slot => ({
    ...together(slot, sender, others),
    fee_payer_address: addressIn(slot, 'payer'),
    fee_payer_signer: payer(slot, 'payer'),
    type: 'fee_payer_signature'
  })
}

function together (slot: Slot, sender: Signed, others: readonly Signed[]) {
  return {
    sender: sender(slot, 'sender'),
    secondary_signer_addresses: others.map((_, index) => addressIn(slot, `second ${index}`)),
    secondary_signers: others.map((signed, index) => signed(slot, `second ${index}`))
  }
}

function addressIn (slot: Slot, who: string): string {
  return shortAddress(ownBytes(slot, `${who} address`, 32).slice(2))
}
