import { z } from 'zod'
import { event } from './event.js'
import { address, hexBytes, u64Number, u64String, u8 } from './scalars.js'
import { committedShape } from './committed.js'

const aggregateSignature = z.strictObject({ signer_indices: z.array(u64Number), sig: hexBytes.nullable() }).meta({
  id: 'AggregateSignature',
  description: 'The signature of several validators in one, with their places.'
})

const webKey = z.union([
  z.strictObject({ kid: z.string(), kty: z.string(), alg: z.string(), e: z.string(), n: z.string() }),
  z.strictObject({ id: z.array(u8), payload: z.array(u8) })
]).meta({ id: 'WebKey', description: 'A key of an identity provider; one that the node cannot read is its bytes.' })

const validatorShape = { ...committedShape, events: z.array(event), timestamp: u64String }

const observedKeys = z.strictObject({
  ...validatorShape,
  quorum_certified_update: z.strictObject({
    update: z.strictObject({ issuer: z.string(), version: u64Number, jwks: z.array(webKey) }),
    multi_sig: aggregateSignature
  }),
  validator_transaction_type: z.literal('observed_jwk_update'),
  type: z.literal('validator_transaction')
}).meta({ id: 'ObservedJwkUpdate', description: 'The keys that the validators have seen at an identity provider.' })

const sharedRandomness = z.strictObject({
  ...validatorShape,
  dkg_transcript: z.strictObject({ epoch: u64String, author: address, payload: hexBytes }),
  validator_transaction_type: z.literal('dkg_result'),
  type: z.literal('validator_transaction')
}).meta({ id: 'DkgResult', description: 'What the validators draw the randomness of an epoch from.' })

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
}).meta({ id: 'ChunkyDkgResult', description: 'The key of an epoch that payloads are encrypted with.' })

/** Schema of a transaction that validators agree on without a sender. */
export const validatorTransaction = z.discriminatedUnion('validator_transaction_type', [
  observedKeys,
  sharedRandomness,
  sharedDecryption
]).meta({
  id: 'ValidatorTransaction',
  description: 'What the validators have agreed on among themselves.'
})

/** Validator transaction as JSON prints it. */
export type ValidatorTransaction = z.infer<typeof validatorTransaction>
