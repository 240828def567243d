import { type EventRecord } from '../records.js'
import { type SubmittedTransaction } from '../submissions.js'
import { type Write } from '../write.js'
import { type UserTransactionKind } from './user-transaction-kinds.js'

/** Effects of a transaction: its writes, events, fee and failure. */
export interface Outcome {
  readonly writes: readonly Write[]
  /** Builds the events of modules; those of streams follow from the location. */
  readonly moduleEvents: () => readonly EventRecord[]
  readonly gas: bigint
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure?: string
  /** Undefined where no account sent the transaction. */
  readonly kind?: UserTransactionKind
  /** Undefined except where a client submitted the transaction. */
  readonly submitted?: SubmittedTransaction
}

/** Returns the outcome of a transaction without a fee and that emits no event of a module. */
export function freeOutcome (writes: readonly Write[], moduleEvents: readonly EventRecord[] = []): Outcome {
  return { writes, moduleEvents: () => moduleEvents, gas: 0n }
}
