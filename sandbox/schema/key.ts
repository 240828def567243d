import { z } from 'zod'
import { hexBytes } from './scalars.js'

const ed25519 = z.strictObject({ value: hexBytes, type: z.literal('ed25519') })
const secp256k1 = z.strictObject({ value: hexBytes, type: z.literal('secp256k1_ecdsa') })
const secp256r1 = z.strictObject({ value: hexBytes, type: z.literal('secp256r1_ecdsa') })
const keyless = z.strictObject({ value: hexBytes, type: z.literal('keyless') })
const federatedKeyless = z.strictObject({ value: hexBytes, type: z.literal('federated_keyless') })
const slhDsa = z.strictObject({ value: hexBytes, type: z.literal('slh_dsa__sha2_128s') })
const webAuthn = z.strictObject({ value: hexBytes, type: z.literal('web_authn') })

/** Schema of a public key, discriminated by type. */
export const publicKey = z.discriminatedUnion('type', [
  ed25519,
  secp256k1,
  secp256r1,
  keyless,
  federatedKeyless,
  slhDsa
]).meta({
  id: 'PublicKey',
  description: 'A public key of one of the supported types.'
})

/** Schema of a signature, discriminated by type. */
export const keySignature = z.discriminatedUnion('type', [
  ed25519,
  secp256k1,
  secp256r1,
  webAuthn,
  keyless,
  federatedKeyless,
  slhDsa
]).meta({
  id: 'Signature',
  description:
    'A signature of one of the supported types; `web_authn` is a WebAuthn signature by a secp256r1_ecdsa key.'
})

/** Public key as JSON prints it. */
export type PublicKey = z.infer<typeof publicKey>

/** Signature as JSON prints it. */
export type KeySignature = z.infer<typeof keySignature>
