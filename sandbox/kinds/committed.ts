import { digestHex, digestsHex } from '../digest.js'
import { type Ledger } from '../ledger.js'
import { type WriteSetChange } from '../schema/change.js'
import { type Committed } from '../schema/committed.js'
import { type TransactionLocation } from './transaction-location.js'

/** Returns the hash of a transaction; it depends on seed and version alone, so pending transactions have it too. */
export function transactionHash ({ seed }: Ledger, version: bigint): string {
  return String(digestsHex(1, seed, 'hashes', version)[0])
}

/** Builds the members that all committed transactions share. */
export function committedMembersOf (
  { ledger, block, version }: TransactionLocation,
  changes: WriteSetChange[],
  gas: bigint,
  failure?: string
): Committed {
  const [hash, stateChange, eventRoot, accumulator] = digestsHex(4, ledger.seed, 'hashes', version)
  return {
    version: String(version),
    hash: String(hash),
    state_change_hash: String(stateChange),
    event_root_hash: String(eventRoot),
    // Nodes send a state checkpoint hash only in the last transaction of a block.
    state_checkpoint_hash: version === block.lastVersion ? digestHex(ledger.seed, 'checkpoint', version) : null,
    gas_used: String(gas),
    success: failure === undefined,
    vm_status: failure ?? 'Executed successfully',
    accumulator_root_hash: String(accumulator),
    changes
  }
}
