import { type Address, addressOf } from '../address.js'
import { eventRecord, eventsOfVersion } from '../events.js'
import { modulesAt } from '../modules.js'
import { resourcesAt } from '../resources.js'
import { type Change } from '../schema/change.js'
import { type GenesisTransaction, type WriteSet } from '../schema/transaction-genesis.js'
import { busyItem, moduleChange, resourceChange } from './changes.js'
import { committedPart } from './committed.js'
import { scriptOf } from './payloads.js'
import { type Slot } from './slot.js'

const accounts = ['1', '42', 'cafe'].map(addressOf)

/** How the chain began: with every module and resource that was there at once. */
export function genesis (slot: Slot): GenesisTransaction {
  const changes = accounts.flatMap(address => stateOf(slot, address))
  const events = eventsOfVersion(slot.ledger, slot.block, slot.version).map(eventRecord)
  return writtenPastRules(slot, changes, { changes, events, type: 'direct_write_set' })
}

/** What the keepers of the chain have set right by hand: told thing by thing. */
export function handWritten (slot: Slot): GenesisTransaction {
  const changes = busyItem(slot, 100)
  return writtenPastRules(slot, changes, { changes, events: [], type: 'direct_write_set' })
}

/** What the keepers of the chain have set right by hand: by a script. */
export function handRun (slot: Slot): GenesisTransaction {
  const script = { ...scriptOf(slot, true), type_arguments: [], arguments: ['0x1'] }
  return writtenPastRules(slot, busyItem(slot, 100), { execute_as: '0x1', script, type: 'script_write_set' })
}

function writtenPastRules (slot: Slot, changes: Change[], writeSet: WriteSet): GenesisTransaction {
  return {
    ...committedPart(slot, changes, 0n),
    payload: { write_set: writeSet, type: 'write_set_payload' },
    events: writeSet.type === 'direct_write_set' ? writeSet.events : [],
    type: 'genesis_transaction'
  }
}

function stateOf (slot: Slot, address: Address): Change[] {
  return [
    ...modulesAt(slot.ledger, address, slot.version).map(({ name }) => moduleChange(slot, address, name)),
    ...resourcesAt(slot.ledger, address, slot.version).map(({ tag }) => resourceChange(slot, address, tag))
  ]
}
