import { metadataWrites } from './kinds/block-transactions.js'
import { senderlessKindAfterMetadata } from './kinds/kind-schedule.js'
import { freeOutcome, type Outcome } from './kinds/outcome.js'
import { type TransactionLocation } from './kinds/transaction-location.js'
import { submittedOutput } from './kinds/submitted-transactions.js'
import { drawnItemWrite } from './kinds/user-transaction-kinds.js'
import { userOutcome } from './kinds/user-transactions.js'
import { validatorOutcome } from './kinds/validator-transactions.js'
import { genesisWrites } from './kinds/write-set-transactions.js'

/** Returns what a committed transaction did. */
export function transactionOutcomeOf (location: TransactionLocation): Outcome {
  const { block, version } = location
  const submission = location.ledger.submissions.at(version)
  if (submission !== undefined) return submittedOutput(location, submission)
  if (block.height === 0n) return freeOutcome(genesisWrites(location))
  if (version === block.firstVersion) return freeOutcome(metadataWrites(location))
  if (version === block.lastVersion) return freeOutcome([])
  const kind = version === block.firstVersion + 1n ? senderlessKindAfterMetadata(block) : undefined
  switch (kind) {
    case undefined:
      return userOutcome(location)
    case 'script_write_set':
    case 'direct_write_set':
      return freeOutcome([drawnItemWrite(location)])
    default:
      return validatorOutcome(location, kind)
  }
}
