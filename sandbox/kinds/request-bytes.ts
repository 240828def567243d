import { type Address, addressBytes, readAddress } from '../address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes, u64Bytes } from '../bcs.js'
import {
  type KeySignature,
  type PublicKey,
  type EntryFunctionPayload,
  type MultisigPayload,
  type Payload,
  type Script,
  type Signers,
  type AccountSignature,
  type TransactionSignature,
  type UserRequest
} from '../records.js'
import { trustedTypeTag } from '../type-tag.js'
import { typeTagBytes } from '../type-tag-bytes.js'

const keyVariants: Readonly<Record<PublicKey['type'], number>> = {
  ed25519: 0,
  secp256k1_ecdsa: 1,
  secp256r1_ecdsa: 2,
  keyless: 3,
  federated_keyless: 4,
  slh_dsa__sha2_128s: 5
}
const signatureVariants: Readonly<Record<KeySignature['type'], number>> = {
  ed25519: 0,
  secp256k1_ecdsa: 1,
  web_authn: 2,
  secp256r1_ecdsa: 2,
  keyless: 3,
  federated_keyless: 3,
  slh_dsa__sha2_128s: 4
}

/** Encodes a signed transaction: what its sender submitted. */
export function signedTransactionBytes (request: UserRequest, chainId: number): Buffer {
  return Buffer.concat([rawTransactionBytes(request, chainId), authenticatorBytes(request.signature)])
}

/** Encodes what the sender of a transaction signs. */
export function rawTransactionBytes (request: Omit<UserRequest, 'signature'>, chainId: number): Buffer {
  return Buffer.concat([
    bytesOfAddress(request.sender),
    u64Bytes(BigInt(request.sequence_number)),
    payloadBytes(request.payload, request.replay_protection_nonce),
    u64Bytes(BigInt(request.max_gas_amount)),
    u64Bytes(BigInt(request.gas_unit_price)),
    u64Bytes(BigInt(request.expiration_timestamp_secs)),
    Buffer.from([chainId])
  ])
}

/** Encodes an address that JSON prints. */
export function bytesOfAddress (text: string): Buffer {
  return addressBytes(readAddress(text) as Address)
}

/** Decodes the hex that JSON prints for bytes. */
export function bytesOfHex (text: string): Buffer {
  return Buffer.from(text.slice(2), 'hex')
}

/** Encodes an option. */
export function optionBytes (content: Buffer | undefined): Buffer {
  return content === undefined ? Buffer.from([0]) : variant(1, content)
}

/** Encodes a variant of an enum. */
export function variant (index: number, ...content: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from([index]), ...content])
}

/** Encodes a script with its arguments. */
export function scriptBytes ({ code, type_arguments: types, arguments: args }: Script): Buffer {
  // An argument of a script says its type: a boolean or a u64 here.
  const argumentBytes = args.map(argument =>
    typeof argument === 'boolean' ? variant(5, valueBytes(argument)) : variant(1, valueBytes(argument))
  )
  return Buffer.concat([sizedBytes(bytesOfHex(code.bytecode)), typesBytes(types), sequenceBytes(argumentBytes)])
}

function payloadBytes (payload: Payload, nonce: string | null): Buffer {
  switch (payload.type) {
    case 'script_payload':
      return variant(0, scriptBytes(payload))
    case 'module_bundle_payload':
      return variant(1)
    case 'entry_function_payload':
      return nonce === null
        ? variant(2, entryFunctionBytes(payload))
        // Payload with options: an entry function, no multisig account, the nonce.
        : variant(
          4,
          variant(0, variant(1, entryFunctionBytes(payload))),
          variant(0, optionBytes(undefined)),
          optionBytes(u64Bytes(BigInt(nonce)))
        )
    case 'multisig_payload':
      return variant(
        3,
        bytesOfAddress(payload.multisig_address),
        optionBytes(multisigBytes(payload.transaction_payload))
      )
    case 'encrypted_transaction_payload':
      // The layout changes from release to release, so this is only like one.
      return variant(
        5,
        sizedBytes(bytesOfHex(payload.ciphertext)),
        bytesOfHex(payload.payload_hash),
        u64Bytes(BigInt(payload.encryption_epoch))
      )
  }
}

function multisigBytes (payload: MultisigPayload['transaction_payload']): Buffer | undefined {
  if (payload === null) return undefined
  return payload.type === 'script_payload' ? variant(1, scriptBytes(payload)) : variant(0, entryFunctionBytes(payload))
}

function entryFunctionBytes (payload: EntryFunctionPayload): Buffer {
  const [address, module, name] = payload.function.split('::')
  return Buffer.concat([
    bytesOfAddress(String(address)),
    textBytes(String(module)),
    textBytes(String(name)),
    typesBytes(payload.type_arguments),
    sequenceBytes(payload.arguments.map(argument => sizedBytes(valueBytes(argument))))
  ])
}

function typesBytes (types: readonly string[]): Buffer {
  return sequenceBytes(types.map(type => typeTagBytes(trustedTypeTag(type))))
}

// An argument's type is known to its function alone, so this is one of the types that have its JSON form.
function valueBytes (value: unknown): Buffer {
  if (typeof value === 'boolean') return Buffer.from([value ? 1 : 0])
  if (typeof value === 'number') return Buffer.from([value])
  if (Array.isArray(value)) return sequenceBytes(value.map(valueBytes))
  if (typeof value === 'object' && value !== null) return Buffer.concat(Object.values(value).map(valueBytes))
  const text = String(value)
  if (/^\d+$/.test(text)) return integerBytes(BigInt(text), text.length > 20 ? 16 : 8)
  const address = text.startsWith('0x') ? readAddress(text) : undefined
  return address === undefined ? textBytes(text) : addressBytes(address)
}

function authenticatorBytes (signature: TransactionSignature): Buffer {
  switch (signature.type) {
    case 'ed25519_signature':
    case 'multi_ed25519_signature':
      return accountBytes(signature)
    case 'multi_agent_signature':
      return variant(2, signersBytes(signature))
    case 'fee_payer_signature':
      return variant(
        3,
        signersBytes(signature),
        bytesOfAddress(signature.fee_payer_address),
        accountBytes(signature.fee_payer_signer)
      )
    case 'no_account_signature':
      return variant(4, accountBytes(signature))
    case 'single_sender':
      return variant(4, accountBytes(innerSignature(signature)))
  }
}

function signersBytes (signers: Signers): Buffer {
  return Buffer.concat([
    accountBytes(signers.sender),
    sequenceBytes(signers.secondary_signer_addresses.map(bytesOfAddress)),
    sequenceBytes(signers.secondary_signers.map(accountBytes))
  ])
}

// Only its members show the type of a single sender's signature.
function innerSignature (signature: Extract<TransactionSignature, { type: 'single_sender' }>): AccountSignature {
  if ('public_keys' in signature) return { ...signature, type: 'multi_key_signature' }
  if ('public_key' in signature) return { ...signature, type: 'single_key_signature' }
  return 'auth_data' in signature
    ? { ...signature, type: 'abstract_signature' }
    : { type: 'no_account_signature' }
}

function accountBytes (signature: AccountSignature): Buffer {
  switch (signature.type) {
    case 'ed25519_signature':
      return variant(0, sizedBytes(bytesOfHex(signature.public_key)), sizedBytes(bytesOfHex(signature.signature)))
    case 'multi_ed25519_signature':
      return variant(
        1,
        sizedBytes(Buffer.concat([...signature.public_keys.map(bytesOfHex), Buffer.from([signature.threshold])])),
        sizedBytes(Buffer.concat([...signature.signatures.map(bytesOfHex), bytesOfHex(signature.bitmap)]))
      )
    case 'single_key_signature':
      return variant(2, publicKeyBytes(signature.public_key), keySignatureBytes(signature.signature))
    case 'multi_key_signature': {
      // The first bit is the first key's.
      const bits = signature.signatures.reduce((sum, { index }) => sum | (0x80 >> index), 0)
      return variant(
        3,
        sequenceBytes(signature.public_keys.map(publicKeyBytes)),
        Buffer.from([signature.signatures_required]),
        sequenceBytes(signature.signatures.map(({ signature: one }) => keySignatureBytes(one))),
        sizedBytes(Buffer.from([bits]))
      )
    }
    case 'no_account_signature':
      return variant(4)
    case 'abstract_signature':
    case 'abstraction_signature': {
      const [address, module, name] = signature.function_info.split('::')
      const data = sizedBytes(bytesOfHex(signature.auth_data))
      return variant(
        5,
        bytesOfAddress(String(address)),
        textBytes(String(module)),
        textBytes(String(name)),
        variant(0, sizedBytes(Buffer.alloc(32)), data)
      )
    }
  }
}

function publicKeyBytes ({ type, value }: PublicKey): Buffer {
  return variant(keyVariants[type], sizedBytes(bytesOfHex(value)))
}

function keySignatureBytes ({ type, value }: KeySignature): Buffer {
  return variant(signatureVariants[type], sizedBytes(bytesOfHex(value)))
}
