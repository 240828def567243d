import { type Address } from './address.js'
import { type EncodedValue } from './generated-value.js'
import { type Ledger } from './ledger.js'
import { eventCountAt, type EventStream } from './event-stream.js'
import { addressValue, structValue, u64Value } from './encoded-value.js'

/** Content of a resource at a version. */
export interface ResourceContent {
  readonly value: EncodedValue
  /** Event streams by the name of the field that is their handle. */
  readonly handles: Readonly<Record<string, EventStream>>
}

/** Resource of an account across all versions; `contentAt` returns undefined where it does not exist. */
export interface ResourceDefinition {
  readonly type: string
  readonly contentAt: (ledger: Ledger, version: bigint) => ResourceContent | undefined
}

/** Defines a resource without event handles. */
export function definePlainResource (
  type: string,
  value: (ledger: Ledger, version: bigint) => EncodedValue
): ResourceDefinition {
  return { type, contentAt: (ledger, version) => ({ value: value(ledger, version), handles: {} }) }
}

/** Encodes an event handle; its counter is the number of events at the version. */
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
