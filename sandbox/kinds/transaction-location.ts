import { type Block, type Ledger } from '../ledger.js'

/** Place of a transaction in the chain; generated content depends on nothing else, so every run is the same. */
export interface TransactionLocation {
  readonly ledger: Ledger
  readonly block: Block
  readonly version: bigint
}
