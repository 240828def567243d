import { type Address, addressOf } from '../address.js'
import { eventRecord, eventsOfVersion } from '../ledger-events.js'
import { modulesAt } from '../modules.js'
import { resourcesAt } from '../resources.js'
import { type WriteSetChange } from '../schema/change.js'
import { type GenesisTransaction, type WriteSet } from '../schema/transaction-genesis.js'
import { busyItemChange, moduleChange, resourceChange } from './write-set-changes.js'
import { committedMembersOf } from './committed.js'
import { makeScript } from './payloads.js'
import { type TransactionLocation } from './transaction-location.js'

const genesisAccounts = ['1', '42', 'cafe'].map(addressOf)

/** Builds the genesis transaction, which writes every initial module and resource. */
export function makeGenesis (location: TransactionLocation): GenesisTransaction {
  const changes = genesisAccounts.flatMap(address => initialChanges(location, address))
  const events = eventsOfVersion(location.ledger, location.block, location.version).map(eventRecord)
  return makeWriteSetTransaction(location, changes, { changes, events, type: 'direct_write_set' })
}

/** Builds an administrative write set that lists its changes one by one. */
export function makeDirectWriteSet (location: TransactionLocation): GenesisTransaction {
  const changes = busyItemChange(location, 100)
  return makeWriteSetTransaction(location, changes, { changes, events: [], type: 'direct_write_set' })
}

/** Builds an administrative write set that is the result of a script. */
export function makeScriptWriteSet (location: TransactionLocation): GenesisTransaction {
  const script = { ...makeScript(location, true), type_arguments: [], arguments: ['0x1'] }
  return makeWriteSetTransaction(location, busyItemChange(location, 100), {
    execute_as: '0x1',
    script,
    type: 'script_write_set'
  })
}

function makeWriteSetTransaction (
  location: TransactionLocation,
  changes: WriteSetChange[],
  writeSet: WriteSet
): GenesisTransaction {
  return {
    ...committedMembersOf(location, changes, 0n),
    payload: { write_set: writeSet, type: 'write_set_payload' },
    events: writeSet.type === 'direct_write_set' ? writeSet.events : [],
    type: 'genesis_transaction'
  }
}

function initialChanges (location: TransactionLocation, address: Address): WriteSetChange[] {
  return [
    ...modulesAt(location.ledger, address, location.version).map(({ name }) => moduleChange(location, address, name)),
    ...resourcesAt(location.ledger, address, location.version).map(({ tag }) => resourceChange(location, address, tag))
  ]
}
