import { digestBytes } from '../digests.js'
import { type Block, type Ledger } from '../ledger.js'
import { type EventRecord, type Payload, type TransactionMembers, type TransactionSignature } from '../records.js'
import { type SubmittedTransaction } from '../submissions.js'
import { type Write } from '../write.js'
import { type SettledWrite } from './render-write-set.js'

/** Place of a transaction in the chain; generated content depends on nothing else, so every run is the same. */
export interface TransactionLocation {
  readonly ledger: Ledger
  readonly block: Block
  readonly version: bigint
}

/** Parts in which one kind of user transaction differs from another. */
export interface UserKind {
  readonly makePayload: (location: TransactionLocation) => Payload
  /** Undefined means signed by the sender's single Ed25519 key. */
  readonly makeSignature?: (location: TransactionLocation) => TransactionSignature
  readonly writes: (location: TransactionLocation) => Write[]
  readonly events: (location: TransactionLocation) => EventRecord[]
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure?: string
  /** Replay protection by nonce instead of sequence number. */
  readonly hasNonce?: boolean
}

/** Effects of a transaction: its writes, events, fee and failure. */
export interface Outcome {
  readonly writes: readonly Write[]
  /** Builds the events of modules; those of streams follow from the location. */
  readonly moduleEvents: () => readonly EventRecord[]
  readonly gas: bigint
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure?: string
  /** Undefined where no account sent the transaction. */
  readonly kind?: UserKind
  /** Undefined except where a client submitted the transaction. */
  readonly submitted?: SubmittedTransaction
}

/** A committed transaction with everything that its hashes are of. */
export interface Executed {
  readonly location: TransactionLocation
  readonly outcome: Outcome
  readonly writes: readonly SettledWrite[]
  readonly writeSet: Buffer
  readonly events: readonly Emitted[]
  readonly info: TransactionInfo
}

/** An event inside a transaction, in its two forms; it has no version. */
export interface Emitted {
  readonly record: EventRecord
  readonly bytes: Buffer
}

/** Outcome and hashes of a transaction, which its leaf in the accumulator is of. */
export interface TransactionInfo {
  readonly gas: bigint
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure: string | undefined
  readonly hash: Buffer
  readonly eventRoot: Buffer
  readonly stateChange: Buffer
  /** Undefined except at the end of a block. */
  readonly checkpoint: Buffer | undefined
}

/** A kind of transaction: what it does, and the members that its JSON adds to those of all transactions. */
export interface TransactionKind {
  readonly outcomeOf: (location: TransactionLocation) => Outcome
  readonly membersOf: (executed: Executed) => TransactionMembers
}

/** Returns the outcome of a transaction without a fee and that emits no event of a module. */
export function freeOutcome (writes: readonly Write[], moduleEvents: readonly EventRecord[] = []): Outcome {
  return { writes, moduleEvents: () => moduleEvents, gas: 0n }
}

/** Builds a module event, which belongs to no stream: all module events print the same guid. */
export function moduleEvent (type: string, data: unknown): EventRecord {
  return { guid: { creation_number: '0', account_address: '0x0' }, sequence_number: '0', type, data }
}

/** Builds the event that reports the gas charged for a transaction. */
export function feeStatement (gas: bigint): EventRecord {
  return moduleEvent('0x1::transaction_fee::FeeStatement', {
    execution_gas_units: String(gas - 2n),
    io_gas_units: '2',
    storage_fee_octas: '0',
    storage_fee_refund_octas: '0',
    total_charge_gas_units: String(gas)
  })
}

/** Generates bytes unique to a transaction and purpose; repeats one digest, since hashing more would be slow. */
export function generateHex ({ ledger, version }: TransactionLocation, purpose: string, size: number): string {
  return `0x${Buffer.alloc(size, digestBytes(ledger.seed, purpose, version)).toString('hex')}`
}
