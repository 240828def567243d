import { type Block, type Ledger } from '../ledger.js'

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
  13: 'chunky_d_k_g_result',
  19: 'script_write_set',
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
export function isUserTransaction (block: Block, version: bigint): boolean {
  if (version <= block.firstVersion || version >= block.submittedFrom) return false
  return version > block.firstVersion + 1n || senderlessKindAfterMetadata(block) === undefined
}

/** True if a user transaction may be of any kind; event streams and known accounts rely on the usual kind. */
export function mayBeAnyUserKind (block: Block, version: bigint): boolean {
  if (version > block.firstVersion + 1n) return isUserTransaction(block, version)
  return block.height % 3n !== 0n && block.height % 4n !== 2n && isUserTransaction(block, version)
}
