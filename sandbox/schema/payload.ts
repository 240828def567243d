import { z } from 'zod'
import { functionAbi } from './module.js'
import {
  address,
  entryFunctionId,
  hash,
  hexBytes,
  identifier,
  moduleId,
  moveValue,
  typeTag,
  u64String
} from './scalars.js'

const callShape = { type_arguments: z.array(typeTag), arguments: z.array(moveValue) }

const entryFunction = z.strictObject({
  function: entryFunctionId,
  ...callShape,
  type: z.literal('entry_function_payload')
})
  .meta({
    id: 'EntryFunctionPayload',
    description: 'A call of an entry function of a module.'
  })

/** Schema of a script with its arguments. */
export const script = z.strictObject({
  code: z.strictObject({ bytecode: hexBytes, abi: functionAbi.nullable() }),
  ...callShape
}).meta({
  id: 'Script',
  description: 'A script with its arguments; `abi` is null if the node cannot parse the bytecode.'
})

const scriptPayload = z.strictObject({ ...script.shape, type: z.literal('script_payload') }).meta({
  id: 'ScriptPayload',
  description: 'A script, which may call several functions.'
})

const moduleBundle = z.strictObject({ type: z.literal('module_bundle_payload') }).meta({
  id: 'ModuleBundlePayload',
  description: 'A deprecated payload that published modules; only its type remains.'
})

const multisig = z.strictObject({
  multisig_address: address,
  transaction_payload: z.discriminatedUnion('type', [entryFunction, scriptPayload]).nullable(),
  type: z.literal('multisig_payload')
}).meta({
  id: 'MultisigPayload',
  description: 'A payload approved by the owners of a multisig account; `transaction_payload` is null if it ' +
    'was stored on chain before.'
})

const claimedFunction = z.strictObject({ module: moduleId, name: identifier.nullable() }).meta({
  id: 'ClaimedFunction',
  description: 'The function that an encrypted payload claims to call.'
})

const encryptedShape = {
  payload_hash: hash,
  ciphertext: hexBytes,
  encryption_epoch: u64String,
  claimed_entry_fun: claimedFunction.nullable()
}

const encrypted = z.discriminatedUnion('encrypted_state', [
  z.strictObject({
    ...encryptedShape,
    encrypted_state: z.literal('encrypted'),
    type: z.literal('encrypted_transaction_payload')
  }),
  z.strictObject({
    ...encryptedShape,
    encrypted_state: z.literal('failed_decryption'),
    type: z.literal('encrypted_transaction_payload')
  }),
  z.strictObject({
    ...encryptedShape,
    decrypted_payload: z.discriminatedUnion('type', [entryFunction, scriptPayload, multisig]),
    decryption_nonce: hexBytes,
    encrypted_state: z.literal('decrypted'),
    type: z.literal('encrypted_transaction_payload')
  })
]).meta({
  id: 'EncryptedPayload',
  description: 'A payload that is encrypted until its block is agreed on, with the state of its decryption.'
})

/** Schema of a payload, discriminated by type. */
export const payload = z.discriminatedUnion('type', [entryFunction, scriptPayload, moduleBundle, multisig, encrypted])
  .meta({
    id: 'Payload',
    description: 'The payload of a transaction.'
  })

/** Payload as JSON prints it. */
export type Payload = z.infer<typeof payload>

/** Entry function payload as JSON prints it. */
export type EntryFunctionPayload = z.infer<typeof entryFunction>

/** Script with its arguments as JSON prints it. */
export type Script = z.infer<typeof script>
