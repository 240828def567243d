import { type Address } from './address.js'
import { type EncodedValue } from './generated-value.js'
import { type Ledger } from './ledger.js'
import { eventCountAt, type EventStream } from './event-stream.js'
import { addressValue, structValue, u64Value } from './encoded-value.js'

/** What a resource holds at a version. */
export interface ResourceContent {
  readonly value: EncodedValue
  /** The streams of those fields that are event handles. */
  readonly handles: Readonly<Record<string, EventStream>>
}

/** A resource of an account through all versions; undefined at those where the account does not have it. */
export interface ResourceDefinition {
  readonly type: string
  readonly contentAt: (ledger: Ledger, version: bigint) => ResourceContent | undefined
}

/** A resource without event handles. */
export function definePlainResource (
  type: string,
  value: (ledger: Ledger, version: bigint) => EncodedValue
): ResourceDefinition {
  return { type, contentAt: (ledger, version) => ({ value: value(ledger, version), handles: {} }) }
}

/** The field of an event handle: its counter is the number of events that the stream has at the version. */
export function handleValue (ledger: Ledger, stream: EventStream, version: bigint): EncodedValue {
  return structValue([['counter', u64Value(BigInt(eventCountAt(ledger, stream, version)))], [
    'guid',
    guidValue(stream.account, stream.creationNumber)
  ]])
}

function guidValue (account: Address, creationNumber: bigint): EncodedValue {
  return structValue([[
    'id',
    structValue([['creation_num', u64Value(creationNumber)], ['addr', addressValue(account)]])
  ]])
}
