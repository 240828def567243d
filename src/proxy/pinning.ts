import { type Read } from '../api/read.js'
import { isHit, type Outcome } from './outcomes.js'
import { type ProxySettings } from './parts.js'

/**
 * The version that the cursor of an answer is to carry, so that the listing goes on at it; undefined where the client
 * is to have the node's own.
 */
export function pinOf (
  { pinsPages }: Pick<ProxySettings, 'pinsPages'>,
  read: Read,
  outcome: Outcome
): bigint | undefined {
  if (read.isPinned) return read.version
  if (!pinsPages || !read.endpoint.takesCursor || read.version !== undefined) return undefined
  // A latest answer: what no position tells the age of is no version's.
  const readAt = isHit(outcome) ? outcome.entry.readAt : outcome.fetched.answer.stamped?.position
  return readAt?.head.version
}
