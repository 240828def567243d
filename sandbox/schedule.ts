import { type Address, addressOf } from './address.js'
import { type Block, type Ledger } from './ledger.js'

/** The known accounts that send transactions, in turn. */
export const knownSenders: readonly Address[] = [addressOf('a11ce'), addressOf('b0b')]

/** Returns the known account that sends a transaction, with its sequence number; undefined for any other sender. */
export function knownSendAt (
  ledger: Ledger,
  block: Block,
  version: bigint
): { sender: Address, sequence: bigint } | undefined {
  if (version !== block.firstVersion + 1n) return undefined
  const index = knownSendsBefore(ledger, Number(block.height))
  const sender = knownSenders[index % knownSenders.length]
  if (sender === undefined || ledger.knownSendHeights[index] !== Number(block.height)) return undefined
  return { sender, sequence: BigInt(Math.floor(index / knownSenders.length)) }
}

/** Returns the sequence number that an account's next transaction has after a version. */
export function nextSequenceAt (ledger: Ledger, address: Address, version: bigint): bigint {
  return drawnSequenceAt(ledger, address, version) + ledger.submissions.sendsOf(address, version)
}

/** Returns the number of transactions up to a version that the seed makes an account send. */
export function drawnSequenceAt (ledger: Ledger, address: Address, version: bigint): bigint {
  const senderIndex = knownSenders.indexOf(address)
  if (senderIndex < 0) return 0n
  const block = ledger.blockOf(version)
  const sent = knownSendsBefore(ledger, Number(block.height) + (version > block.firstVersion ? 1 : 0))
  return BigInt(Math.max(0, Math.ceil((sent - senderIndex) / knownSenders.length)))
}

/** Returns the version of an account's transaction, which must be committed. */
export function versionOfSend (ledger: Ledger, address: Address, sequence: bigint): bigint {
  return ledger.submissions.versionOfSend(address, sequence) ?? versionOfKnownSend(ledger, address, sequence)
}

function versionOfKnownSend (ledger: Ledger, address: Address, sequence: bigint): bigint {
  return ledger.block(
    Number(ledger.knownSendHeights[Number(sequence) * knownSenders.length + knownSenders.indexOf(address)])
  )
    .firstVersion + 1n
}

function knownSendsBefore ({ knownSendHeights }: Ledger, height: number): number {
  let low = 0
  let high = knownSendHeights.length
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (Number(knownSendHeights[middle]) < height) low = middle + 1
    else high = middle
  }
  return low
}

/** Length of the cycle, in versions, after which the kinds of user transactions repeat. */
export const cycleVersions = 128n

/** Position of a version within its cycle. */
export function offsetInCycle ({ startVersion }: Ledger, version: bigint): number {
  return Number((version - startVersion) % cycleVersions)
}

// Avoids heights that are a multiple of 3 (deposits) and heights where known accounts send.
const firstKindsByHeight = {
  1: 'observed_jwk_update',
  7: 'dkg_result',
  13: 'dkg_result',
  19: 'direct_write_set',
  25: 'direct_write_set'
} as const

/** Kind of transaction that can follow the block metadata without a sender. */
export type SenderlessKind = typeof firstKindsByHeight[keyof typeof firstKindsByHeight]

/** Returns the kind of senderless transaction scheduled after the metadata of a block, if the block has one. */
export function senderlessKindAfterMetadata ({ height }: Block): SenderlessKind | undefined {
  const kinds: Readonly<Record<number, SenderlessKind>> = firstKindsByHeight
  return kinds[Number(height) % 30]
}

/** True if the seed has an account that sent the transaction of a version. */
function isUserTransaction (block: Block, version: bigint): boolean {
  if (version <= block.firstVersion || version >= block.submittedFrom) return false
  return version > block.firstVersion + 1n || senderlessKindAfterMetadata(block) === undefined
}

/** True if a user transaction may be of any kind; event streams and known accounts rely on the usual kind. */
export function mayBeAnyUserKind (block: Block, version: bigint): boolean {
  if (version > block.firstVersion + 1n) return isUserTransaction(block, version)
  return block.height % 3n !== 0n && block.height % 4n !== 2n && isUserTransaction(block, version)
}
