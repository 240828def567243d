import { type Arrival } from '../chain/arrivals.js'
import { type Position } from '../api/position.js'
import { chainMismatch } from '../chain/chain-mismatch.js'
import { versionNotFound } from '../api/min-version.js'
import { type Read } from '../api/read.js'
import { unavailable } from '../api/refusal.js'
import { type Parts } from './parts.js'

/**
 * The versions that a read needs the fleet to have reached: the one it speaks of, and the one that a client asks for
 * expressly.
 */
export type Needs = Pick<Read, 'speaksOf' | 'atLeast'>

// Who asks for a version expressly may wait for it also where nobody else may.
const expresslyMs = 1000

/** Whether a read needs more than was shown yet. */
export function isAhead ({ tracker }: Parts, { speaksOf, atLeast }: Needs): boolean {
  if (speaksOf === undefined && atLeast === undefined) return false
  const shown = tracker.position?.head.version
  return (atLeast !== undefined && (shown === undefined || atLeast > shown)) ||
    (speaksOf !== undefined && shown !== undefined && speaksOf > shown)
}

/**
 * Waits, where it may, for the fleet to reach what a read needs. What is not reached in time is not there for a client
 * that asked for it expressly; of all else the nodes are asked as ever.
 */
export async function arrive (parts: Parts, { speaksOf, atLeast }: Needs): Promise<void> {
  const { now, settings: { waitMs, waitBlocks } } = parts
  const startedAt = now()
  if (atLeast !== undefined) await arriveExpressly(parts, atLeast)
  const { position } = parts.tracker
  const leftMs = waitMs - (now() - startedAt)
  if (speaksOf !== undefined && position !== undefined && leftMs > 0 && isJustAbove(position, speaksOf, waitBlocks)) {
    await wait(parts, speaksOf, leftMs)
  }
}

async function arriveExpressly (parts: Parts, version: bigint): Promise<void> {
  if (parts.tracker.position === undefined) await parts.settle()
  const { waitMs } = parts.settings
  const how = await wait(parts, version, waitMs === 0 ? expresslyMs : waitMs)
  // Whether it would have come is not known.
  if (how === 'no_place') throw unavailable('too many wait for a version')
  const { position } = parts.tracker
  if (position === undefined) {
    throw unavailable(
      chainMismatch(parts.nodes.members, parts.tracker) ?? 'no node has said yet where the chain stands'
    )
  }
  if (position.head.version < version) throw versionNotFound(version)
}

async function wait (parts: Parts, version: bigint, ms: number): Promise<Arrival> {
  if (!isAhead(parts, { speaksOf: undefined, atLeast: version })) return 'reached'
  const how = await parts.arrivals.reach(version, ms, parts.client)
  parts.tally.waited(how)
  return how
}

/** Whether a version is above the head by no more than so many blocks, of the size that they have had so far. */
function isJustAbove ({ head, oldest }: Position, version: bigint, blocks: number): boolean {
  const most = BigInt(blocks)
  const count = head.blockHeight - oldest.blockHeight
  const meant = count === 0n ? most : (most * (head.version - oldest.version) + count - 1n) / count
  return version > head.version && version - head.version <= (meant > most ? meant : most)
}
