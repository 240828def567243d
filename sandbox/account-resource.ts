import { type Address, addressOf } from './address.js'
import { emptyStream, depositAccount } from './deposit-events.js'
import { digestBytes } from './seeded-digest.js'
import { type Ledger } from './ledger.js'
import { defineResource, handleValue, type ResourceDefinition } from './resource-definition.js'
import { nextSequenceAt } from './sender-schedule.js'
import { bytesValue, optionValue, structValue, u64Value, type EncodedValue } from './encoded-value.js'

/** Account resources, by address. */
export const accountResources: ReadonlyMap<Address, ResourceDefinition> = new Map(
  ['1', '42', 'cafe', 'feed', 'a11ce', 'b0b'].map(addressOf).map(address => [
    address,
    defineResource(address, '0x1::account::Account', (ledger, version) =>
      accountValue(ledger, address, version, {
        authenticationKey: digestBytes(ledger.seed, 'authentication', address),
        sequence: nextSequenceAt(ledger, address, version),
        creationNumber: address === addressOf('1') ? 5n : address === depositAccount ? 4n : 2n
      }))
  ])
)

/** Returns the account resource of any address; the first transaction that it sends creates a missing one. */
export function accountOf (address: Address): ResourceDefinition {
  return accountResources.get(address) ??
    defineResource(address, '0x1::account::Account', (ledger, version) => defaultAccount(ledger, address, version))
}

/** Account resource that nodes make up for an address without one: it authenticates as itself. */
export function defaultAccount (ledger: Ledger, address: Address, version: bigint): EncodedValue {
  return accountValue(ledger, address, version, {
    authenticationKey: Buffer.from(address, 'hex'),
    sequence: ledger.submissions.sendsOf(address, version),
    creationNumber: 2n
  })
}

interface AccountState {
  readonly authenticationKey: Buffer
  readonly sequence: bigint
  readonly creationNumber: bigint
}

function accountValue (
  ledger: Ledger,
  address: Address,
  version: bigint,
  { authenticationKey, sequence, creationNumber }: AccountState
): EncodedValue {
  const offer: EncodedValue = structValue([['for', optionValue()]])
  return structValue([
    ['authentication_key', bytesValue(authenticationKey)],
    ['sequence_number', u64Value(sequence)],
    ['guid_creation_num', u64Value(creationNumber)],
    ['coin_register_events', handleValue(ledger, emptyStream(address, 0n), version)],
    ['key_rotation_events', handleValue(ledger, emptyStream(address, 1n), version)],
    ['rotation_capability_offer', offer],
    ['signer_capability_offer', offer]
  ])
}
