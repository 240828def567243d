import { type KeySignature, type PublicKey } from '../schema/key.js'
import { ownBytes, type Slot } from './slot.js'

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

/** A public key of a kind. */
export function publicKeyOf (slot: Slot, type: PublicKey['type'], nth = 0): PublicKey {
  return { value: ownBytes(slot, `key ${type} ${nth}`, keySizes[type]), type }
}

/** A signature of a kind. */
export function keySignatureOf (slot: Slot, type: KeySignature['type'], nth = 0): KeySignature {
  return { value: ownBytes(slot, `signature ${type} ${nth}`, signatureSizes[type]), type }
}
