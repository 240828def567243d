import { type Address, shortAddress } from './address.js'
import { depositEvents, newBlockEvents, newEpochEvents, noEvents, type Stream } from './events.js'
import { printTypeTag, type StructTag } from './type-tag.js'

// The resources that hold event handles; a field without a stream is no handle.
const resources: Readonly<Record<string, Readonly<Record<string, Stream | 'other'>>>> = {
  '0x1 0x1::block::BlockResource': {
    height: 'other', epoch_interval: 'other', new_block_events: newBlockEvents, update_epoch_interval_events: noEvents
  },
  '0x1 0x1::reconfiguration::Configuration': { epoch: 'other', last_reconfiguration_time: 'other', events: newEpochEvents },
  '0xcafe 0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>': {
    coin: 'other', frozen: 'other', deposit_events: depositEvents, withdraw_events: noEvents
  }
}

/** The fields of a resource: streams of events, and others; undefined where the account has no such resource. */
export function resourceOf (address: Address, tag: StructTag): ReadonlyMap<string, Stream | 'other'> | undefined {
  const fields = resources[`${shortAddress(address)} ${printTypeTag(tag)}`]
  return fields === undefined ? undefined : new Map(Object.entries(fields))
}
