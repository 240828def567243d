import { type Block, type Ledger } from '../ledger.js'

/** The versions after which the kinds of user transactions come again. */
export const cycle = 128n

/** Where a version stands within its cycle. */
export function placeOf ({ startVersion }: Ledger, version: bigint): number {
  return Number((version - startVersion) % cycle)
}

// None is a third block, which has a deposit there, nor an even one, as where the known accounts send.
const byHeight = {
  1: 'observed_jwk_update',
  7: 'dkg_result',
  13: 'chunky_d_k_g_result',
  19: 'script_write_set',
  25: 'direct_write_set'
} as const

/** What can stand at the head of a block, after its metadata, that no account has sent. */
export type HeadKind = typeof byHeight[keyof typeof byHeight]

/** What stands at the head of a block, where it has room, that no account has sent; mostly nothing does. */
export function headKindOf ({ height }: Block): HeadKind | undefined {
  const kinds: Readonly<Record<number, HeadKind>> = byHeight
  return kinds[Number(height) % 30]
}

/** Whether somebody has sent the transaction of a version of a block. */
export function isSent (block: Block, version: bigint): boolean {
  if (version <= block.firstVersion || version >= block.lastVersion) return false
  return version > block.firstVersion + 1n || headKindOf(block) === undefined
}

/**
 * Whether a transaction that somebody has sent may be of any kind: what the streams and the accounts tell of is usual.
 */
export function isFree (block: Block, version: bigint): boolean {
  if (version > block.firstVersion + 1n) return isSent(block, version)
  return block.height % 3n !== 0n && block.height % 4n !== 2n && isSent(block, version)
}
