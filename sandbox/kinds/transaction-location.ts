import { digest } from '../digest.js'
import { type Block, type Ledger } from '../ledger.js'

/** Place of a transaction in the chain; generated content depends on nothing else, so every run is the same. */
export interface TransactionLocation {
  readonly ledger: Ledger
  readonly block: Block
  readonly version: bigint
}

/** Generates bytes unique to a transaction and purpose; repeats one digest, since hashing more would be slow. */
export function generateHex ({ ledger, version }: TransactionLocation, purpose: string, size: number): string {
  return `0x${Buffer.alloc(size, digest(ledger.seed, purpose, version)).toString('hex')}`
}
