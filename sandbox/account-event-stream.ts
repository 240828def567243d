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

/** Events of one handle, in sequence. */
export interface AccountEventStream {
  readonly account: Address
  readonly creationNumber: bigint
  /** Number of events once the chain has reached a height. */
  readonly countAtHeight: (height: number) => number
  readonly eventAt: (ledger: Ledger, sequence: number) => LedgerEvent
}

/** Returns the number of events of a stream at a version, without an event that comes later in the same block. */
export function eventCountAt (ledger: Ledger, stream: AccountEventStream, version: bigint): number {
  const count = stream.countAtHeight(Number(ledger.blockOf(version).height))
  return count > 0 && stream.eventAt(ledger, count - 1).version > version ? count - 1 : count
}
