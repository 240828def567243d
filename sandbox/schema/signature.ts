import { z } from 'zod'
import { keySignature, publicKey } from './key.js'
import { address, hexBytes, u8 } from './scalars.js'

const ed25519 = z.strictObject({ public_key: hexBytes, signature: hexBytes, type: z.literal('ed25519_signature') })
  .meta({
    id: 'Ed25519Signature',
    description: 'An Ed25519 key and its signature.'
  })

const multiEd25519 = z.strictObject({
  public_keys: z.array(hexBytes),
  signatures: z.array(hexBytes),
  threshold: u8,
  bitmap: hexBytes,
  type: z.literal('multi_ed25519_signature')
}).meta({
  id: 'MultiEd25519Signature',
  description: 'Signatures by some of several keys: `bitmap` marks the keys that signed, `threshold` is the ' +
    'required number.'
})

const singleKey = z.strictObject({
  public_key: publicKey,
  signature: keySignature,
  type: z.literal('single_key_signature')
}).meta({
  id: 'SingleKeySignature',
  description: 'A key of any type and its signature.'
})

const multiKey = z.strictObject({
  public_keys: z.array(publicKey),
  signatures: z.array(z.strictObject({ index: u8, signature: keySignature })),
  signatures_required: u8,
  type: z.literal('multi_key_signature')
}).meta({
  id: 'MultiKeySignature',
  description: 'Signatures by some of several keys of any type, each with the index of its key.'
})

const noSignature = z.strictObject({ type: z.literal('no_account_signature') }).meta({
  id: 'NoAccountSignature',
  description: 'A missing signature.'
})

const abstractionShape = { function_info: z.string(), auth_data: hexBytes }

const abstract = z.strictObject({ ...abstractionShape, type: z.literal('abstract_signature') }).meta({
  id: 'AbstractSignature',
  description: 'Authentication data that a function of the account verifies in place of a signature.'
})

const olderAbstract = z.strictObject({ ...abstractionShape, type: z.literal('abstraction_signature') }).meta({
  id: 'AbstractionSignature',
  description: 'An abstract signature under its older name.'
})

/** Schema of the signature of one account. */
export const accountSignature = z.discriminatedUnion('type', [
  ed25519,
  multiEd25519,
  singleKey,
  multiKey,
  noSignature,
  abstract,
  olderAbstract
]).meta({
  id: 'AccountSignature',
  description: 'The signature of one account.'
})

const signersShape = {
  sender: accountSignature,
  secondary_signer_addresses: z.array(address),
  secondary_signers: z.array(accountSignature)
}

const multiAgent = z.strictObject({ ...signersShape, type: z.literal('multi_agent_signature') }).meta({
  id: 'MultiAgentSignature',
  description: 'The signatures of several accounts, in the order of the addresses.'
})

const feePayer = z.strictObject({
  ...signersShape,
  fee_payer_address: address,
  fee_payer_signer: accountSignature,
  type: z.literal('fee_payer_signature')
}).meta({
  id: 'FeePayerSignature',
  description: 'The signatures of one or several accounts and of the fee payer.'
})

// Nodes replace the inner signature's `type` with `single_sender`, so only the members distinguish the variants.
const singleSender = z.union([
  z.strictObject({ ...singleKey.shape, type: z.literal('single_sender') }),
  z.strictObject({ ...multiKey.shape, type: z.literal('single_sender') }),
  z.strictObject({ ...abstractionShape, type: z.literal('single_sender') }),
  z.strictObject({ type: z.literal('single_sender') })
]).meta({
  id: 'SingleSenderSignature',
  description: 'The signature of a single sender, with the members of the signature that it wraps.'
})

/** Schema of the signature of a transaction. */
export const transactionSignature = z.union([
  z.discriminatedUnion('type', [ed25519, multiEd25519, multiAgent, feePayer, noSignature]),
  singleSender
]).meta({ id: 'TransactionSignature', description: 'The signature of a transaction.' })

/** Signature of one account as JSON prints it. */
export type AccountSignature = z.infer<typeof accountSignature>

/** Signature of a transaction as JSON prints it. */
export type TransactionSignature = z.infer<typeof transactionSignature>
