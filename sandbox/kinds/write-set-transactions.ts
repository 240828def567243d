import { accountResources } from '../account-resource.js'
import { blockResources, constantResources, epochResources } from '../framework-resources.js'
import { assetMetadata, coinStore, primaryStores } from '../native-coin-resources.js'
import { resourceWrite } from '../resource-definition.js'
import { scheduledWrite } from '../scheduled-value.js'
import { type GenesisTransaction, type WriteSet } from '../records.js'
import { genesisItemKeys, itemWrite } from '../generated-table-items.js'
import { type Write } from '../write.js'
import { committedMembersOf, type Executed } from './executed.js'
import { makeScript } from './payloads.js'
import { type TransactionLocation } from './transaction-location.js'
import { scheduledValues } from './user-transaction-kinds.js'

/** Returns what the genesis transaction writes: every key of the initial state. */
export function genesisWrites ({ ledger, version }: TransactionLocation): Write[] {
  const definitions = [
    ...accountResources.values(),
    ...blockResources,
    ...epochResources,
    ...constantResources,
    coinStore,
    assetMetadata,
    ...primaryStores.values()
  ]
  return [
    ...scheduledValues.filter(({ stateAt }) => stateAt(0) !== undefined).map(value => scheduledWrite(value, ledger, 0)),
    ...definitions.map(definition => resourceWrite(definition, ledger, version)),
    ...genesisItemKeys.map(key => itemWrite(ledger.seed, key, version))
  ]
}

/** Builds the genesis transaction, or an administrative write set that lists its changes one by one. */
export function makeDirectWriteSet (executed: Executed): GenesisTransaction {
  const { changes } = committedMembersOf(executed)
  const events = executed.events.map(({ record }) => record)
  return makeWriteSetTransaction(executed, { changes, events, type: 'direct_write_set' })
}

/** Builds an administrative write set that is the result of a script. */
export function makeScriptWriteSet (executed: Executed): GenesisTransaction {
  const script = { ...makeScript(executed.location, true), type_arguments: [], arguments: ['0x1'] }
  return makeWriteSetTransaction(executed, { execute_as: '0x1', script, type: 'script_write_set' })
}

function makeWriteSetTransaction (executed: Executed, writeSet: WriteSet): GenesisTransaction {
  return {
    ...committedMembersOf(executed),
    payload: { write_set: writeSet, type: 'write_set_payload' },
    events: executed.events.map(({ record }) => record),
    type: 'genesis_transaction'
  }
}
