import { type KeySignature, type PublicKey } from '../schema/key.js'
import { generateHex, type TransactionLocation } from './transaction-location.js'

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

/** Generates a public key with the size of its type; no signature is ever checked. */
export function publicKeyOf (location: TransactionLocation, type: PublicKey['type'], nth = 0): PublicKey {
  return { value: generateHex(location, `key ${type} ${nth}`, keySizes[type]), type }
}

/** Generates a signature with the size of its type; no signature is ever checked. */
export function keySignatureOf (location: TransactionLocation, type: KeySignature['type'], nth = 0): KeySignature {
  return { value: generateHex(location, `signature ${type} ${nth}`, signatureSizes[type]), type }
}
