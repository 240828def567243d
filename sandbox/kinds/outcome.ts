import { eventRoot as rootOfEvents } from '../accumulator.js'
import { addressBytes, addressOf } from '../address.js'
import { integerBytes, textBytes, u64Bytes, optionBytes, variant } from '../bcs.js'
import { digestBytes, hasherOf, printHash } from '../digests.js'
import { eventBytes, eventRecord, eventsOfVersion } from '../events.js'
import { type Block, type Ledger } from '../ledger.js'
import {
  type Committed,
  type EventRecord,
  type LimitsRequest,
  type Payload,
  type TransactionMembers,
  type TransactionSignature
} from '../records.js'
import { type SubmittedTransaction } from '../submissions.js'
import { trustedTypeTag, typeTagBytes } from '../type-tag.js'
import { type Write } from '../write.js'
import { changesOf, type SettledWrite, settledWrites, writeSetBytes } from './render-write-set.js'

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
  readonly limits?: LimitsRequest
}

/** Effects of a transaction: its writes, events, fee and failure. */
export interface Outcome {
  readonly writes: readonly Write[]
  /** Builds the events of modules; those of streams follow from the location. */
  readonly moduleEvents: () => readonly EventRecord[]
  readonly gas: bigint
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure?: string
  /** Undefined if no account sent the transaction. */
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
  /** Events in their two forms; inside a transaction they have no version. */
  readonly events: ReadonlyArray<{ readonly record: EventRecord, readonly bytes: Buffer }>
  readonly info: TransactionInfo
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

const hashWriteSet = hasherOf('WriteSet')
const hashEvent = hasherOf('ContractEvent')
const hashInfo = hasherOf('TransactionInfo')

/** Returns the hash of a transaction; it depends on seed and version alone, so pending transactions have it too. */
export function transactionHash (ledger: Ledger, version: bigint): string {
  return printHash(hashOf(ledger, version))
}

/** Hashes what a transaction did. */
export function execute (location: TransactionLocation, outcome: Outcome): Executed {
  const { ledger, block, version } = location
  const writes = settledWrites(outcome.writes)
  const writeSet = writeSetBytes(writes)
  const events = [
    // These bytes begin with the version.
    ...eventsOfVersion(ledger, block, version).map(event => ({
      record: eventRecord(event),
      bytes: eventBytes(event).subarray(8)
    })),
    ...outcome.moduleEvents().map(record => ({ record, bytes: moduleEventBytes(record) }))
  ]
  return {
    location,
    outcome,
    writes,
    writeSet,
    events,
    info: {
      gas: outcome.gas,
      failure: outcome.failure,
      hash: hashOf(ledger, version),
      eventRoot: rootOfEvents(events.map(({ bytes }) => hashEvent(bytes))),
      stateChange: hashWriteSet(writeSet),
      checkpoint: version === block.lastVersion ? digestBytes(ledger.seed, 'checkpoint', version) : undefined
    }
  }
}

/** Returns the events of a transaction as JSON prints them. */
export function recordsOf ({ events }: Executed): EventRecord[] {
  return events.map(({ record }) => record)
}

/** Builds the members that all committed transactions share. */
export function committedMembersOf ({ location, outcome, writes, info }: Executed): Committed {
  return {
    version: String(location.version),
    hash: printHash(info.hash),
    state_change_hash: printHash(info.stateChange),
    event_root_hash: printHash(info.eventRoot),
    state_checkpoint_hash: info.checkpoint === undefined ? null : printHash(info.checkpoint),
    gas_used: String(outcome.gas),
    success: outcome.failure === undefined,
    vm_status: outcome.failure ?? 'Executed successfully',
    // The chain fills it in, since it depends on all transactions before.
    accumulator_root_hash: '',
    changes: changesOf(writes, location.ledger.release)
  }
}

/** Encodes the outcome and the hashes of a transaction, as `TransactionInfo`. */
export function infoBytes (info: TransactionInfo, form: Ledger['transactionInfo'] = 'v0'): Buffer {
  const { gas, failure, hash, eventRoot, stateChange, checkpoint } = info
  const isNewer = form === 'v1'
  return Buffer.concat([
    Buffer.from([isNewer ? 1 : 0]),
    u64Bytes(gas),
    statusBytes(failure),
    hash,
    eventRoot,
    stateChange,
    optionBytes(checkpoint),
    ...isNewer ? [optionBytes(checkpoint)] : [],
    // Hashes that nodes leave out: of auxiliary information, and in the newer form eight more.
    Buffer.alloc(isNewer ? 9 : 1)
  ])
}

/** Returns the leaf of a transaction in the accumulator. */
export function leafOf ({ info, location: { ledger } }: Executed): Buffer {
  return hashInfo(infoBytes(info, ledger.transactionInfo))
}

// Drawn, since a real one is of the whole transaction, and a search by hash would have to build them all.
function hashOf ({ seed, chainId, submissions }: Ledger, version: bigint): Buffer {
  const submission = submissions.at(version)
  if (submission !== undefined) return Buffer.from(submission.transaction.hash.slice(2), 'hex')
  return digestBytes(seed, chainId, 'hash', version)
}

function statusBytes (failure: string | undefined): Buffer {
  if (failure === undefined) return variant(0)
  const module = Buffer.concat([Buffer.from([0]), addressBytes(addressOf('42')), textBytes('game')])
  if (failure === 'Out of gas') return variant(1)
  const [, address = '', name = '', code = ''] = /^Move abort in 0x(\w+)::(\w+): \w+\((\w+)\)/.exec(failure) ?? []
  if (code !== '') {
    const place = Buffer.concat([Buffer.from([0]), addressBytes(addressOf(address)), textBytes(name)])
    return variant(2, place, u64Bytes(BigInt(code)), optionBytes(undefined))
  }
  if (failure.startsWith('Execution failed in')) return variant(3, module, integerBytes(0n, 2), integerBytes(7n, 2))
  return variant(4, optionBytes(undefined))
}

// The data of module events is made up, so its bytes are its JSON text.
function moduleEventBytes ({ type, data }: EventRecord): Buffer {
  return variant(1, typeTagBytes(trustedTypeTag(type)), textBytes(JSON.stringify(data)))
}
