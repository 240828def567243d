import { type Address, addressOf } from './address.js'
import { emptyStream, depositor } from './deposits.js'
import { digest } from './digest.js'
import { type DrawnValue } from './drawn-value.js'
import { type Ledger } from './ledger.js'
import { type Held, handleValue, type ResourcePlan } from './resource-plan.js'
import { sequenceAt } from './senders.js'
import { bytesValue, optionValue, structValue, u64Value } from './value.js'

const existing: readonly Address[] = ['1', '42', 'cafe', 'feed', 'a11ce', 'b0b'].map(addressOf)

/** Whether an address has an account of its own. */
export function hasAccount (address: Address): boolean {
  return existing.includes(address)
}

/** The key that an account is authenticated by: the address itself where there is no account. */
export function authenticationKey ({ seed }: Ledger, address: Address): Buffer {
  return hasAccount(address) ? digest(seed, 'authentication', address) : Buffer.from(address, 'hex')
}

/** The resource that every account has. */
export function accountPlan (address: Address): ResourcePlan {
  return { type: '0x1::account::Account', at: (ledger, version) => accountHeld(ledger, address, version) }
}

/** The account at an address; nodes make one up where there is none. */
export function accountHeld (ledger: Ledger, address: Address, version: bigint): Held {
  const handles = { coin_register_events: emptyStream(address, 0n), key_rotation_events: emptyStream(address, 1n) }
  const offer: DrawnValue = structValue([['for', optionValue()]])
  return {
    handles,
    value: structValue([
      ['authentication_key', bytesValue(authenticationKey(ledger, address))],
      ['sequence_number', u64Value(sequenceAt(ledger, address, version))],
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
  if (address !== depositor) return 2n
  return ledger.remaking !== undefined && ledger.blockOf(version).height >= ledger.remaking.backAt ? 6n : 4n
}
