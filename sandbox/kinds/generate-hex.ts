import { digestBytes } from '../seeded-digest.js'
import { type TransactionLocation } from './transaction-location.js'

/** Generates bytes unique to a transaction and purpose; repeats one digest, since hashing more would be slow. */
export function generateHex ({ ledger, version }: TransactionLocation, purpose: string, size: number): string {
  return `0x${Buffer.alloc(size, digestBytes(ledger.seed, purpose, version)).toString('hex')}`
}
