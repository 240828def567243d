import { digest } from '../digest.js'
import { type Block, type Ledger } from '../ledger.js'

/** The place of one transaction in the chain: what it is made of depends on nothing else. */
export interface Slot {
  readonly ledger: Ledger
  readonly block: Block
  readonly version: bigint
}

/** Bytes that are the transaction's own, as many as wanted: a digest over and over, which is quick to make. */
export function ownBytes ({ ledger, version }: Slot, what: string, size: number): string {
  return `0x${Buffer.alloc(size, digest(ledger.seed, what, version)).toString('hex')}`
}
