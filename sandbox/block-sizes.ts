import { digest } from './digest.js'

// Covers blocks with more transactions than a response may contain, and large blocks below that limit.
const bigBlocks: Readonly<Record<number, number>> = { 500: 12_000, 900: 3_500, 1500: 6_000 }

/** Number of versions in the block at a height; `mean` is the number of user transactions. */
export function blockSize (seed: number, height: number, mean?: number): number {
  // The genesis block has a single transaction.
  if (height === 0) return 1
  if (mean !== undefined) return 2 + Math.round(mean * (0.5 + digest(seed, 'size', height).readUInt8() / 255))
  const big = bigBlocks[height]
  if (big !== undefined) return big
  return height % 7 === 3 ? 1 : 1 + digest(seed, 'size', height).readUInt8() % 9
}
