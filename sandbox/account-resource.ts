import { type Address, addressOf } from './address.js'
import { emptyStream, depositAccount } from './deposit-events.js'
import { digest } from './digest.js'
import { type EncodedValue } from './generated-value.js'
import { type Ledger } from './ledger.js'
import { type ResourceContent, handleValue, type ResourceDefinition } from './resource-definition.js'
import { nextSequenceAt } from './known-senders.js'
import { bytesValue, optionValue, structValue, u64Value } from './encoded-value.js'

const existingAddresses: readonly Address[] = ['1', '42', 'cafe', 'feed', 'a11ce', 'b0b'].map(addressOf)

/** True for addresses with an account resource on chain. */
export function hasAccount (address: Address): boolean {
  return existingAddresses.includes(address)
}

/** Authentication key of an account; an address without an account authenticates as itself. */
export function authenticationKey ({ seed }: Ledger, address: Address): Buffer {
  return hasAccount(address) ? digest(seed, 'authentication', address) : Buffer.from(address, 'hex')
}

/** Defines the account resource of an address. */
export function accountDefinition (address: Address): ResourceDefinition {
  return { type: '0x1::account::Account', contentAt: (ledger, version) => accountContentAt(ledger, address, version) }
}

/** Builds the account resource at an address; like nodes, returns a default one where none exists. */
export function accountContentAt (ledger: Ledger, address: Address, version: bigint): ResourceContent {
  const handles = { coin_register_events: emptyStream(address, 0n), key_rotation_events: emptyStream(address, 1n) }
  const offer: EncodedValue = structValue([['for', optionValue()]])
  return {
    handles,
    value: structValue([
      ['authentication_key', bytesValue(authenticationKey(ledger, address))],
      ['sequence_number', u64Value(nextSequenceAt(ledger, address, version))],
      ['guid_creation_num', u64Value(nextCreationNumber(ledger, address, version))],
      ['coin_register_events', handleValue(ledger, handles.coin_register_events, version)],
      ['key_rotation_events', handleValue(ledger, handles.key_rotation_events, version)],
      ['rotation_capability_offer', offer],
      ['signer_capability_offer', offer]
    ])
  }
}

function nextCreationNumber (ledger: Ledger, address: Address, version: bigint): bigint {
  if (address === addressOf('1')) return 5n
  if (address !== depositAccount) return 2n
  return ledger.remaking !== undefined && ledger.blockOf(version).height >= ledger.remaking.backAt ? 6n : 4n
}
