import { digestHex, digestsHex } from '../digest.js'
import { type Ledger } from '../ledger.js'
import { type Change } from '../schema/change.js'
import { type Committed } from '../schema/committed.js'
import { type Slot } from './slot.js'

/** The hash of a transaction: it is certain before the chain has taken it. */
export function transactionHash ({ seed }: Ledger, version: bigint): string {
  return String(digestsHex(1, seed, 'hashes', version)[0])
}

/** What every transaction tells that the chain has taken. */
export function committedPart (
  { ledger, block, version }: Slot,
  changes: Change[],
  gas: bigint,
  failure?: string
): Committed {
  const [hash, stateChange, eventRoot, accumulator] = digestsHex(4, ledger.seed, 'hashes', version)
  return {
    version: String(version),
    hash: String(hash),
    state_change_hash: String(stateChange),
    event_root_hash: String(eventRoot),
    // The last transaction of a block is where the state as a whole was hashed.
    state_checkpoint_hash: version === block.lastVersion ? digestHex(ledger.seed, 'checkpoint', version) : null,
    gas_used: String(gas),
    success: failure === undefined,
    vm_status: failure ?? 'Executed successfully',
    accumulator_root_hash: String(accumulator),
    changes
  }
}
