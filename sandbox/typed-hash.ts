import { hash } from 'node:crypto'

/** Returns the hash function of a type of the ledger: SHA3-256 behind a prefix that names the type. */
export function hasherOf (type: string): (...parts: readonly Buffer[]) => Buffer {
  const prefix = hash('sha3-256', `APTOS::${type}`, 'buffer')
  // Decoding hex is faster than a hash that returns a buffer.
  return (...parts) => Buffer.from(hash('sha3-256', Buffer.concat([prefix, ...parts]), 'hex'), 'hex')
}

/** Prints a hash as JSON does. */
export function printHash (bytes: Buffer): string {
  return `0x${bytes.toString('hex')}`
}
