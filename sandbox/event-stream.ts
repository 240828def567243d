import { type Address } from './address.js'
import { type Ledger } from './ledger.js'

/** An event of a stream. */
export interface LedgerEvent {
  readonly version: bigint
  readonly creationNumber: bigint
  readonly account: Address
  readonly sequence: bigint
  readonly type: readonly [module: string, name: string]
  readonly data: Readonly<Record<string, unknown>>
  readonly bytes: Buffer
}

/** A run of events under one handle. */
export interface EventStream {
  readonly account: Address
  readonly creationNumber: bigint
  /** Number of events once the chain has reached a height. */
  readonly countAtHeight: (height: number) => number
  readonly eventAt: (ledger: Ledger, sequence: number) => LedgerEvent
}

/**
 * How many events of a stream there are at a version: fewer than at the end of its block where one is still to come.
 */
export function eventCountAt (ledger: Ledger, stream: EventStream, version: bigint): number {
  const count = stream.countAtHeight(Number(ledger.blockOf(version).height))
  return count > 0 && stream.eventAt(ledger, count - 1).version > version ? count - 1 : count
}
