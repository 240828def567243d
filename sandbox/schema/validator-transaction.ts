import { z } from 'zod'
import { event } from './event.js'
import { address, hexBytes, u64Number, u64String, u8 } from './scalars.js'
import { committedShape } from './committed.js'

const aggregateSignature = z.strictObject({ signer_indices: z.array(u64Number), sig: hexBytes.nullable() }).meta({
  id: 'AggregateSignature',
  description: 'The aggregate signature of several validators, with their indices.'
})

const webKey = z.union([
  z.strictObject({ kid: z.string(), kty: z.string(), alg: z.string(), e: z.string(), n: z.string() }),
  z.strictObject({ id: z.array(u8), payload: z.array(u8) })
]).meta({
  id: 'WebKey',
  description: 'A key of an identity provider; a key that the node cannot parse is given as bytes.'
})

const validatorShape = { ...committedShape, events: z.array(event), timestamp: u64String }

const observedKeys = z.strictObject({
  ...validatorShape,
  quorum_certified_update: z.strictObject({
    update: z.strictObject({ issuer: z.string(), version: u64Number, jwks: z.array(webKey) }),
    multi_sig: aggregateSignature
  }),
  validator_transaction_type: z.literal('observed_jwk_update'),
  type: z.literal('validator_transaction')
}).meta({ id: 'ObservedJwkUpdate', description: 'The keys of an identity provider, as observed by the validators.' })

const sharedRandomness = z.strictObject({
  ...validatorShape,
  dkg_transcript: z.strictObject({ epoch: u64String, author: address, payload: hexBytes }),
  validator_transaction_type: z.literal('dkg_result'),
  type: z.literal('validator_transaction')
}).meta({ id: 'DkgResult', description: 'The result of the key generation for the randomness of an epoch.' })

const sharedDecryption = z.strictObject({
  ...validatorShape,
  certified_subtrx: z.strictObject({
    epoch: u64String,
    author: address,
    subtrx: hexBytes,
    signature: aggregateSignature
  }),
  encryption_key: hexBytes,
  validator_transaction_type: z.literal('chunky_d_k_g_result'),
  type: z.literal('validator_transaction')
}).meta({ id: 'ChunkyDkgResult', description: 'The key that encrypts the payloads of an epoch.' })

/** Schema of a transaction that validators agree on without a sender. */
export const validatorTransaction = z.discriminatedUnion('validator_transaction_type', [
  observedKeys,
  sharedRandomness,
  sharedDecryption
]).meta({
  id: 'ValidatorTransaction',
  description: 'A transaction that the validators agreed on; it has no sender.'
})

/** Validator transaction as JSON prints it. */
export type ValidatorTransaction = z.infer<typeof validatorTransaction>
