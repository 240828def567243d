import { type Address } from './address.js'
import { type DrawnValue } from './drawn-value.js'
import { type Ledger } from './ledger.js'
import { countOf, type Stream } from './stream.js'
import { addressValue, structValue, u64Value } from './value.js'

/** What a resource holds at a version. */
export interface Held {
  readonly value: DrawnValue
  /** The streams of those fields that are event handles. */
  readonly handles: Readonly<Record<string, Stream>>
}

/** A resource of an account through all versions; undefined at those where the account does not have it. */
export interface ResourcePlan {
  readonly type: string
  readonly at: (ledger: Ledger, version: bigint) => Held | undefined
}

/** A resource without event handles. */
export function plain (type: string, value: (ledger: Ledger, version: bigint) => DrawnValue): ResourcePlan {
  return { type, at: (ledger, version) => ({ value: value(ledger, version), handles: {} }) }
}

/** The field of an event handle: its counter is the number of events that the stream has at the version. */
export function handleValue (ledger: Ledger, stream: Stream, version: bigint): DrawnValue {
  return structValue([['counter', u64Value(BigInt(countOf(ledger, stream, version)))], [
    'guid',
    guidValue(stream.account, stream.creationNumber)
  ]])
}

function guidValue (account: Address, creationNumber: bigint): DrawnValue {
  return structValue([[
    'id',
    structValue([['creation_num', u64Value(creationNumber)], ['addr', addressValue(account)]])
  ]])
}
