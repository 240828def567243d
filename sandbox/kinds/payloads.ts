import { digestHex } from '../digest.js'
import { type EntryFunctionPayload, type Payload, type Script } from '../schema/payload.js'
import { ownBytes, type Slot } from './slot.js'

/** Says what a transaction is to do. */
export type Task = (slot: Slot) => Payload

/** The most usual payload. */
export function move ({ version }: Slot): EntryFunctionPayload {
  return call('0x42::game::move_to', [], [String(version), '0xcafe'])
}

/** A call of a function. */
export function call (name: string, types: string[], given: unknown[]): EntryFunctionPayload {
  return { function: name, type_arguments: types, arguments: given, type: 'entry_function_payload' }
}

/** A script, whose bytes are the transaction's own. */
export function scriptOf (slot: Slot, known: boolean): Script {
  const bytecode = `0xa11ceb0b07000000${ownBytes(slot, 'script', 40).slice(2)}`
  return {
    code: { bytecode, abi: known ? scriptAbi() : null },
    type_arguments: ['0x1::aptos_coin::AptosCoin'],
    arguments: known ? ['1000', true] : []
  }
}

/** A payload that could not be read. */
export const unreadable: Task = slot => ({
  ...sealed(slot),
  claimed_entry_fun: { module: '0x42::game', name: null },
  encrypted_state: 'failed_decryption',
  type: 'encrypted_transaction_payload'
})

/** Each payload that can succeed but the most usual one. */
export const otherTasks: readonly Task[] = [
  // Every form that an argument can have.
  ({ version }) =>
    call('0x42::shop::trade', ['0x42::game::Line<0x1::aptos_coin::AptosCoin, vector<u8>>', 'vector<u8>'], [
      '0xcafe',
      7,
      true,
      String(version),
      '340282366920938463463374607431768211455',
      '0xc0ffee',
      ['0x1', '0x2'],
      { vec: ['Ñandú'] },
      { vec: [] }
    ]),
  slot => ({ ...scriptOf(slot, true), type: 'script_payload' }),
  slot => ({ ...scriptOf(slot, false), type: 'script_payload' }),
  () => ({ type: 'module_bundle_payload' }),
  slot => multisig(move(slot)),
  slot => multisig({ ...scriptOf(slot, true), type: 'script_payload' }),
  () => multisig(null),
  slot => ({ ...sealed(slot), encrypted_state: 'encrypted', type: 'encrypted_transaction_payload' }),
  slot => decrypted(slot, move(slot)),
  slot => decrypted(slot, { ...scriptOf(slot, true), type: 'script_payload' }),
  slot => decrypted(slot, multisig(move(slot)))
]

type Multisig = Extract<Payload, { type: 'multisig_payload' }>
type Encrypted = Extract<Payload, { type: 'encrypted_transaction_payload' }>
type Decrypted = Extract<Encrypted, { encrypted_state: 'decrypted' }>

function multisig (inner: Multisig['transaction_payload']): Multisig {
  return { multisig_address: '0x5afe', transaction_payload: inner, type: 'multisig_payload' }
}

function sealed (slot: Slot) {
  return {
    payload_hash: digestHex(slot.ledger.seed, 'payload', slot.version),
    ciphertext: ownBytes(slot, 'ciphertext', 96),
    encryption_epoch: String(slot.block.epoch),
    claimed_entry_fun: null
  }
}

function decrypted (slot: Slot, inner: Decrypted['decrypted_payload']): Decrypted {
  return {
    ...sealed(slot),
    claimed_entry_fun: { module: '0x42::game', name: 'move_to' },
    decrypted_payload: inner,
    decryption_nonce: ownBytes(slot, 'nonce', 16),
    encrypted_state: 'decrypted',
    type: 'encrypted_transaction_payload'
  }
}

function scriptAbi (): Exclude<Script['code']['abi'], null> {
  return {
    name: 'main',
    visibility: 'public',
    is_entry: true,
    is_view: false,
    generic_type_params: [{ constraints: ['key'] }],
    params: ['&signer', 'u64', 'bool'],
    return: []
  }
}
