// Forms of JSON as nodes print it. docs/openapi.yaml describes them, and a test compares every response with it.

/** Members that all committed transactions share. */
export interface Committed {
  version: string
  hash: string
  state_change_hash: string
  event_root_hash: string
  state_checkpoint_hash: string | null
  gas_used: string
  success: boolean
  vm_status: string
  accumulator_root_hash: string
  changes: WriteSetChange[]
}

/** Members that pending and committed user transactions share. */
export interface UserRequest {
  sender: string
  sequence_number: string
  max_gas_amount: string
  gas_unit_price: string
  expiration_timestamp_secs: string
  payload: Payload
  signature: TransactionSignature
  replay_protection_nonce: string | null
  txn_limits_request?: LimitsRequest
}

/** Request for higher limits, which a stake backs. */
export type LimitsRequest =
  & { multipliers: { execution_multiplier_percent: string, io_multiplier_percent: string } }
  & ({ type: 'stake_pool_owner' } | { pool_address: string, type: 'delegated_voter' | 'delegation_pool_delegator' })

/** Transaction that is not committed yet. */
export type PendingTransaction = UserRequest & { hash: string, type: 'pending_transaction' }

/** Transaction that an account sent. */
export type UserTransaction =
  & Committed
  & UserRequest
  & { events: EventRecord[], timestamp: string, type: 'user_transaction' }

/** Genesis, or a later administrative write set; neither has a sender. */
export interface GenesisTransaction extends Committed {
  payload: {
    write_set: { changes: WriteSetChange[], events: EventRecord[], type: 'direct_write_set' },
    type: 'write_set_payload'
  }
  events: EventRecord[]
  type: 'genesis_transaction'
}

/** First transaction of a block. */
export interface BlockMetadataTransaction extends Committed {
  id: string
  epoch: string
  round: string
  events: EventRecord[]
  previous_block_votes_bitvec: number[]
  proposer: string
  failed_proposer_indices: number[]
  timestamp: string
  block_metadata_extension?: BlockMetadataExtension
  type: 'block_metadata_transaction'
}

/** Members that newer forms of block metadata add. */
export type BlockMetadataExtension =
  & { randomness: string | null }
  & ({ type: 'v1' } | { decryption_key: string | null, decryption_round: string | null, type: 'v3' })

/** Last transaction of a block: without or with the usage of the block. */
export type BlockEndTransaction =
  & Committed
  & { timestamp: string }
  & (
    | { type: 'state_checkpoint_transaction' }
    | {
      block_end_info: {
        block_gas_limit_reached: boolean,
        block_output_limit_reached: boolean,
        block_effective_block_gas_units: number,
        block_approx_output_size: number
      } | null,
      type: 'block_epilogue_transaction'
    }
  )

/** Transaction that the validators agreed on; it has no sender. */
export type ValidatorTransaction =
  & Committed
  & { events: EventRecord[], timestamp: string, type: 'validator_transaction' }
  & (
    | {
      quorum_certified_update: {
        update: { issuer: string, version: number, jwks: object[] },
        multi_sig: { signer_indices: number[], sig: string | null }
      },
      validator_transaction_type: 'observed_jwk_update'
    }
    | {
      dkg_transcript: { epoch: string, author: string, payload: string },
      validator_transaction_type: 'dkg_result'
    }
  )

/** Committed transaction of any kind. */
export type CommittedTransaction =
  | UserTransaction
  | GenesisTransaction
  | BlockMetadataTransaction
  | BlockEndTransaction
  | ValidatorTransaction

type Own<Record> = Record extends unknown ? Omit<Record, keyof Committed> : never

/** Members of a committed transaction besides those that all share. */
export type TransactionMembers = Own<CommittedTransaction>

/** Event inside a transaction. */
export interface EventRecord {
  guid: { creation_number: string, account_address: string }
  sequence_number: string
  type: string
  data: unknown
}

/** State after a transaction, never before it. */
export type WriteSetChange =
  & { state_key_hash: string }
  & (
    | { address: string, data: { type: string, data: Record<string, unknown> }, type: 'write_resource' }
    | { address: string, data: ModuleRecord, type: 'write_module' }
    | { address: string, resource: string, type: 'delete_resource' }
    | { address: string, module: string, type: 'delete_module' }
    | {
      handle: string,
      key: string,
      value: string,
      data: { key: unknown, key_type: string, value: unknown, value_type: string } | null,
      type: 'write_table_item'
    }
    | { handle: string, key: string, data: { key: unknown, key_type: string } | null, type: 'delete_table_item' }
  )

/** Module; releases differ in the members of its structs. */
export interface ModuleRecord {
  bytecode: string
  abi: {
    address: string,
    name: string,
    friends: string[],
    exposed_functions: FunctionAbi[],
    structs: StructAbi[]
  }
}

/** Function of a module, or the only one of a script. */
export interface FunctionAbi {
  name: string
  visibility: 'private' | 'public' | 'friend'
  is_entry: boolean
  is_view: boolean
  generic_type_params: Array<{ constraints: string[] }>
  params: string[]
  return: string[]
}

/** Struct of a module. */
export interface StructAbi {
  name: string
  is_native: boolean
  is_event: boolean
  is_enum?: boolean
  abilities: string[]
  generic_type_params: Array<{ constraints: string[] }>
  fields: Array<{ name: string, type: string }>
  variants?: Array<{ name: string, fields: Array<{ name: string, type: string }> }>
}

/** Script with its arguments. */
export interface Script {
  code: { bytecode: string, abi: FunctionAbi | null }
  type_arguments: string[]
  arguments: unknown[]
}

/** Call of an entry function. */
export interface EntryFunctionPayload {
  function: string
  type_arguments: string[]
  arguments: unknown[]
  type: 'entry_function_payload'
}

type ScriptPayload = Script & { type: 'script_payload' }

/** Payload that the owners of a multisig account approved; null if it was stored on chain before. */
export interface MultisigPayload {
  multisig_address: string
  transaction_payload: EntryFunctionPayload | ScriptPayload | null
  type: 'multisig_payload'
}

/** State of an encrypted payload: a pending one is encrypted. */
export type Decryption =
  | { encrypted_state: 'encrypted' | 'failed_decryption' }
  | { decrypted_payload: EntryFunctionPayload, decryption_nonce: string, encrypted_state: 'decrypted' }

/** Payload that is encrypted until its block is agreed on. */
export type EncryptedPayload = Decryption & {
  payload_hash: string,
  ciphertext: string,
  encryption_epoch: string,
  claimed_entry_fun: { module: string, name: string | null } | null,
  type: 'encrypted_transaction_payload'
}

/** Payload of a user transaction. */
export type Payload = EntryFunctionPayload | ScriptPayload | MultisigPayload | EncryptedPayload

/** Public key with its type. */
export interface PublicKey {
  value: string
  type: 'ed25519' | 'secp256k1_ecdsa' | 'secp256r1_ecdsa' | 'keyless' | 'slh_dsa__sha2_128s'
}

/** Signature with its type; a WebAuthn signature is by a secp256r1_ecdsa key. */
export interface KeySignature {
  value: string
  type: PublicKey['type'] | 'web_authn'
}

interface SingleKey {
  public_key: PublicKey
  signature: KeySignature
}

interface MultiKey {
  public_keys: PublicKey[]
  signatures: Array<{ index: number, signature: KeySignature }>
  signatures_required: number
}

interface Abstraction {
  function_info: string
  auth_data: string
}

type SimpleSignature =
  | { public_key: string, signature: string, type: 'ed25519_signature' }
  | { type: 'no_account_signature' }

/** Signature of one account. */
export type AccountSignature =
  | SimpleSignature
  | SingleKey & { type: 'single_key_signature' }
  | MultiKey & { type: 'multi_key_signature' }
  | Abstraction & { type: 'abstract_signature' }

/** Accounts that sign one transaction. */
export interface Signers {
  sender: AccountSignature
  secondary_signer_addresses: string[]
  secondary_signers: AccountSignature[]
}

/** Signature of a transaction; only the members of a single sender's show the signature that it wraps. */
export type TransactionSignature =
  | SimpleSignature
  | Signers & { type: 'multi_agent_signature' }
  | Signers & { fee_payer_address: string, fee_payer_signer: AccountSignature, type: 'fee_payer_signature' }
  | (SingleKey | MultiKey | Abstraction) & { type: 'single_sender' }
  | { type: 'single_sender' }
